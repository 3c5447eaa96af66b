"""What makes asks interchangeable for placement; one object per distinct request in a partition.

Whatever is true of one ask of a shape (no node fits it, this queue has no room for it) is true of all of them, so it is
recorded once for the shape, and never asked again until something changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.model.apart import emptied
from schedulerd.core.model.constraint import Constraint
from schedulerd.core.model.due import Due
from schedulerd.core.model.party import Party
from schedulerd.core.resources import Items, Resources

if TYPE_CHECKING:
    from schedulerd.core.model.constraints import Rule
    from schedulerd.core.model.queue import Queue

_SIZES_MAX = 1_000

_Identity: TypeAlias = tuple[Items, Party | None, bool, Items, bool, str, Constraint | None]


class Shape:
    """A request of given resources. Compared by identity: a partition has one object for each.

    Where limits on users, groups or running applications hold, it also matters on whose account it is asked for
    (`party`), and whether its application would start to run with it (`starts`); elsewhere that is None and False.
    `gate` is what the quotas must have room for before the first of it is placed: the whole of a gang (SEMANTICS G2).
    Asks that the resource manager refused on every node with room have one of their own (`turned_down`), which no node
    fits.
    `required_node` is the only node that will do, '' if any will (SI tag `yunikorn.apache.org/requiredNode`).
    `constraint` is what nodes, and what runs there, must be like for it (SI 2021-02 `PlacementConstraint`).
    """

    __slots__ = (
        "constraint",
        "gate",
        "identity",
        "items",
        "joined",
        "parked",
        "party",
        "required_node",
        "resources",
        "rule",
        "starts",
        "turned_down",
        "uses",
        "waiting",
    )

    def __init__(
        self,
        items: Items,
        party: Party | None = None,
        *,
        starts: bool = False,
        gate: Items = (),
        turned_down: bool = False,
        required_node: str = "",
        constraint: Constraint | None = None,
    ) -> None:
        self.identity: _Identity = (items, party, starts, gate, turned_down, required_node, constraint)
        self.turned_down = turned_down
        self.required_node = required_node
        self.constraint = constraint
        self.rule: Rule | None = None
        """Where what is known of the constraint was found last (`Constraints.rule`)."""
        self.gate = gate
        self.items = items
        self.party = party
        self.starts = starts
        self.resources = Resources(items)
        self.parked = False
        """True while no node that may be used has room for it; it is then closed at the root."""
        self.uses = 0
        """How many applications have pending asks of it."""
        self.waiting: dict[Queue, int] = {}
        """By leaf, how many allocations of it are pending of those that are looked at (`AskGroup.counted`)."""
        self.joined = 0
        """How often there were more of them."""


class Shapes:
    """The shapes of a partition that have pending asks, and those of them that wait for room on a node."""

    __slots__ = ("_by_size", "_known", "_parked", "constrained", "due")

    def __init__(self) -> None:
        self.due: Due[Shape] = Due()
        """Parked ones, by when the first ask of them was made for which no room is kept yet."""
        self._by_size: dict[int, tuple[Resources, Shape]] = {}
        """What was found last for the very same object (by its `id`): asks of a size share one."""
        self._known: dict[_Identity, Shape] = {}
        self._parked: dict[Shape, None] = {}
        self.constrained = 0
        """How many of them have a constraint."""

    def of(
        self,
        resources: Resources,
        required_node: str = "",
        constraint: Constraint | None = None,
    ) -> Shape:
        """The one object for these resources if anybody asks for them, else a new one (see `current`)."""
        if not required_node and constraint is None:
            return self._of_size(resources)
        items = resources.canonical()
        known = self._known.get((items, None, False, (), False, required_node, constraint))
        return known or Shape(items, required_node=required_node, constraint=constraint)

    def knows_size(self, resources: Resources) -> bool:
        """Whether a shape was found for the very same object before: what was checked then needs no other look."""
        found = self._by_size.get(id(resources))
        return found is not None and found[0] is resources

    def _of_size(self, resources: Resources) -> Shape:
        found = self._by_size.get(id(resources))
        if found is not None and found[0] is resources:
            return found[1]
        items = resources.canonical()
        shape = self._known.get((items, None, False, (), False, "", None)) or Shape(items)
        if len(self._by_size) >= _SIZES_MAX:
            self._by_size.clear()
        self._by_size[id(resources)] = resources, shape
        return shape

    def turned(self, shape: Shape, *, down: bool) -> Shape:
        """The same request, of asks that no node with room may have, or of others; on nobody's account."""
        known = self._known.get((shape.items, None, False, (), down, shape.required_node, shape.constraint))
        return known or Shape(
            shape.items, turned_down=down, required_node=shape.required_node, constraint=shape.constraint
        )

    def gated(self, shape: Shape, party: Party | None, *, starts: bool, gate: Items = ()) -> Shape:
        """The same request on somebody's account, or behind a gate."""
        if party is None and not starts and not gate:
            return shape
        known = self._known.get((shape.items, party, starts, gate, *shape.identity[4:]))
        return known or Shape(
            shape.items,
            party,
            starts=starts,
            gate=gate,
            turned_down=shape.turned_down,
            required_node=shape.required_node,
            constraint=shape.constraint,
        )

    def current(self, shape: Shape) -> Shape:
        """The one object for the same request: this one may have been forgotten while nobody asked for it, and another
        have taken its place since."""
        return shape if shape.uses else self._known.get(shape.identity, shape)

    def use(self, shape: Shape) -> None:
        """One application more has asks of it; from now on it is the one for its resources."""
        if not shape.uses:
            self._known[shape.identity] = shape
            self.constrained += shape.constraint is not None
        shape.uses += 1

    def disuse(self, shape: Shape) -> None:
        """One application less has asks of it; a shape nobody asks for is forgotten."""
        shape.uses -= 1
        if not shape.uses:
            del self._known[shape.identity]
            self.constrained -= shape.constraint is not None
            self.unpark(shape)

    def forget_all(self) -> None:
        """Nobody asks for anything as far as is known; only where all asks are lined up anew."""
        for shape in self._known.values():
            shape.uses = 0
            shape.parked = False
            shape.waiting.clear()
        self._known.clear()
        self._parked.clear()
        self.constrained = 0
        self.due.clear()

    def take_apart(self) -> Iterator[None]:
        for shape in self._known.values():
            shape.rule = None
            yield from emptied(shape.waiting)
        yield from emptied(self._known, self._parked, self._by_size)
        yield from self.due.take_apart()

    def park(self, shape: Shape) -> None:
        shape.parked = True
        self._parked[shape] = None

    def unpark(self, shape: Shape) -> None:
        """It does not wait for room any longer; fine if it did not."""
        shape.parked = False
        self._parked.pop(shape, None)
        self.due.discard(shape)

    def any_parked(self) -> bool:
        return bool(self._parked)

    def parked(self) -> Iterable[Shape]:
        return self._parked

    def known(self) -> Iterable[Shape]:
        return self._known.values()
