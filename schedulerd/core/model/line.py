"""Who is next at one place, in order, however many wait there and whatever they wait for.

Contenders stand in lines by the set of shapes they need. A line is open while any shape of its set may be placed; when
a shape is closed, every line that needs nothing else closes at once, no matter how many stand in it, and opens again
as fast. A contender that needs many different shapes has a line of its own, so that its set can change without being
copied.

Two levels of heaps keep the order: one of contenders in each line, and one (`front`) of the heads of the open lines.
Both forget lazily: an entry that is no longer true is recognised when it surfaces, and then dropped or put right.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace, merge
from typing import TYPE_CHECKING, Any, TypeAlias

from schedulerd.core.model.apart import emptied
from schedulerd.core.model.heap import in_order
from schedulerd.core.model.shape import Shape

if TYPE_CHECKING:
    from schedulerd.core.model.host import Closing

Key: TypeAlias = tuple[Any, ...]
"""What contenders are ordered by, smallest first; the last element is unique, so there are no ties."""

_SHARED_NEEDS_MAX = 8
"""A contender that needs more shapes than this stands alone."""
_SLACK = 32


class Contender:
    """Something that waits for resources at its host: base of Queue, Application and AskGroup."""

    __slots__ = ("entry", "line", "needs", "priority")

    def __init__(self) -> None:
        self.needs: dict[Shape, None] = {}
        """Shapes it has pending asks of, less those that its own rules do not let through at present."""
        self.line: _Line | None = None
        """The line it stands in; None if it needs nothing."""
        self.entry: _Entry | None = None
        """Its only valid entry there."""
        self.priority: int | None = None
        """What it shows its host of the priorities pending in it; None if nothing is."""

    def forget_place(self) -> None:
        """It stands nowhere, and needs nothing as far as is known; only where all lines are made anew."""
        self.needs = {}
        self.line = self.entry = None


_Entry: TypeAlias = tuple[Any, ...]
"""Key, ticket and contender. Entries are compared by identity, which a compiled tuple of fixed length does not have."""


class _Line:
    __slots__ = ("heap", "is_shared", "members", "open_shapes", "shapes", "shown", "ticket")

    def __init__(self, *, is_shared: bool) -> None:
        self.heap: list[_Entry] = []
        self.members = 0
        self.is_shared = is_shared
        self.shapes: dict[Shape, None] = {}
        self.open_shapes = 0
        """How many of its shapes are not closed here."""
        self.shown: _Entry | None = None
        """The head under which it stands in the front."""
        self.ticket = 0
        """Number of its only valid entry in the front; 0 if it has none."""

    def head(self) -> _Entry:
        heap = self.heap
        entry = heap[0]
        contender: Contender = entry[2]
        while contender.entry is not entry:
            heappop(heap)
            entry = heap[0]
            contender = entry[2]
        return entry

    def put(self, entry: _Entry) -> None:
        """Gives a contender its new place; its old entry, if it has one here, turns stale."""
        heap = self.heap
        contender: Contender = entry[2]
        if heap and heap[0] is contender.entry:
            contender.entry = entry
            heapreplace(heap, entry)
            return
        contender.entry = entry
        heappush(heap, entry)
        if len(heap) > 2 * self.members + _SLACK:
            self.heap = [valid for valid in heap if valid[2].entry is valid]
            heapify(self.heap)


def _as_key(shapes: dict[Shape, None]) -> Shape | frozenset[Shape]:
    return frozenset(shapes) if len(shapes) > 1 else next(iter(shapes))


class Lines:
    """All contenders at one place, and which shapes are closed there."""

    __slots__ = ("_by_shape", "_count", "_front", "_serial", "_shared", "closed")

    def __init__(self) -> None:
        self._shared: dict[Shape | frozenset[Shape], _Line] = {}
        """By what their members need, which for most is a single shape."""
        self._by_shape: dict[Shape, dict[_Line, None]] = {}
        self._front: list[tuple[Key, int, _Line]] = []
        self._count = 0
        """How many lines there are."""
        self._serial = 0
        self.closed: dict[Shape, Closing] = {}
        """Shapes that may not be placed here at present, and why; only such as somebody needs."""

    @property
    def places_given(self) -> int:
        """How many places were given here so far, in lines and in the front; tests count with it, too."""
        return self._serial

    def __contains__(self, shape: Shape) -> bool:
        """Whether anybody here needs the shape."""
        return shape in self._by_shape

    def shapes(self) -> list[Shape]:
        """All shapes somebody needs here."""
        return list(self._by_shape)

    def first(self) -> Contender | None:
        """The first of all contenders in open lines, or None if no line is open."""
        front = self._front
        while front:
            _, ticket, line = front[0]
            if line.ticket != ticket:
                heappop(front)
                continue
            heap = line.heap  # what `head` does, without a call: this is on the way of every placement three times
            head = heap[0]
            contender: Contender = head[2]
            while contender.entry is not head:
                heappop(heap)
                head = heap[0]
                contender = head[2]
            if head is line.shown:
                return contender
            line.shown = head
            heapreplace(front, (head[0], ticket, line))
        return None

    def rekey(self, contender: Contender, key: Key) -> None:
        """The contender's order changed, what it needs did not. One that needs nothing has no place to change."""
        line, entry = contender.line, contender.entry
        if line is None or entry is None or entry[0] == key:
            return
        self._serial += 1
        line.put((key, self._serial, contender))
        self._show(line)

    def need(self, contender: Contender, key: Key, shape: Shape) -> None:
        """The contender needs one shape more."""
        contender.needs[shape] = None
        line = contender.line
        if line is None and (known := self._shared.get(shape)) is not None:
            self._join(known, contender, key)
            self._show(known)
        elif line is not None and not line.is_shared:
            self._add_shape(line, shape)
            self._show(line)
        else:
            self._stand(contender, key)

    def unneed(self, contender: Contender, shape: Shape) -> None:
        """The contender, which stands here, needs this shape no longer. Its order is still what it was."""
        del contender.needs[shape]
        line, entry = contender.line, contender.entry
        assert line is not None
        assert entry is not None
        if not contender.needs:
            contender.line = contender.entry = None
            self._leave(line)
        elif not line.is_shared and len(contender.needs) > _SHARED_NEEDS_MAX // 2:
            self._drop_shape(line, shape)
        else:
            self._stand(contender, entry[0])

    def close(self, shape: Shape, closing: Closing) -> None:
        """The shape may not be placed here until `reopen`."""
        self.closed[shape] = closing
        for line in self._by_shape[shape]:
            line.open_shapes -= 1
            if not line.open_shapes:
                line.ticket = 0

    def reopen(self, shape: Shape) -> None:
        """The shape may be placed here again."""
        self.closed.pop(shape).repeated.pop(self, None)
        for line in self._by_shape[shape]:
            line.open_shapes += 1
            if line.open_shapes == 1:
                self._show(line)

    def first_of(self, shape: Shape) -> tuple[Key, Contender]:
        """The first of those who need the shape, whether it is closed or not, and its key; there must be somebody."""
        entry = min([line.head() for line in self._by_shape[shape]], key=lambda entry: entry[0])
        contender: Contender = entry[2]
        return entry[0], contender

    def in_order(self, shape: Shape) -> Iterator[Contender]:
        """All who need the shape, in order, whether it is closed or not; a line may not change meanwhile."""
        lines = [in_order(line.heap) for line in self._by_shape.get(shape, ())]
        for entry in merge(*lines, key=lambda entry: entry[0]):
            if entry[2].entry is entry:
                yield entry[2]

    def __iter__(self) -> Iterator[tuple[Key, Contender]]:
        """Everybody who stands in a line, with the key; for the invariants."""
        lines = {line: None for lines in self._by_shape.values() for line in lines}
        for line in lines:
            for entry in line.heap:
                if entry[2].entry is entry:
                    yield entry[0], entry[2]

    def take_apart(self) -> Iterator[None]:
        for lines in self._by_shape.values():
            for line in lines:
                line.shown = None
                yield from emptied(line.heap, line.shapes)
        for closing in self.closed.values():
            yield from emptied(closing.repeated)
        yield from emptied(self._front, self._shared, self._by_shape, self.closed)

    def _stand(self, contender: Contender, key: Key) -> None:
        """Moves the contender to the line of what it needs.

        It joins the new line before it leaves the old one, so that a shape which is in both stays known here, and
        closed if it is.
        """
        old = contender.line
        contender.entry = None
        line = self._line_for(contender)
        self._join(line, contender, key)
        if old is not None:
            self._leave(old)
        self._show(line)

    def _join(self, line: _Line, contender: Contender, key: Key) -> None:
        contender.line = line
        line.members += 1
        self._serial += 1
        line.put((key, self._serial, contender))

    def _line_for(self, contender: Contender) -> _Line:
        if len(contender.needs) > _SHARED_NEEDS_MAX:
            line = _Line(is_shared=False)
        else:
            needs = _as_key(contender.needs)
            known = self._shared.get(needs)
            if known is not None:
                return known
            line = self._shared[needs] = _Line(is_shared=True)
        self._count += 1
        for shape in contender.needs:
            self._add_shape(line, shape)
        return line

    def _leave(self, line: _Line) -> None:
        line.members -= 1
        if line.members:
            return
        self._count -= 1
        if line.is_shared:
            del self._shared[_as_key(line.shapes)]
        for shape in list(line.shapes):
            self._drop_shape(line, shape)
        line.ticket = 0

    def _add_shape(self, line: _Line, shape: Shape) -> None:
        line.shapes[shape] = None
        self._by_shape.setdefault(shape, {})[line] = None
        if shape not in self.closed:
            line.open_shapes += 1

    def _drop_shape(self, line: _Line, shape: Shape) -> None:
        del line.shapes[shape]
        if shape not in self.closed:
            line.open_shapes -= 1
            if not line.open_shapes:
                line.ticket = 0
        lines = self._by_shape[shape]
        del lines[line]
        if not lines:
            del self._by_shape[shape]
            closing = self.closed.pop(shape, None)
            if closing is not None:
                closing.repeated.pop(self, None)

    def _show(self, line: _Line) -> None:
        """Lets an open line stand in the front under its present head."""
        if not line.open_shapes:
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
