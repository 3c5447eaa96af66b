"""A cluster autoscaler: it adds nodes for asks that no node takes, all those of an application in one rack, and removes
nodes of its own that are empty.

It knows what a resource manager is told of scheduling states, and what that asked for; nothing of queues and gangs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from schedulerd.core.language.commands import NodeAction, NodeUpdate
from schedulerd.core.language.facts.fact import Allocated, AskAdded, AskWithdrawn, Fact, ResourceManagerChanged
from schedulerd.core.language.facts.scheduling_states import SchedulingState, SchedulingStateChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.resources import Items, Resources
from tests.sim.rm_memory import ResourceManagerMemory

LEVEL, RACKS = "rack", ("r1", "r2")
TEMPLATE = Resources(memory=120, vcore=40, gpu=4)
"""What a node has that it adds."""
PREFIX = "grown-"
ASKS_MAX = 20
"""It gives up on an ask for more allocations: somebody has mistyped that."""

Key: TypeAlias = tuple[str, str, str]
"""Partition, application and key of an ask."""


class Autoscaler:
    """Of one resource manager."""

    def __init__(self, rm_id: str) -> None:
        self.rm_id = rm_id
        self.grown = 0
        """How many nodes it has added."""
        self.unschedulable: dict[Key, None] = {}
        """Asks that failed, as the resource manager was told last."""
        self._pending: Counter[tuple[Key, Items]] = Counter()
        self._looks = 0

    def hear(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if getattr(fact, "rm_id", None) != self.rm_id:
                continue
            match fact:
                case ResourceManagerChanged(state=ResourceManagerState.INIT | ResourceManagerState.STOPPED):
                    self.unschedulable.clear()
                    self._pending.clear()
                case SchedulingStateChanged():
                    self.unschedulable.pop(_key(fact), None)
                    if fact.state is SchedulingState.FAILED:
                        self.unschedulable[_key(fact)] = None
                case AskAdded(slot=False):
                    self._pending[_key(fact), fact.resources.canonical()] += fact.count
                case AskWithdrawn(slot=False):
                    self._count_down(fact, fact.count)
                case Allocated(slot=False, recovered=False) if not fact.replaces:
                    self._count_down(fact, 1)

    def _count_down(self, fact: AskWithdrawn | Allocated, count: int) -> None:
        key, items = _key(fact), fact.resources.canonical()
        self._pending[key, items] -= count
        if self._pending[key, items] <= 0:
            del self._pending[key, items]
            if not any(other == key for other, _ in self._pending):
                self.unschedulable.pop(key, None)

    def wanted(self) -> dict[tuple[str, str], Counter[Items]]:
        """By partition and application: the sizes of its unschedulable asks, of those that have room on a new node."""
        wanted: dict[tuple[str, str], Counter[Items]] = {}
        for (key, items), count in self._pending.items():
            if key in self.unschedulable and count <= ASKS_MAX and TEMPLATE.lacks(items) is None:
                wanted.setdefault(key[:2], Counter())[items] += count
        return wanted

    def look(self) -> Iterator[NodeUpdate]:
        """Nodes to add: room for all of an application, whatever is free elsewhere, in the one rack or the other in
        turn, as no ask says in which its gang has to be."""
        self._looks += 1
        for (partition, application), sizes in self.wanted().items():
            rack = RACKS[(self._looks + len(application)) % len(RACKS)]
            for _ in range(_nodes_for(sizes)):
                self.grown += 1
                attributes = {LEVEL: rack}
                yield NodeUpdate(
                    f"{PREFIX}{self.grown}", NodeAction.CREATE, partition, Resources(TEMPLATE), None, attributes
                )

    def empty(self, rm: ResourceManagerMemory) -> Iterator[NodeUpdate]:
        """Nodes of its own to remove, while nothing asks for more."""
        used = {(one.partition, one.node_id) for one in rm.held.values()}
        used |= {(one.partition, one.node_id) for one in rm.unclaimed.values()}
        for partition, node_id in sorted(rm.nodes - used):
            if node_id.startswith(PREFIX) and not self.unschedulable:
                yield NodeUpdate(node_id, NodeAction.DECOMISSION, partition)


def _nodes_for(sizes: Counter[Items]) -> int:
    """Enough, but not as few as possible."""
    nodes, room = 1, Resources(TEMPLATE)
    for items, count in sizes.items():
        for _ in range(count):
            if room.lacks(items) is not None:
                nodes, room = nodes + 1, Resources(TEMPLATE)
            room.subtract(items)
    return nodes


def _key(fact: SchedulingStateChanged | AskAdded | AskWithdrawn | Allocated) -> Key:
    return fact.partition, fact.application_id, fact.allocation_key
