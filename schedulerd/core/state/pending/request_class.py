"""Classes of interchangeable asks; one object for each distinct request in a partition.

A `RequestClass` is what is asked for: amounts, required node, placement constraint, and
whether the resource manager is asked about it. A `PendingClass` is a request class
with a `QuotaKey`. What is true of one ask of a class (no node fits it, a quota blocks it) is true of all of them, so it
is recorded once for the class, and not checked again until something changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from schedulerd.core.language.ask_tags import NO_PREDICATES
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.state.constraints.constraint import Constraint
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.due import Due
from schedulerd.core.state.quotas.quota_key import PLAIN, QuotaKey

_SIZES_MAX = 1_000

_Identity: TypeAlias = tuple[Items, bool, str, Constraint | None, str]


class RequestClass:
    """What an ask demands. Compared by identity: a partition has one object for each distinct demand."""

    __slots__ = (
        "constraint",
        "identity",
        "items",
        "pending",
        "plain",
        "refused",
        "required_node",
        "resources",
        "skips_predicates",
        "skips_preemption_predicates",
    )

    def __init__(
        self,
        items: Items,
        *,
        refused: bool = False,
        required_node: str = "",
        constraint: Constraint | None = None,
        resources: Resources | None = None,
        predicate_calls: str = "",
    ) -> None:
        """`resources` are those of the items, if there are some: nothing changes them, so they can be shared.
        `predicate_calls` is the value of the asks' tag (`ask_tags`)."""
        self.identity: _Identity = (items, refused, required_node, constraint, predicate_calls)
        self.items = items
        self.resources = Resources(items) if resources is None else resources
        self.refused = refused
        """True for the variant for asks that the RM refused on every node with room; no node fits it."""
        self.required_node = required_node
        """The only node on which its asks may run; '' for any node (SI tag `yunikorn.apache.org/requiredNode`)."""
        self.constraint = constraint
        """What nodes, and what runs there, must be like for it (SI 2021-02 `PlacementConstraint`)."""
        self.skips_predicates = bool(predicate_calls)
        """Whether its asks are placed, and room reserved for them, without a call to the resource manager."""
        self.skips_preemption_predicates = predicate_calls == NO_PREDICATES
        """Whether allocations are preempted for its asks without a call to the resource manager."""
        self.pending: dict[QuotaKey, PendingClass] = {}
        """The pending classes in use, by quota key."""
        self.plain: PendingClass | None = None
        """The pending class with the key PLAIN. Kept while it is not in use, so that findings about it are not lost."""


class PendingClass:
    """A request class with a quota key. Compared by identity: a partition has one object for each pair."""

    __slots__ = ("items", "joined", "quota_key", "request_class", "unschedulable", "uses")

    def __init__(self, request_class: RequestClass, quota_key: QuotaKey) -> None:
        self.request_class = request_class
        self.quota_key = quota_key
        self.items = request_class.items
        self.unschedulable = False
        """True while no node fits it; it is then blocked at the root."""
        self.uses = 0
        """How many ask groups are of this class."""
        self.joined = 0
        """How often the count of its pending allocations in a leaf increased (`PendingCounts`)."""

    @property
    def is_known(self) -> bool:
        """Whether the class is in use, or is the PLAIN one of a request class that is in use."""
        return bool(self.uses) or (self is self.request_class.plain and bool(self.request_class.pending))


