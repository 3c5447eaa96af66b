"""Who is next: the children of a queue, in order, grouped by what they need so that those who cannot get anything cost
nothing.

A contender (a child queue, or an application of a leaf) stands in exactly one line: that of the set of shapes it has
pending asks of. A line as a whole is open or closed: open if any shape of its set may be placed at the moment. When the
last node that fitted a shape fills up, every line that only needed this shape closes at once, at every queue, however
many contenders stand in it, and opens again as fast. Within a line the order is a heap: a contender whose key changes
gets a new entry, and its old one is recognised as stale when it surfaces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, TypeAlias

from schedulerd.core.model.shape import Shape

Key: TypeAlias = tuple[Any, ...]
"""What contenders are ordered by, smallest first; the last element is unique, so there are no ties."""
Needs: TypeAlias = frozenset[Shape]
NOTHING: Needs = frozenset()

_SLACK = 32


class Contender:
    """Something that waits for resources at its parent: base of Queue and Application."""

    __slots__ = ("entry", "needs")

    def __init__(self) -> None:
        self.needs: Needs = NOTHING
        """Shapes it has pending asks of, less those that its own rules do not let through at present."""
        self.entry: _Entry | None = None
        """Its only valid entry in the line it stands in; None if it needs nothing."""


_Entry: TypeAlias = tuple[Key, int, Contender]


class _Line:
    __slots__ = ("heap", "members")

    def __init__(self) -> None:
        self.heap: list[_Entry] = []
        self.members = 0

    def head(self) -> _Entry:
        heap = self.heap
        entry = heap[0]
        while entry[2].entry is not entry:
            heappop(heap)
            entry = heap[0]
        return entry

    def put(self, entry: _Entry) -> None:
        """Gives a contender its new place; its old entry, if it has one here, turns stale."""
        heap, contender = self.heap, entry[2]
        if heap and heap[0] is contender.entry:
            contender.entry = entry
            heapreplace(heap, entry)
        else:
            contender.entry = entry
            heappush(heap, entry)
            if len(heap) > 2 * self.members + _SLACK:
                self.heap = [valid for valid in heap if valid[2].entry is valid]
                heapify(self.heap)


class Lines:
    """All contenders at one queue."""

    __slots__ = ("_lines", "_serial")

    def __init__(self) -> None:
        self._lines: dict[Needs, _Line] = {}
        self._serial = 0

    def rekey(self, contender: Contender, key: Key) -> None:
        """The contender's order changed, what it needs did not. One that needs nothing has no place to change."""
        entry = contender.entry
        if entry is not None and entry[0] != key:
            self._serial += 1
            self._lines[contender.needs].put((key, self._serial, contender))

    def stand(self, contender: Contender, needs: Needs, key: Key) -> None:
        """The contender now needs `needs`: it leaves its line for the one of that set, or for none."""
        self._leave(contender)
        contender.needs = needs
        if needs:
            line = self._lines.get(needs)
            if line is None:
                line = self._lines[needs] = _Line()
            line.members += 1
            self._serial += 1
            line.put((key, self._serial, contender))

    def first(self, closed: Collection[Shape]) -> Contender | None:
        """The first of all contenders in open lines; `closed` are shapes that may not be placed here."""
        best: _Entry | None = None
        for needs, line in self._lines.items():
            for shape in needs:
                if not shape.parked and shape not in closed:
                    head = line.head()
                    if best is None or head < best:
                        best = head
                    break
        return best[2] if best is not None else None

    def is_open(self, closed: Collection[Shape]) -> bool:
        """Whether `first` would find anybody."""
        return any(not shape.parked and shape not in closed for needs in self._lines for shape in needs)

    def __iter__(self) -> Iterator[tuple[Key, Contender]]:
        """Everybody who stands in a line, with the key; for the invariants."""
        for line in self._lines.values():
            yield from ((entry[0], entry[2]) for entry in line.heap if entry[2].entry is entry)

    def _leave(self, contender: Contender) -> None:
        if contender.entry is None:
            return
        line = self._lines[contender.needs]
        contender.entry = None
        line.members -= 1
        if not line.members:
            del self._lines[contender.needs]
