"""What makes asks interchangeable for placement; one object per distinct request in a partition.

Whatever is true of one ask of a request class (no node fits it, this queue has no room for it) is true of all of them,
so it is recorded once for the request class, and never asked again until something changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.model.apart import emptied
from schedulerd.core.model.constraint import Constraint
from schedulerd.core.model.due import Due
from schedulerd.core.model.limit_subject import LimitSubject
from schedulerd.core.resources import Items, Resources

if TYPE_CHECKING:
    from schedulerd.core.model.constraints import Rule
    from schedulerd.core.model.queue import Queue

_SIZES_MAX = 1_000

_Identity: TypeAlias = tuple[Items, LimitSubject | None, bool, Items, bool, str, Constraint | None]


class RequestClass:
    """A request of given resources. Compared by identity: a partition has one object for each.

    Where limits on users, groups or running applications hold, it also matters on whose account it is asked for
    (`limit_subject`), and whether its application would start to run with it (`starts`); elsewhere that is None and
    False. `gate` is what the quotas must have room for before the first of it is placed: the whole of a gang (SEMANTICS
    G2). Asks that the resource manager refused on every node with room have one of their own (`refused_asks`), which no
    node fits.
    `required_node` is the only node that will do, '' if any will (SI tag `yunikorn.apache.org/requiredNode`).
    `constraint` is what nodes, and what runs there, must be like for it (SI 2021-02 `PlacementConstraint`).
    """

    __slots__ = (
        "constraint",
        "gang_gate",
        "identity",
        "items",
        "joined",
        "limit_subject",
        "pending_by_leaf",
        "refused",
        "required_node",
        "resources",
        "rule",
        "starts_application",
        "unschedulable",
        "uses",
    )

    def __init__(
        self,
        items: Items,
        limit_subject: LimitSubject | None = None,
        *,
        starts: bool = False,
        gate: Items = (),
        refused_asks: bool = False,
        required_node: str = "",
        constraint: Constraint | None = None,
    ) -> None:
        self.identity: _Identity = (items, limit_subject, starts, gate, refused_asks, required_node, constraint)
        self.refused = refused_asks
        self.required_node = required_node
        self.constraint = constraint
        self.rule: Rule | None = None
        """Where what is known of the constraint was found last (`Constraints.rule`)."""
        self.gang_gate = gate
        self.items = items
        self.limit_subject = limit_subject
        self.starts_application = starts
        self.resources = Resources(items)
        self.unschedulable = False
        """True while no node that may be used has room for it; it is then closed at the root."""
        self.uses = 0
        """How many applications have pending asks of it."""
        self.pending_by_leaf: dict[Queue, int] = {}
        """By leaf, how many allocations of it are pending of those that are looked at (`AskGroup.counted`)."""
        self.joined = 0
        """How often there were more of them."""


class RequestClasses:
    """The request classes of a partition that have pending asks, and those of them that wait for room on a node."""

    __slots__ = ("_by_size", "_known", "_parked", "constrained", "due")

    def __init__(self) -> None:
        self.due: Due[RequestClass] = Due()
        """Parked ones, by when the first ask of them was made for which no room is kept yet."""
        self._by_size: dict[int, tuple[Resources, RequestClass]] = {}
        """What was found last for the very same object (by its `id`): asks of a size share one."""
        self._known: dict[_Identity, RequestClass] = {}
        self._parked: dict[RequestClass, None] = {}
        self.constrained = 0
        """How many of them have a constraint."""

    def of(
        self,
        resources: Resources,
        required_node: str = "",
        constraint: Constraint | None = None,
    ) -> RequestClass:
        """The one object for these resources if anybody asks for them, else a new one (see `current`)."""
        if not required_node and constraint is None:
            return self._of_size(resources)
        items = resources.canonical()
        known = self._known.get((items, None, False, (), False, required_node, constraint))
        return known or RequestClass(items, required_node=required_node, constraint=constraint)

    def knows_size(self, resources: Resources) -> bool:
        """Whether a request class was found for the very same object before: what was checked then needs no other
        look."""
        found = self._by_size.get(id(resources))
        return found is not None and found[0] is resources

    def _of_size(self, resources: Resources) -> RequestClass:
        found = self._by_size.get(id(resources))
        if found is not None and found[0] is resources:
            return found[1]
        items = resources.canonical()
        request_class = self._known.get((items, None, False, (), False, "", None)) or RequestClass(items)
        if len(self._by_size) >= _SIZES_MAX:
            self._by_size.clear()
        self._by_size[id(resources)] = resources, request_class
        return request_class

    def refused_variant(self, request_class: RequestClass, *, down: bool) -> RequestClass:
        """The same request, of asks that no node with room may have, or of others; on nobody's account."""
        known = self._known.get(
            (request_class.items, None, False, (), down, request_class.required_node, request_class.constraint)
        )
        return known or RequestClass(
            request_class.items,
            refused_asks=down,
            required_node=request_class.required_node,
            constraint=request_class.constraint,
        )

    def with_account(
        self, request_class: RequestClass, limit_subject: LimitSubject | None, *, starts: bool, gate: Items = ()
    ) -> RequestClass:
        """The same request on somebody's account, or behind a gate."""
        if limit_subject is None and not starts and not gate:
            return request_class
        known = self._known.get((request_class.items, limit_subject, starts, gate, *request_class.identity[4:]))
        return known or RequestClass(
            request_class.items,
            limit_subject,
            starts=starts,
            gate=gate,
            refused_asks=request_class.refused,
            required_node=request_class.required_node,
            constraint=request_class.constraint,
        )

    def current(self, request_class: RequestClass) -> RequestClass:
        """The one object for the same request: this one may have been forgotten while nobody asked for it, and another
        have taken its place since."""
        return request_class if request_class.uses else self._known.get(request_class.identity, request_class)

    def use(self, request_class: RequestClass) -> None:
        """One application more has asks of it; from now on it is the one for its resources."""
        if not request_class.uses:
            self._known[request_class.identity] = request_class
            self.constrained += request_class.constraint is not None
        request_class.uses += 1

    def disuse(self, request_class: RequestClass) -> None:
        """One application less has asks of it; a request class nobody asks for is forgotten."""
        request_class.uses -= 1
        if not request_class.uses:
            del self._known[request_class.identity]
            self.constrained -= request_class.constraint is not None
            self.mark_schedulable(request_class)

    def forget_all(self) -> None:
        """Nobody asks for anything as far as is known; only where all asks are lined up anew."""
        for request_class in self._known.values():
            request_class.uses = 0
            request_class.unschedulable = False
            request_class.pending_by_leaf.clear()
        self._known.clear()
        self._parked.clear()
        self.constrained = 0
        self.due.clear()

    def take_apart(self) -> Iterator[None]:
        for request_class in self._known.values():
            request_class.rule = None
            yield from emptied(request_class.pending_by_leaf)
        yield from emptied(self._known, self._parked, self._by_size)
        yield from self.due.take_apart()

    def mark_unschedulable(self, request_class: RequestClass) -> None:
        request_class.unschedulable = True
        self._parked[request_class] = None

    def mark_schedulable(self, request_class: RequestClass) -> None:
        """It does not wait for room any longer; fine if it did not."""
        request_class.unschedulable = False
        self._parked.pop(request_class, None)
        self.due.discard(request_class)

    def any_unschedulable(self) -> bool:
        return bool(self._parked)

    def unschedulable(self) -> Iterable[RequestClass]:
        return self._parked

    def known(self) -> Iterable[RequestClass]:
        return self._known.values()
