"""Nodes for allocations that are to be made together, without making any of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol, TypeAlias

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.constraints.expressions import first_unmet

if TYPE_CHECKING:
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.partition import Partition
    from schedulerd.core.state.pending.ask_group import AskGroup
    from schedulerd.core.state.pending.request_class import RequestClass

_Entry: TypeAlias = "tuple[float, str, Node]"


class Placing(Protocol):
    """Chooses nodes for pending allocations, and can go back."""

    def take(
        self, group: AskGroup, count: int, within: Collection[Node] | None, *, is_tight: bool = False
    ) -> list[Node]:
        """The nodes for up to `count` pending allocations of the group, fewer if there is no room for more: one after
        the other, the first in node order that has room beside those chosen before. `within`: of these nodes only;
        then `is_tight` may change the order, so that what is left stays together: first where there is room for
        fewest."""

    def mark(self) -> int:
        """What was chosen so far, for `back_to`."""

    def back_to(self, mark: int) -> None:
        """Forgets what was chosen since the mark."""

    @property
    def left(self) -> Mapping[Node, Resources]:
        """What is left free on the nodes that were chosen, if the nodes themselves do not say it."""


class PlannedPlacing:
    """Changes nothing: what is chosen is counted here. For request classes without affinity and required node."""

    __slots__ = ("_chosen", "_partition", "left", "visits")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._chosen: list[tuple[Node, RequestClass, int]] = []
        self.left: dict[Node, Resources] = {}
        self.visits = 0
        """Nodes visited."""

    def take(
        self, group: AskGroup, count: int, within: Collection[Node] | None, *, is_tight: bool = False
    ) -> list[Node]:
        request_class, left = group.request_class, self.left
        ahead: Iterator[_Entry] = iter(())
        if within is None:
            heap = [self._entry(node) for node in left if _takes(request_class, node, left[node])]
            order = self._partition.candidates(request_class)
            ahead = order.with_room(request_class)
        else:
            fitting = [node for node in within if node not in left or _fits(request_class, left[node])]
            heap = [self._entry(node, request_class if is_tight else None) for node in fitting]
        heapify(heap)
        self.visits += len(heap) + count
        nodes: list[Node] = []
        entry = next(ahead, None)
        while len(nodes) < count:
            if entry is not None and (not heap or entry < heap[0]):
                node, entry = entry[2], next(ahead, None)
                if node in left:
                    continue  # it is in the heap, if it has room
            elif heap:
                node = heappop(heap)[2]
            else:
                break
            nodes.append(node)
            if self._choose(node, request_class):
                heappush(heap, self._entry(node, request_class if is_tight and within is not None else None))
        return nodes

    def mark(self) -> int:
        return len(self._chosen)

    def back_to(self, mark: int) -> None:
        while len(self._chosen) > mark:
            node, request_class, count = self._chosen.pop()
            self.left[node].add(request_class.items, count)

    def _choose(self, node: Node, request_class: RequestClass, count: int = 1) -> bool:
        """Returns whether one more has room there."""
        left = self.left.get(node)
        if left is None:
            left = self.left[node] = Resources(node.free)
        for name, amount in request_class.items:
            left[name] -= amount * count
        self._chosen.append((node, request_class, count))
        return _fits(request_class, left)

    def _entry(self, node: Node, tight_for: RequestClass | None = None) -> _Entry:
        """The place of the node in the node order, if what was chosen were allocated; or by how many allocations of a
        class it has room for."""
        left = self.left.get(node)
        if tight_for is not None:
            free = node.free if left is None else left
            return min((free[name] // amount for name, amount in tight_for.items), default=0), node.node_id, node
        if left is None:
            return node.score, node.node_id, node
        available = left
        if node.free is not node.available or node.predicate_reserved:
            available = node.available_beside_checks.minus(node.free).plus(left)
        return node.scoring.score(node.capacity, available), node.node_id, node


class RoughPlacing(PlannedPlacing):
    """Only finds out whether there is room: it fills one node after the other, which costs a visit for each node and
    not for each allocation."""

    __slots__ = ()

    def take(
        self, group: AskGroup, count: int, within: Collection[Node] | None, *, is_tight: bool = False
    ) -> list[Node]:
        request_class = group.request_class
        chosen: list[Node] = []
        among = (
            (entry[2] for entry in self._partition.candidates(request_class).with_room(request_class))
            if within is None
            else within
        )
        for node in among:
            free = self.left.get(node, node.free)
            each = min((free[name] // amount for name, amount in request_class.items), default=count)
            here = min(each, count - len(chosen))
            self.visits += 1
            if here > 0:
                self._choose(node, request_class, here)
                chosen += [node] * here
                if len(chosen) == count:
                    break
        return chosen


def _fits(request_class: RequestClass, free: Resources) -> bool:
    return free.lacks(request_class.items) is None


def _takes(request_class: RequestClass, node: Node, free: Resources) -> bool:
    constraint = request_class.constraint
    return _fits(request_class, free) and (constraint is None or first_unmet(constraint.node, node.attribute) is None)
