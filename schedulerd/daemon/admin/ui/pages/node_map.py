"""All nodes as one drawing: a square a node, in a block a rack. Thousands of links would be too much for one page, so
the links are those of the racks.

All squares of one shade are one path, in which equal neighbours are one line. A dash of it is a square.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schedulerd.daemon.admin.ui.bars import SHADES

WIDTH = 120
"""Squares that fit side by side."""
LABELS_MAX = 250
"""Racks that have a name and a link; the squares of further ones are drawn all the same."""
MARKS = ("reserved", "draining", "not_ready")
PATHS = ("floor", *(f"shade{level}" for level in range(1, SHADES + 1)), *MARKS)
"""An empty node has only the floor."""
_BLOCK_WIDTHS = (10, 18, 38, WIDTH)
_ROWS_MAX = 10
_GAP, _LABEL = 2, 2
_NODES_A_TURN = 64


class Square(NamedTuple):
    """A node."""

    level: int
    """0 for an empty one, `SHADES` for a full one."""
    marks: Sequence[str]


@dataclass(slots=True)
class Drawing:
    """Of all racks."""

    paths: dict[str, str] = field(default_factory=dict)
    labels: list[tuple[int, int, str]] = field(default_factory=list)
    """Where the names of racks stand."""
    labels_left_out: int = 0
    height: int = 0


class _Pen:
    """Draws one path."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._x = self._y = self._length = 0
        """Where the line ends, and how long its last part is."""

    def square(self, x: int, y: int) -> None:
        if not self._length or (x, y) != (self._x, self._y):
            self._end()
            self._parts.append(f"m{x - self._x} {y - self._y}")
            self._x, self._y = x, y
        self._length += 1
        self._x += 1

    def _end(self) -> None:
        if self._length:
            self._parts.append(f"h{self._length}")
            self._length = 0

    def path(self) -> str:
        self._end()
        return "".join(self._parts)


def draw(racks: Mapping[str, Sequence[Square]], shown: Callable[[str], str]) -> Generator[None, None, Drawing]:
    """Draws the racks in their order, on shelves from the top down; `shown` makes their names visible."""
    pens = {name: _Pen() for name in PATHS}
    found = Drawing()
    most = max(map(len, racks.values()), default=0)
    width = WIDTH if len(racks) == 1 else next((one for one in _BLOCK_WIDTHS if most <= one * _ROWS_MAX), WIDTH)
    a_shelf = (WIDTH + _GAP) // (width + _GAP)
    top = deepest = 0
    for number, (rack, squares) in enumerate(racks.items()):
        if number and number % a_shelf == 0:
            top = deepest + 1
        left = number % a_shelf * (width + _GAP)
        if len(found.labels) < LABELS_MAX:
            letters = int(width * 1.2)
            name = shown(rack) or "nodes"
            found.labels.append((left, top + 1, name if len(name) <= letters else f"{name[: letters - 1]}…"))
        else:
            found.labels_left_out += 1
        for at, one in enumerate(squares):
            if at % _NODES_A_TURN == 0:
                yield
            x, y = left + at % width, top + _LABEL + at // width
            pens["floor"].square(x, y)
            if one.level:
                pens[f"shade{one.level}"].square(x, y)
            for mark in one.marks:
                pens[mark].square(x, y)
        deepest = max(deepest, top + _LABEL + -(-len(squares) // width))
    found.paths = {name: pen.path() for name, pen in pens.items()}
    found.height = deepest + 1
    return found