class RequestClasses:
    """The classes of a partition that have pending asks, and which of them are unschedulable."""

    __slots__ = ("_by_size", "_known", "_pending", "_unschedulable", "constrained", "due")

    def __init__(self) -> None:
        self.due: Due[PendingClass] = Due()
        """When the first ask without a reservation of an unschedulable class was made."""
        self._by_size: dict[int, tuple[Resources, RequestClass]] = {}
        """Cache by `id` of the resources object: asks of one size share the object."""
        self._known: dict[_Identity, RequestClass] = {}
        self._pending: dict[PendingClass, None] = {}
        self._unschedulable: dict[PendingClass, None] = {}
        self.constrained = 0
        """How many request classes in use have a constraint."""

    def of(
        self,
        resources: Resources,
        required_node: str = "",
        constraint: Constraint | None = None,
        *,
        predicate_calls: str = "",
    ) -> RequestClass:
        """The one object for these resources if any ask demands them, else a new one (see `current`)."""
        size = self._of_size(resources)
        if not required_node and constraint is None and not predicate_calls:
            return size
        known = self._known.get((size.items, False, required_node, constraint, predicate_calls))
        return known or RequestClass(
            size.items,
            required_node=required_node,
            constraint=constraint,
            resources=size.resources,
            predicate_calls=predicate_calls,
        )

    def knows_size(self, resources: Resources) -> bool:
        """Whether a class was found for this very object before, so that it need not be checked again."""
        found = self._by_size.get(id(resources))
        return found is not None and found[0] is resources

    def _of_size(self, resources: Resources) -> RequestClass:
        found = self._by_size.get(id(resources))
        if found is not None and found[0] is resources:
            return found[1]
        items = resources.canonical()
        request_class = self._known.get((items, False, "", None, "")) or RequestClass(items)
        if len(self._by_size) >= _SIZES_MAX:
            self._by_size.clear()
        self._by_size[id(resources)] = resources, request_class
        return request_class

    def refused_variant(self, request_class: RequestClass, *, refused: bool) -> RequestClass:
        """The variant for asks that the RM refused on every node with room (`refused`), or the ordinary one."""
        items, _, required_node, constraint, predicate_calls = request_class.identity
        known = self._known.get((items, refused, required_node, constraint, predicate_calls))
        return known or RequestClass(
            items,
            refused=refused,
            required_node=required_node,
            constraint=constraint,
            predicate_calls=predicate_calls,
        )

    def of_other_size(self, request_class: RequestClass, resources: Resources) -> RequestClass:
        """The same request for other amounts."""
        _, _, required_node, constraint, predicate_calls = request_class.identity
        return self.of(resources, required_node, constraint, predicate_calls=predicate_calls)

    def current(self, request_class: RequestClass) -> RequestClass:
        """The object in use for the same demand. A request class that was not in use may have been forgotten and
        replaced by another object."""
        return request_class if request_class.pending else self._known.get(request_class.identity, request_class)

    def pending_class(self, request_class: RequestClass, key: QuotaKey) -> PendingClass:
        """The pending class of a current request class with this key; a new one if none is in use."""
        if key is PLAIN:
            if request_class.plain is None:
                request_class.plain = PendingClass(request_class, PLAIN)
            return request_class.plain
        return request_class.pending.get(key) or PendingClass(request_class, key)

    def use(self, pending: PendingClass) -> None:
        """One more ask group is of this class; from now on it is the one for its request class and quota key."""
        if not pending.uses:
            request_class = pending.request_class
            if not request_class.pending:
                self._known[request_class.identity] = request_class
                self.constrained += request_class.constraint is not None
            request_class.pending[pending.quota_key] = pending
            self._pending[pending] = None
        pending.uses += 1

    def disuse(self, pending: PendingClass) -> None:
        """One ask group less is of this class. A class without groups is forgotten."""
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
        """Forgets all classes; only while all asks are entered again."""
        for pending in self._pending:
            pending.uses = 0
            pending.unschedulable = False
            pending.request_class.pending.clear()
        self._known.clear()
        self._pending.clear()
        self._unschedulable.clear()
        self.constrained = 0
        self.due.clear()

    def dismantle(self) -> Iterator[None]:
        for pending in self._pending:
            pending.request_class.plain = None
            yield from clear_stepwise(pending.request_class.pending)
        yield from clear_stepwise(self._known, self._pending, self._unschedulable, self._by_size)
        yield from self.due.dismantle()

    def mark_unschedulable(self, pending: PendingClass) -> None:
        pending.unschedulable = True
        self._unschedulable[pending] = None

    def mark_schedulable(self, pending: PendingClass) -> None:
        """The class is no longer unschedulable; it need not have been."""
        pending.unschedulable = False
        self._unschedulable.pop(pending, None)
        if self.due.times:
            self.due.discard(pending)

    def any_unschedulable(self) -> bool:
        return bool(self._unschedulable)

    def unschedulable(self) -> Iterable[PendingClass]:
        return self._unschedulable

    def known(self) -> Iterable[PendingClass]:
        """All pending classes that ask groups are of."""
        return self._pending

    def known_requests(self) -> Iterable[RequestClass]:
        """All request classes that are in use, whatever their quota keys."""
        return self._known.values()
