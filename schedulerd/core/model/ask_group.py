"""The pending asks of one shape and task group in one application: highest priority first, then oldest first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.heap import in_order
from schedulerd.core.model.line import Contender, Key
from schedulerd.core.model.shape import Shape


class AskGroup(Contender):
    """A heap that forgets lazily: an ask that is no longer pending here is dropped when it comes to the top."""

    __slots__ = ("_entries", "_heap", "claims", "denied", "kind", "placeholder", "shape", "task_group")

    def __init__(self, shape: Shape, task_group: str, *, placeholder: bool) -> None:
        super().__init__()
        self.shape = shape
        self.task_group = task_group
        self.placeholder = placeholder
        self.kind = shape
        """The shape it stands in line for: that of its asks, on its application's account where that matters."""
        self.denied = False
        """Whether no node would take it if it had a placeholder's room; until a node has more room, or is new."""
        self.claims = 0
        """How many of its asks may have others end for them."""
        self._heap: list[tuple[int, int, Ask]] = []
        self._entries: dict[str, tuple[int, int, Ask]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Ask]:
        return (entry[2] for entry in self._entries.values())

    def __contains__(self, ask: Ask) -> bool:
        entry = self._entries.get(ask.key)
        return entry is not None and entry[2] is ask

    def add(self, ask: Ask) -> None:
        entry = (-ask.spec.priority, ask.serial, ask)
        self._entries[ask.key] = entry
        self.claims += ask.spec.allow_preempt_other
        heappush(self._heap, entry)

    def discard(self, ask: Ask) -> None:
        if self._entries.pop(ask.key, None) is not None:
            self.claims -= ask.spec.allow_preempt_other
        if len(self._heap) > 2 * len(self._entries) + 32:
            self._heap = sorted(self._entries.values(), key=lambda entry: entry[:2])

    def highest_priority(self) -> int | None:
        """Of its asks; None if there are none."""
        return -self._head()[0] if self._entries else None

    def first(self) -> Ask:
        """The one to place next. The group must not be empty."""
        return self._head()[2]

    def in_order(self) -> Iterator[Ask]:
        """All of them, the first to be placed first; whoever stops early pays for no more than was taken."""
        entries = self._entries
        return (entry[2] for entry in in_order(self._heap) if entries.get(entry[2].key) is entry)

    def key(self) -> Key:
        """Its place in its application: that of its first ask."""
        return self._head()[:2]

    def _head(self) -> tuple[int, int, Ask]:
        heap, entries = self._heap, self._entries
        entry = heap[0]
        while entries.get(entry[2].key) is not entry:
            heappop(heap)
            entry = heap[0]
        return entry
