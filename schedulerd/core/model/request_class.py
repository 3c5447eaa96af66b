"""What makes asks interchangeable; one object per distinct request in a partition.

A `RequestClass` is what is asked for: amounts, the only node that will do, placement constraint. A `PendingClass` is a
request class on somebody's account (`QuotaKey`). Whatever is true of one ask of a class (no node fits it, this queue
has no room for it) is true of all of them, so it is recorded once for the class, and never asked again until something
changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from schedulerd.core.model.apart import emptied
from schedulerd.core.model.constraint import Constraint
from schedulerd.core.model.due import Due
from schedulerd.core.quotas.quota_key import PLAIN, QuotaKey
from schedulerd.core.resources import Items, Resources

if TYPE_CHECKING:
    from schedulerd.core.model.constraints import Rule
    from schedulerd.core.model.queue import Queue

_SIZES_MAX = 1_000

_Identity: TypeAlias = tuple[Items, bool, str, Constraint | None]


class RequestClass:
    """What is asked for. Compared by identity: a partition has one object for each."""

    __slots__ = ("constraint", "identity", "items", "pending", "plain", "refused", "required_node", "resources", "rule")

    def __init__(
        self,
        items: Items,
        *,
        refused: bool = False,
        required_node: str = "",
        constraint: Constraint | None = None,
    ) -> None:
        self.identity: _Identity = (items, refused, required_node, constraint)
        self.items = items
        self.resources = Resources(items)
        self.refused = refused
        """True for asks that the resource manager refused on every node with room: no node fits them."""
        self.required_node = required_node
        """The only node that will do, '' if any will (SI tag `yunikorn.apache.org/requiredNode`)."""
        self.constraint = constraint
        """What nodes, and what runs there, must be like for it (SI 2021-02 `PlacementConstraint`)."""
        self.rule: Rule | None = None
        """Where what is known of the constraint was found last (`Constraints.rule`)."""
        self.pending: dict[QuotaKey, PendingClass] = {}
        """Pending classes of it that are in use."""
        self.plain: PendingClass | None = None
        """The one on nobody's account, also while it is not in use itself: what was found out about it is kept."""


class PendingClass:
    """A request class on somebody's account. Compared by identity: a partition has one object for each."""

    __slots__ = ("items", "joined", "pending_by_leaf", "quota_key", "request_class", "unschedulable", "uses")

    def __init__(self, request_class: RequestClass, quota_key: QuotaKey) -> None:
        self.request_class = request_class
        self.quota_key = quota_key
        self.items = request_class.items
        self.unschedulable = False
        """True while no node that may be used has room for it; it is then blocked at the root."""
        self.uses = 0
        """How many groups of pending asks are of it."""
        self.pending_by_leaf: dict[Queue, int] = {}
        """How many allocations of it are pending, of those that are looked at (`AskGroup.counted`)."""
        self.joined = 0
        """How often there were more of them."""

    @property
    def is_known(self) -> bool:
        """Whether asks are of it, or of its request class on another account if it is on nobody's."""
        return bool(self.uses) or (self is self.request_class.plain and bool(self.request_class.pending))


