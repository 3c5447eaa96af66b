"""Why no node has room, for many asks at once: one walk over the nodes, then a few steps for each class of asks.

A survey (`nodes.py`) visits every node for one ask; for all that waits in a queue that would be too much. Here what the
nodes have free is sorted once, and how many lack a resource is looked up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

from schedulerd.core.explain.causes import NoRoomCause, NoRoomWhy
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import RequestClass

NODES_A_TURN = 50
"""Nodes that are visited without a stop."""
CONSTRAINTS_SEEN_MAX = 20
"""Classes with a constraint for which a node is looked for that the constraint allows."""


class Room:
    """What the nodes of a partition have free, by resource."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._free: dict[str, list[int]] = {}
        """Amounts of the nodes that have the resource at all, in ascending order."""
        self._nodes = self._closed = 0
        self._causes: dict[RequestClass, NoRoomCause] = {}
        self._is_counted = False
        self._constraints_left = CONSTRAINTS_SEEN_MAX

    def count(self) -> Iterator[None]:
        """Visits every node, the first time; stops after each `NODES_A_TURN`."""
        if self._is_counted:
            return
        for number, node in enumerate(list(self._partition.nodes.values()), 1):
            if number % NODES_A_TURN == 0:
                yield
            if not node.ordered:
                self._closed += 1
                continue
            self._nodes += 1
            free = node.free
            for name in node.capacity:
                self._free.setdefault(name, []).append(free[name])
        for amounts in self._free.values():
            amounts.sort()
            yield
        self._is_counted = True

    def cause(self, request_class: RequestClass) -> NoRoomCause:
        """Why no node has room for asks of this class."""
        found = self._causes.get(request_class)
        if found is None:
            found = self._causes[request_class] = self._cause(request_class)
        return found

    def _cause(self, request_class: RequestClass) -> NoRoomCause:
        largest = self._partition.largest()
        asked = dict(request_class.items)
        lacking = {name: self._lacking(name, amount) for name, amount in request_class.items}
        insufficient = {name: lacking[name] for name in sorted(lacking, key=lambda one: -lacking[one]) if lacking[name]}
        why: NoRoomWhy
        too_large = next((name for name, amount in request_class.items if amount > largest[name]), "")
        resource = too_large or next(iter(insufficient), "")
        if not self._partition.nodes:
            why, resource = "no nodes", ""
        elif request_class.required_node:
            why, resource = "required node", ""
        elif too_large:
            why = "too large"
        elif request_class.constraint is not None and not self._lacks_room_only(request_class, insufficient):
            why, resource = "constraint", ""
        else:
            why = "insufficient"
        return NoRoomCause(
            kind="no room",
            why=why,
            resource=resource,
            asked=asked.get(resource, 0),
            largest=largest[resource] if resource else 0,
            insufficient=insufficient,
            nodes=self._nodes,
            closed=self._closed,
            node_id=request_class.required_node,
        )

    def _lacks_room_only(self, request_class: RequestClass, insufficient: Mapping[str, int]) -> bool:
        """Whether no node has room, whatever the constraint, and the constraint allows one of them; False if it is not
        sure."""
        if not self._nodes or self._nodes > max(insufficient.values(), default=0) or not self._constraints_left:
            return False
        self._constraints_left -= 1
        allows = self._partition.constraints.rule(request_class).allows
        return any(allows(node) for node in self._partition.nodes.values())

    def _lacking(self, name: str, amount: int) -> int:
        amounts = self._free.get(name, [])
        return self._nodes - len(amounts) + bisect_left(amounts, amount)
