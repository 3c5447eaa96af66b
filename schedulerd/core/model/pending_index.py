"""Who is next at one place, in order, however many wait there and whatever they wait for.

Entities stand in lines by the set of pending classes they need. A line is open while any pending class of its set may
be placed; when a pending class is closed, every line that needs nothing else closes at once, no matter how many stand
in it, and opens again as fast. A entity that needs many different pending classes has a line of its own, so that its
set can change without being copied.

Two levels of heaps keep the order: one of entities in each line, and one (`front`) of the heads of the open lines.
Both forget lazily: an entry that is no longer true is recognised when it surfaces, and then dropped or put right.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace, merge
from typing import TYPE_CHECKING, Any, TypeAlias

from schedulerd.core.model.apart import emptied
from schedulerd.core.model.heap import in_order
from schedulerd.core.model.request_class import PendingClass

if TYPE_CHECKING:
    from schedulerd.core.model.parent_entity import Block

Key: TypeAlias = tuple[Any, ...]
"""What entities are ordered by, smallest first; the last element is unique, so there are no ties."""

_SHARED_NEEDS_MAX = 8
"""A entity that needs more pending classes than this stands alone."""
_SLACK = 32


class SchedulingEntity:
    """Something that waits for resources at its ancestor: base of Queue, Application and AskGroup."""

    __slots__ = ("class_order", "entry", "needs", "priority")

    def __init__(self) -> None:
        self.needs: dict[PendingClass, None] = {}
        """pending classes it has pending asks of, less those that its own rules do not let through at present."""
        self.class_order: ClassOrder | None = None
        """The line it stands in; None if it needs nothing."""
        self.entry: _Entry | None = None
        """Its only valid entry there."""
        self.priority: int | None = None
        """What it shows its ancestor of the priorities pending in it; None if nothing is."""

    def reset_position(self) -> None:
        """It stands nowhere, and needs nothing as far as is known; only where all lines are made anew."""
        self.needs = {}
        self.class_order = self.entry = None


_Entry: TypeAlias = tuple[Any, ...]
"""Key, ticket and entity. Entries are compared by identity, which a compiled tuple of fixed length does not have."""


class ClassOrder:
    __slots__ = ("heap", "is_shared", "members", "open_classes", "pending_classes", "shown", "ticket")

    def __init__(self, *, is_shared: bool) -> None:
        self.heap: list[_Entry] = []
        self.members = 0
        self.is_shared = is_shared
        self.pending_classes: dict[PendingClass, None] = {}
        self.open_classes = 0
        """How many of its pending classes are not closed here."""
        self.shown: _Entry | None = None
        """The head under which it stands in the front."""
        self.ticket = 0
        """Number of its only valid entry in the front; 0 if it has none."""

    def head(self) -> _Entry:
        heap = self.heap
        entry = heap[0]
        entity: SchedulingEntity = entry[2]
        while entity.entry is not entry:
            heappop(heap)
            entry = heap[0]
            entity = entry[2]
        return entry

    def put(self, entry: _Entry) -> None:
        """Gives a entity its new place; its old entry, if it has one here, turns stale."""
        heap = self.heap
        entity: SchedulingEntity = entry[2]
        if heap and heap[0] is entity.entry:
            entity.entry = entry
            heapreplace(heap, entry)
            return
        entity.entry = entry
        heappush(heap, entry)
        if len(heap) > 2 * self.members + _SLACK:
            self.heap = [valid for valid in heap if valid[2].entry is valid]
            heapify(self.heap)


def _as_key(pending_classes: dict[PendingClass, None]) -> PendingClass | frozenset[PendingClass]:
    return frozenset(pending_classes) if len(pending_classes) > 1 else next(iter(pending_classes))


class PendingIndex:
    """All entities at one place, and which pending classes are closed there."""

    __slots__ = ("_by_class", "_count", "_front", "_serial", "_shared", "blocked_by")

    def __init__(self) -> None:
        self._shared: dict[PendingClass | frozenset[PendingClass], ClassOrder] = {}
        """By what their members need, which for most is a single pending class."""
        self._by_class: dict[PendingClass, dict[ClassOrder, None]] = {}
        self._front: list[tuple[Key, int, ClassOrder]] = []
        self._count = 0
        """How many lines there are."""
        self._serial = 0
        self.blocked_by: dict[PendingClass, Block] = {}
        """pending classes that may not be placed here at present, and why; only such as somebody needs."""

    @property
    def places_given(self) -> int:
        """How many places were given here so far, in lines and in the front; tests count with it, too."""
        return self._serial

    def __contains__(self, pending_class: PendingClass) -> bool:
        """Whether anybody here needs the pending class."""
        return pending_class in self._by_class

    def pending_classes(self) -> list[PendingClass]:
        """All pending classes somebody needs here."""
        return list(self._by_class)

    def first(self) -> SchedulingEntity | None:
        """The first of all entities in open lines, or None if no line is open."""
        front = self._front
        while front:
            _, ticket, line = front[0]
            if line.ticket != ticket:
                heappop(front)
                continue
            heap = line.heap  # what `head` does, without a call: this is on the way of every placement three times
            head = heap[0]
            entity: SchedulingEntity = head[2]
            while entity.entry is not head:
                heappop(heap)
                head = heap[0]
                entity = head[2]
            if head is line.shown:
                return entity
            line.shown = head
            heapreplace(front, (head[0], ticket, line))
        return None

    def rekey(self, entity: SchedulingEntity, key: Key) -> None:
        """The entity's order changed, what it needs did not. One that needs nothing has no place to change."""
        line, entry = entity.class_order, entity.entry
        if line is None or entry is None or entry[0] == key:
            return
        self._serial += 1
        line.put((key, self._serial, entity))
        self._show(line)

    def need(self, entity: SchedulingEntity, key: Key, pending_class: PendingClass) -> None:
        """The entity needs one pending class more."""
        entity.needs[pending_class] = None
        line = entity.class_order
        if line is None and (known := self._shared.get(pending_class)) is not None:
            self._join(known, entity, key)
            self._show(known)
        elif line is not None and not line.is_shared:
            self._add_shape(line, pending_class)
            self._show(line)
        else:
            self._enqueue(entity, key)

    def unneed(self, entity: SchedulingEntity, pending_class: PendingClass) -> None:
        """The entity, which stands here, needs this pending class no longer. Its order is still what it was."""
        del entity.needs[pending_class]
        line, entry = entity.class_order, entity.entry
        assert line is not None
        assert entry is not None
        if not entity.needs:
            entity.class_order = entity.entry = None
            self._leave(line)
        elif not line.is_shared and len(entity.needs) > _SHARED_NEEDS_MAX // 2:
            self._drop_class(line, pending_class)
        else:
            self._enqueue(entity, entry[0])

    def block(self, pending_class: PendingClass, block: Block) -> None:
        """The pending class may not be placed here until `reopen`."""
        self.blocked_by[pending_class] = block
        for line in self._by_class[pending_class]:
            line.open_classes -= 1
            if not line.open_classes:
                line.ticket = 0

    def unblock(self, pending_class: PendingClass) -> None:
        """The pending class may be placed here again."""
        self.blocked_by.pop(pending_class).propagated_to.pop(self, None)
        for line in self._by_class[pending_class]:
            line.open_classes += 1
            if line.open_classes == 1:
                self._show(line)

    def first_of(self, pending_class: PendingClass) -> tuple[Key, SchedulingEntity]:
        """The first of those who need the pending class, whether it is closed or not, and its key; there must be
        somebody."""
        entry = min([line.head() for line in self._by_class[pending_class]], key=lambda entry: entry[0])
        entity: SchedulingEntity = entry[2]
        return entry[0], entity

    def in_order(self, pending_class: PendingClass) -> Iterator[SchedulingEntity]:
        """All who need the pending class, in order, whether it is closed or not; a line may not change meanwhile."""
        lines = [in_order(line.heap) for line in self._by_class.get(pending_class, ())]
        for entry in merge(*lines, key=lambda entry: entry[0]):
            if entry[2].entry is entry:
                yield entry[2]

    def __iter__(self) -> Iterator[tuple[Key, SchedulingEntity]]:
        """Everybody who stands in a line, with the key; for the invariants."""
        lines = {line: None for lines in self._by_class.values() for line in lines}
        for line in lines:
            for entry in line.heap:
                if entry[2].entry is entry:
                    yield entry[0], entry[2]

    def take_apart(self) -> Iterator[None]:
        for lines in self._by_class.values():
            for line in lines:
                line.shown = None
                yield from emptied(line.heap, line.pending_classes)
        for block in self.blocked_by.values():
            yield from emptied(block.propagated_to)
        yield from emptied(self._front, self._shared, self._by_class, self.blocked_by)

    def _enqueue(self, entity: SchedulingEntity, key: Key) -> None:
        """Moves the entity to the line of what it needs.

        It joins the new line before it leaves the old one, so that a pending class which is in both stays known here,
        and closed if it is.
        """
        old = entity.class_order
        entity.entry = None
        line = self._line_for(entity)
        self._join(line, entity, key)
        if old is not None:
            self._leave(old)
        self._show(line)

    def _join(self, line: ClassOrder, entity: SchedulingEntity, key: Key) -> None:
        entity.class_order = line
        line.members += 1
        self._serial += 1
        line.put((key, self._serial, entity))

    def _line_for(self, entity: SchedulingEntity) -> ClassOrder:
        if len(entity.needs) > _SHARED_NEEDS_MAX:
            line = ClassOrder(is_shared=False)
        else:
            needs = _as_key(entity.needs)
            known = self._shared.get(needs)
            if known is not None:
                return known
            line = self._shared[needs] = ClassOrder(is_shared=True)
        self._count += 1
        for pending_class in entity.needs:
            self._add_shape(line, pending_class)
        return line

    def _leave(self, line: ClassOrder) -> None:
        line.members -= 1
        if line.members:
            return
        self._count -= 1
        if line.is_shared:
            del self._shared[_as_key(line.pending_classes)]
        for pending_class in list(line.pending_classes):
            self._drop_class(line, pending_class)
        line.ticket = 0

    def _add_shape(self, line: ClassOrder, pending_class: PendingClass) -> None:
        line.pending_classes[pending_class] = None
        self._by_class.setdefault(pending_class, {})[line] = None
        if pending_class not in self.blocked_by:
            line.open_classes += 1

    def _drop_class(self, line: ClassOrder, pending_class: PendingClass) -> None:
        del line.pending_classes[pending_class]
        if pending_class not in self.blocked_by:
            line.open_classes -= 1
            if not line.open_classes:
                line.ticket = 0
        lines = self._by_class[pending_class]
        del lines[line]
        if not lines:
            del self._by_class[pending_class]
            block = self.blocked_by.pop(pending_class, None)
            if block is not None:
                block.propagated_to.pop(self, None)

    def _show(self, line: ClassOrder) -> None:
        """Lets an open line stand in the front under its present head."""
        if not line.open_classes:
            return
        head, front = line.head(), self._front
        if line.ticket and head is line.shown:
            return
        line.shown = head
        self._serial += 1
        line.ticket = self._serial
        entry = (head[0], line.ticket, line)
        if front and front[0][2] is line:
            heapreplace(front, entry)
            return
        heappush(front, entry)
        if len(front) > 2 * self._count + _SLACK:
            self._front = [one for one in front if one[2].ticket == one[1]]
            heapify(self._front)