class RequestClasses:
    """The classes of a partition that have pending asks, and those of them that wait for room on a node."""

    __slots__ = ("_by_size", "_known", "_pending", "_unschedulable", "constrained", "due")

    def __init__(self) -> None:
        self.due: Due[PendingClass] = Due()
        """Unschedulable ones, by when the first ask of them was made for which no room is reserved yet."""
        self._by_size: dict[int, tuple[Resources, RequestClass]] = {}
        """What was found last for the very same object (by its `id`): asks of a size share one."""
        self._known: dict[_Identity, RequestClass] = {}
        self._pending: dict[PendingClass, None] = {}
        self._unschedulable: dict[PendingClass, None] = {}
        self.constrained = 0
        """How many request classes have a constraint."""

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
        known = self._known.get((items, False, required_node, constraint))
        return known or RequestClass(items, required_node=required_node, constraint=constraint)

    def knows_size(self, resources: Resources) -> bool:
        """Whether a class was found for the very same object before: what was checked then needs no other look."""
        found = self._by_size.get(id(resources))
        return found is not None and found[0] is resources

    def _of_size(self, resources: Resources) -> RequestClass:
        found = self._by_size.get(id(resources))
        if found is not None and found[0] is resources:
            return found[1]
        items = resources.canonical()
        request_class = self._known.get((items, False, "", None)) or RequestClass(items)
        if len(self._by_size) >= _SIZES_MAX:
            self._by_size.clear()
        self._by_size[id(resources)] = resources, request_class
        return request_class

    def refused_variant(self, request_class: RequestClass, *, down: bool) -> RequestClass:
        """The same request, of asks that no node with room may have, or of others."""
        known = self._known.get((request_class.items, down, request_class.required_node, request_class.constraint))
        return known or RequestClass(
            request_class.items,
            refused=down,
            required_node=request_class.required_node,
            constraint=request_class.constraint,
        )

    def current(self, request_class: RequestClass) -> RequestClass:
        """The one object for the same request: this one may have been forgotten while nobody asked for it, and another
        have taken its place since."""
        return request_class if request_class.pending else self._known.get(request_class.identity, request_class)

    def pending_class(self, request_class: RequestClass, key: QuotaKey) -> PendingClass:
        """The one object for a request class, which is current, on this account; a new one if nobody uses it."""
        if key is PLAIN:
            if request_class.plain is None:
                request_class.plain = PendingClass(request_class, PLAIN)
            return request_class.plain
        return request_class.pending.get(key) or PendingClass(request_class, key)

    def use(self, pending: PendingClass) -> None:
        """One group of asks more is of it; from now on it is the one for its request class and account."""
        if not pending.uses:
            request_class = pending.request_class
            if not request_class.pending:
                self._known[request_class.identity] = request_class
                self.constrained += request_class.constraint is not None
            request_class.pending[pending.quota_key] = pending
            self._pending[pending] = None
        pending.uses += 1

    def disuse(self, pending: PendingClass) -> None:
        """One group of asks less is of it; a class that no group is of is forgotten."""
        pending.uses -= 1
        if not pending.uses:
            request_class = pending.request_class
            del self._pending[pending]
            del request_class.pending[pending.quota_key]
            if not request_class.pending:
                del self._known[request_class.identity]
                request_class.plain = None  # they refer to each other
                self.constrained -= request_class.constraint is not None
            self.mark_schedulable(pending)

    def forget_all(self) -> None:
        """Nobody asks for anything as far as is known; only where all asks are enqueued anew."""
        for pending in self._pending:
            pending.uses = 0
            pending.unschedulable = False
            pending.pending_by_leaf.clear()
            pending.request_class.pending.clear()
        self._known.clear()
        self._pending.clear()
        self._unschedulable.clear()
        self.constrained = 0
        self.due.clear()

    def take_apart(self) -> Iterator[None]:
        for pending in self._pending:
            pending.request_class.rule = pending.request_class.plain = None
            yield from emptied(pending.pending_by_leaf, pending.request_class.pending)
        yield from emptied(self._known, self._pending, self._unschedulable, self._by_size)
        yield from self.due.take_apart()

    def mark_unschedulable(self, pending: PendingClass) -> None:
        pending.unschedulable = True
        self._unschedulable[pending] = None

    def mark_schedulable(self, pending: PendingClass) -> None:
        """It does not wait for room any longer; fine if it did not."""
        pending.unschedulable = False
        self._unschedulable.pop(pending, None)
        self.due.discard(pending)

    def any_unschedulable(self) -> bool:
        return bool(self._unschedulable)

    def unschedulable(self) -> Iterable[PendingClass]:
        return self._unschedulable

    def known(self) -> Iterable[PendingClass]:
        """All that groups of pending asks are of."""
        return self._pending

    def known_requests(self) -> Iterable[RequestClass]:
        """What is asked for, on whatever account."""
        return self._known.values()
