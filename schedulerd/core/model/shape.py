"""What makes asks interchangeable for placement; one object per distinct request in a partition.

Whatever is true of one ask of a shape (no node fits it, this queue has no room for it) is true of all of them, so it is
recorded once for the shape, and never asked again until something changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from schedulerd.core.resources import Items, Resources


class Shape:
    """A request of given resources. Compared by identity: a partition has one object for each."""

    __slots__ = ("items", "parked", "resources", "uses")

    def __init__(self, items: Items) -> None:
        self.items = items
        self.resources = Resources(items)
        self.parked = False
        """True while no node that may be used has room for it; it is then closed at the root."""
        self.uses = 0
        """How many applications have pending asks of it."""


class Shapes:
    """The shapes of a partition that have pending asks, and those of them that wait for room on a node."""

    __slots__ = ("_by_items", "_parked")

    def __init__(self) -> None:
        self._by_items: dict[Items, Shape] = {}
        self._parked: dict[Shape, None] = {}

    def of(self, resources: Resources) -> Shape:
        """The one object for these resources if anybody asks for them, else a new one."""
        items = resources.canonical()
        return self._by_items.get(items) or Shape(items)

    def use(self, shape: Shape) -> None:
        """One application more has asks of it; from now on it is the one for its resources."""
        if not shape.uses:
            self._by_items[shape.items] = shape
        shape.uses += 1

    def disuse(self, shape: Shape) -> None:
        """One application less has asks of it; a shape nobody asks for is forgotten."""
        shape.uses -= 1
        if not shape.uses:
            del self._by_items[shape.items]
            self.unpark(shape)

    def park(self, shape: Shape) -> None:
        shape.parked = True
        self._parked[shape] = None

    def unpark(self, shape: Shape) -> None:
        """It does not wait for room any longer; fine if it did not."""
        shape.parked = False
        self._parked.pop(shape, None)

    def parked(self) -> Iterable[Shape]:
        return self._parked

    def known(self) -> Iterable[Shape]:
        return self._by_items.values()
