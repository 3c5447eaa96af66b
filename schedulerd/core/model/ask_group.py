"""The pending asks of one request class and task group in one application: highest priority first, then oldest
first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.apart import emptied
from schedulerd.core.model.heap import in_order
from schedulerd.core.model.pending_index import Key, SchedulingEntity
from schedulerd.core.model.request_class import PendingClass

if TYPE_CHECKING:
    from schedulerd.core.model.queue import Queue

_SLACK = 32

_Entry: TypeAlias = tuple[Any, ...]
"""Priority below 0, serial and ask. Compared by identity, which a compiled tuple of fixed length does not have."""


class AskGroup(SchedulingEntity):
    """A heap that forgets lazily: an ask that is no longer pending here is dropped when it comes to the top."""

    __slots__ = (
        "_aside",
        "_entries",
        "_heap",
        "counted",
        "denied",
        "has_ready",
        "pending",
        "pending_class",
        "placeholder",
        "preempting_asks",
        "request_class",
        "task_group",
    )

    def __init__(self, pending_class: PendingClass, task_group: str, *, placeholder: bool) -> None:
        super().__init__()
        self.request_class = pending_class.request_class
        self.task_group = task_group
        self.placeholder = placeholder
        self.pending_class = pending_class
        """The request class of its asks, on the account of its application."""
        self.denied = False
        """Whether no node would take it if it had a placeholder's room; until a node has more room, or is new."""
        self.preempting_asks = 0
        """How many of its asks may have others end for them."""
        self.pending = 0
        """How many allocations of its asks are still to be placed."""
        self.counted = False
        """Whether these count in what waits for its kind (`PendingClass.pending_by_leaf`): while it stands, and its
        application passes on what is needed there."""
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._aside: dict[str, None] = {}
        """Keys of those that do not stand here at present, as all of them that is pending waits for a result."""
        self.has_ready = False
        """Whether there is anybody to place next."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Ask]:
        for entry in self._entries.values():
            yield entry[2]

    def __contains__(self, ask: Ask) -> bool:
        entry = self._entries.get(ask.key)
        return entry is not None and entry[2] is ask

    def reset_position(self) -> None:
        super().reset_position()
        self.counted = False

    def show(self, leaf: Queue, *, counted: bool) -> None:
        """Lets what is pending in it count in its leaf from now on, or not any longer."""
        if counted is not self.counted:
            self.counted = counted
            self._count(leaf, self.pending if counted else -self.pending)

    def demand(self, leaf: Queue, change: int) -> None:
        """`change` more allocations of its asks are pending."""
        self.pending += change
        if self.counted:
            self._count(leaf, change)

    def _count(self, leaf: Queue, change: int) -> None:
        kind = self.pending_class
        count = kind.pending_by_leaf.get(leaf, 0) + change
        if count:
            kind.pending_by_leaf[leaf] = count
        else:
            kind.pending_by_leaf.pop(leaf, None)
        if change > 0:
            kind.joined += 1

    def add(self, ask: Ask) -> None:
        ask.group = self
        entry: _Entry = (-ask.spec.priority, ask.serial, ask)
        self._entries[ask.key] = entry
        self.has_ready = True
        self.preempting_asks += ask.spec.allow_preempt_other
        heappush(self._heap, entry)

    def is_behind(self, ask: Ask) -> bool:
        """Whether the group stands in line for another ask, which is before this one."""
        entry = self.entry
        return entry is not None and entry[0] < (-ask.spec.priority, ask.serial)

    def discard(self, ask: Ask) -> None:
        if self._aside:
            self._aside.pop(ask.key, None)
        if self._entries.pop(ask.key, None) is not None:
            ask.group = None
            self.has_ready = len(self._entries) > len(self._aside)
            self.preempting_asks -= ask.spec.allow_preempt_other
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._compact()

    def _compact(self) -> None:
        standing = (entry for entry in self._entries.values() if entry[2].key not in self._aside)
        self._heap = sorted(standing, key=lambda entry: entry[:2])

    def awaits_predicate(self, ask: Ask) -> bool:
        return ask.key in self._aside

    def await_predicate(self, ask: Ask) -> None:
        """All of the ask that is pending waits for a result: it stays here and is not placed next."""
        self._aside[ask.key] = None
        self._entries[ask.key] = (-ask.spec.priority, ask.serial, ask)
        self.has_ready = len(self._entries) > len(self._aside)

    def end_predicate_wait(self, ask: Ask) -> None:
        """It may be placed next again, where it would have been."""
        del self._aside[ask.key]
        self.has_ready = True
        heappush(self._heap, self._entries[ask.key])
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._compact()

    def highest_priority(self) -> int | None:
        """Of its asks; None if none of them may be placed next."""
        if not self.has_ready:
            return None
        lowest: int = self._head()[0]
        return -lowest

    def first(self) -> Ask:
        """The one to place next. There must be one."""
        ask: Ask = self._head()[2]
        return ask

    def in_order(self) -> Iterator[Ask]:
        """All that stand here, the first to be placed first; whoever stops early pays for no more than was taken."""
        entries = self._entries
        for entry in in_order(self._heap):
            if entries.get(entry[2].key) is entry:
                yield entry[2]

    def key(self) -> Key:
        """Its place in its application: that of its first ask."""
        return self._head()[:2]

    def take_apart(self) -> Iterator[None]:
        self.reset_position()
        return emptied(self._heap, self._entries, self._aside)

    def _head(self) -> _Entry:
        heap, entries = self._heap, self._entries
        entry = heap[0]
        ask: Ask = entry[2]
        while entries.get(ask.key) is not entry:
            heappop(heap)
            entry = heap[0]
            ask = entry[2]
        return entry
