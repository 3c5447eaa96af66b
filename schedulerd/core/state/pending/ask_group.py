"""The pending asks of one pending class and task group in one application: highest priority first, then oldest
first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, TypeAlias

from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.heap import in_order
from schedulerd.core.state.pending.pending_index import Key, SchedulingEntity
from schedulerd.core.state.pending.request_class import PendingClass

if TYPE_CHECKING:
    from schedulerd.core.state.model.queue import Queue

_SLACK = 32

_Entry: TypeAlias = tuple[Any, ...]
"""Negated priority, serial and ask. Entries are compared by identity, which does not work for compiled tuples of fixed
length."""


class PendingCounts:
    """How many allocations of a pending class are pending in a leaf queue, of groups that are counted
    (`AskGroup.counted`); one for the whole queue tree."""

    __slots__ = ("_by_class",)

    def __init__(self) -> None:
        self._by_class: dict[PendingClass, dict[Queue, int]] = {}

    def of(self, pending_class: PendingClass) -> Mapping[Queue, int]:
        """By leaf queue; only leaves in which some are pending."""
        return self._by_class.get(pending_class, {})

    def change(self, pending_class: PendingClass, leaf: Queue, change: int) -> None:
        counts = self._by_class.get(pending_class)
        if counts is None:
            counts = self._by_class[pending_class] = {}
        count = counts.get(leaf, 0) + change
        if count:
            counts[leaf] = count
        else:
            counts.pop(leaf, None)
            if not counts:
                del self._by_class[pending_class]
        if change > 0:
            pending_class.joined += 1

    def clear(self) -> None:
        self._by_class.clear()

    def dismantle(self) -> Iterator[None]:
        for counts in self._by_class.values():
            yield from clear_stepwise(counts)
        yield from clear_stepwise(self._by_class)


class AskGroup(SchedulingEntity):
    """A heap that forgets lazily: the entry of an ask that is no longer in the group, or not ready, is dropped when it
    comes to the top. So the top is always the first ready ask."""

    __slots__ = (
        "_entries",
        "_heap",
        "_not_ready",
        "counted",
        "denied",
        "has_ready",
        "joined",
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
        """The request class of its asks with the quota key of the application."""
        self.denied = False
        """Whether no node would take its asks in a swap; false again when nodes change."""
        self.preempting_asks = 0
        """How many of its asks allow preemption of others."""
        self.pending = 0
        """Number of pending allocations of its asks."""
        self.joined = 0
        """How often `pending` increased, to notice new asks."""
        self.counted = False
        """Whether `pending` is included in the `PendingCounts`: while the group is in the pending index and
        its application propagates demand."""
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._not_ready: dict[str, None] = {}
        """Keys of asks that are not ready, because all of their pending allocations await predicate results."""
        self.has_ready = False
        """Whether the group has an ask that is ready to be allocated."""

    @property
    def awaits_placeholders(self) -> bool:
        """Whether it has real asks of a task group, which can take the room of its placeholders."""
        return bool(self.task_group) and not self.placeholder

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Ask]:
        for entry in self._entries.values():
            yield entry[3]

    def __contains__(self, ask: Ask) -> bool:
        entry = self._entries.get(ask.key)
        return entry is not None and entry[3] is ask

    def reset_position(self) -> None:
        super().reset_position()
        self.counted = False

    def set_counted(self, leaf: Queue, *, counted: bool) -> None:
        """Sets whether `pending` of this group is included in the `PendingCounts`."""
        if counted is not self.counted:
            self.counted = counted
            leaf.pending_counts.change(self.pending_class, leaf, self.pending if counted else -self.pending)

    def change_pending(self, leaf: Queue, change: int) -> None:
        """`change` more allocations of its asks are pending; negative for fewer."""
        self.pending += change
        self.joined += change > 0
        if self.counted:
            leaf.pending_counts.change(self.pending_class, leaf, change)

    def enqueue(self, ask: Ask) -> None:
        """The ask has pending allocations. It is ready until `await_predicate`."""
        ask.group = self
        entry = _entry(ask)  # not in line: compiled, the tuple would be another object in the heap and in the dict
        self._entries[ask.key] = entry
        self.has_ready = True
        self.preempting_asks += ask.spec.allow_preempt_other
        heappush(self._heap, entry)

    def is_behind(self, ask: Ask) -> bool:
        """Whether another ask, which comes before this one, determines the position of the group."""
        entry = self.entry
        return entry is not None and entry[0] < (-ask.spec.priority, ask.asked_at_ns, ask.serial)

    def dequeue(self, ask: Ask) -> None:
        """The ask has nothing pending any more, or moves to another group."""
        if self._not_ready:
            self._not_ready.pop(ask.key, None)
        if self._entries.pop(ask.key, None) is not None:
            ask.group = None
            self.has_ready = len(self._entries) > len(self._not_ready)
            self.preempting_asks -= ask.spec.allow_preempt_other
            self._drop_forgotten()
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._compact()

    def keep_only(self, ask: Ask) -> None:
        """All others have nothing pending any more."""
        for other in self:
            if other is not ask:
                other.group = None
        entry = self._entries[ask.key]
        self._entries = {ask.key: entry}
        self._not_ready = {key: None for key in self._not_ready if key == ask.key}
        self.has_ready = not self._not_ready
        self.preempting_asks = int(ask.spec.allow_preempt_other)
        self._heap = [] if self._not_ready else [entry]

    def _drop_forgotten(self) -> None:
        heap, entries = self._heap, self._entries
        while heap and entries.get(heap[0][3].key) is not heap[0]:
            heappop(heap)

    def _compact(self) -> None:
        standing = (entry for entry in self._entries.values() if entry[3].key not in self._not_ready)
        self._heap = sorted(standing, key=lambda entry: entry[:3])

    def awaits_predicate(self, ask: Ask) -> bool:
        return ask.key in self._not_ready

    def await_predicate(self, ask: Ask) -> None:
        """All pending allocations of the ask await predicate results: it stays in the group, but is not ready."""
        self._not_ready[ask.key] = None
        self._entries[ask.key] = _entry(ask)
        self.has_ready = len(self._entries) > len(self._not_ready)
        self._drop_forgotten()

    def end_predicate_wait(self, ask: Ask) -> None:
        """The ask is ready again, at its old position."""
        del self._not_ready[ask.key]
        self.has_ready = True
        heappush(self._heap, self._entries[ask.key])
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._compact()

    def highest_priority(self) -> int | None:
        """The highest priority among its ready asks; None if no ask is ready."""
        if not self.has_ready:
            return None
        lowest: int = self._heap[0][0]
        return -lowest

    def first(self) -> Ask:
        """The one to place next. There must be one."""
        ask: Ask = self._heap[0][3]
        return ask

    def in_order(self) -> Iterator[Ask]:
        """The ready asks in order. Lazy: the cost is that of the asks taken."""
        entries = self._entries
        for entry in in_order(self._heap):
            if entries.get(entry[3].key) is entry:
                yield entry[3]

    def key(self) -> Key:
        """Its place in its application: that of its first ask."""
        return self._heap[0][:3]

    def dismantle(self) -> Iterator[None]:
        self.reset_position()
        return clear_stepwise(self._heap, self._entries, self._not_ready)


def _entry(ask: Ask) -> _Entry:
    return -ask.spec.priority, ask.asked_at_ns, ask.serial, ask
