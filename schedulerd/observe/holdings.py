"""What a queue and the nodes of a partition hold, kept up by adding and subtracting: the numbers behind most gauges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

from schedulerd.core.language.lifecycles import TERMINAL_STATES, ApplicationState, NodeState

Counts: TypeAlias = defaultdict[tuple[str, ...], int]
"""By the values of the labels."""
PartitionKey: TypeAlias = tuple[str, str]
"""Resource manager, partition."""
QueueKey: TypeAlias = tuple[str, str, str]
"""Resource manager, partition, queue path."""


class QueueTally:
    """Amounts and counts of one queue, without its children."""

    __slots__ = (
        *("allocated", "allocated_placeholders", "applications", "has_gangs"),
        *("asks_awaiting_placeholder", "ended", "held_slots", "pending", "pending_asks", "pending_placeholders"),
        *("pending_slots", "placed", "released"),
    )

    def __init__(self) -> None:
        self.pending_asks = 0
        self.has_gangs = False
        """Whether there were placeholders or slots in it."""
        self.pending_placeholders = 0
        self.allocated_placeholders = 0
        self.asks_awaiting_placeholder = 0
        self.pending_slots = 0
        self.held_slots = 0
        self.placed = 0
        """Allocations that the scheduler made in it, since it is known here."""
        self.released = 0
        """Allocations that ended in it, since it is known here."""
        self.ended: defaultdict[ApplicationState, int] = defaultdict(int)
        """Applications that reached an end in it, by that state, since it is known here."""
        self.pending: defaultdict[str, int] = defaultdict(int)
        self.allocated: defaultdict[str, int] = defaultdict(int)
        self.applications: defaultdict[ApplicationState, int] = defaultdict(int)

    def add(self, other: QueueTally) -> None:
        self.pending_asks += other.pending_asks
        self.has_gangs |= other.has_gangs
        self.pending_placeholders += other.pending_placeholders
        self.allocated_placeholders += other.allocated_placeholders
        self.asks_awaiting_placeholder += other.asks_awaiting_placeholder
        self.pending_slots += other.pending_slots
        self.held_slots += other.held_slots
        self.placed += other.placed
        self.released += other.released
        for state, count in other.ended.items():
            self.ended[state] += count
        for mine, theirs in ((self.pending, other.pending), (self.allocated, other.allocated)):
            for name, amount in theirs.items():
                mine[name] += amount
        for state, count in other.applications.items():
            self.applications[state] += count

    def copy(self) -> QueueTally:
        """A copy for another thread."""
        copy = QueueTally.__new__(QueueTally)
        copy.pending_asks = self.pending_asks
        copy.has_gangs = self.has_gangs
        copy.pending_placeholders = self.pending_placeholders
        copy.allocated_placeholders = self.allocated_placeholders
        copy.asks_awaiting_placeholder = self.asks_awaiting_placeholder
        copy.pending_slots, copy.held_slots = self.pending_slots, self.held_slots
        copy.placed, copy.released = self.placed, self.released
        copy.ended = self.ended.copy()
        copy.pending = self.pending.copy()
        copy.allocated = self.allocated.copy()
        copy.applications = self.applications.copy()
        return copy

    def has_live_applications(self) -> bool:
        return any(count for state, count in self.applications.items() if state not in TERMINAL_STATES)

    def is_idle(self) -> bool:
        return not (
            self.pending_asks
            or self.asks_awaiting_placeholder
            or any(self.pending.values())
            or any(self.allocated.values())
        )


class NodesTally:
    """The nodes of one partition and the sums over them."""

    __slots__ = ("_known", "capacity", "occupied", "removed", "states")

    def __init__(self) -> None:
        self.states: dict[NodeState, int] = {state: 0 for state in NodeState if state is not NodeState.REMOVED}
        self.capacity: defaultdict[str, int] = defaultdict(int)
        self.occupied: defaultdict[str, int] = defaultdict(int)
        self.removed = 0
        """Nodes that were removed."""
        self._known: dict[str, tuple[NodeState, dict[str, int], dict[str, int]]] = {}

    def change(self, node_id: str, state: NodeState, capacity: Mapping[str, int], occupied: Mapping[str, int]) -> None:
        """Replaces the last state and amounts of a node; REMOVED forgets the node."""
        before = self._known.pop(node_id, None)
        if before is not None:
            self._count(*before, times=-1)
        if state is NodeState.REMOVED:
            self.removed += 1
        else:
            now = self._known[node_id] = (state, dict(capacity), dict(occupied))
            self._count(*now, times=1)

    def _count(self, state: NodeState, capacity: dict[str, int], occupied: dict[str, int], times: int) -> None:
        self.states[state] += times
        for sums, amounts in ((self.capacity, capacity), (self.occupied, occupied)):
            for name, amount in amounts.items():
                sums[name] += times * amount
