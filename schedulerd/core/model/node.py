"""A node: what it offers, what is used of it, and whether anything new may go there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.lifecycles import NodeState
from schedulerd.core.resources import Items, Resources
from schedulerd.core.specs import NodeOrder

if TYPE_CHECKING:
    from schedulerd.core.model.allocation import Allocation, Ask
    from schedulerd.core.model.predicate_check import PredicateCheck
    from schedulerd.core.model.reservation import Reservation

READY_ATTRIBUTE = "ready"
"""SI constant `NodeReadyAttribute`; "false" keeps new allocations away (a node without it is ready)."""

HOSTNAME_ATTRIBUTES = ("si/hostname", "hostname")
"""SI constant `HostName`, and what SI 2021-02 calls it in an example: of a node without it, its id."""


class Scoring:
    """How the nodes of a partition are ordered (`nodesortpolicy`): lowest score first.

    `fair` scores the weighted mean of the used shares, `binpacking` that of the free shares. Resources without weight,
    or of which the node has none, do not count.
    """

    __slots__ = ("is_fair", "weights")

    def __init__(self, policy: NodeOrder, weights: Mapping[str, float]) -> None:
        self.is_fair = policy is NodeOrder.FAIR
        self.weights = tuple(sorted((name, weight) for name, weight in weights.items() if weight))

    def score(self, capacity: Resources, available: Resources) -> float:
        used = total = 0.0
        for name, weight in self.weights:
            offered = capacity[name]
            if offered:
                used += weight * (1.0 - available[name] / offered)
                total += weight
        mean = used / total if total else 0.0
        return mean if self.is_fair else 1.0 - mean


class Recommended(NamedTuple):
    """What its resource manager was told that a node had better offer."""

    own: Resources
    """What it offers if it does not follow recommendations."""
    offered: Resources
    """What it offered then; less than that if it followed an earlier one."""
    schedulable: Resources
    at_ns: int


class Node:
    __slots__ = (
        "allocated",
        "allocations",
        "attributes",
        "available",
        "capacity",
        "changed",
        "draining",
        "entitled_reserved",
        "free",
        "leaving",
        "node_id",
        "occupied",
        "ordered",
        "ordered_by",
        "predicate_checks",
        "predicate_reserved",
        "recommended",
        "reservations",
        "reserved",
        "rests_until_ns",
        "score",
        "scoring",
        "used",
    )

    def __init__(self, node_id: str, scoring: Scoring) -> None:
        self.node_id = node_id
        self.scoring = scoring
        self.capacity = Resources()
        self.occupied = Resources()
        """Used by others than this scheduler (SI `occupiedResource`)."""
        self.allocated = Resources()
        self.available = Resources()
        """Capacity less occupied less allocated; negative where the node is over-committed."""
        self.reservations: dict[Ask, Reservation] = {}
        """For whom room is kept here, in the order in which that began."""
        self.predicate_reserved = Resources()
        """What asks hold that wait for a result."""
        self.predicate_checks: dict[PredicateCheck, None] = {}
        """What the resource manager is asked about it."""
        self.changed = 0
        """When it had more room than before, or its attributes changed, for the last time: so many changes of nodes
        there had been in the partition."""
        self.rests_until_ns = 0
        """Before that no ask that just waited for long has room kept here, as that was in vain for another."""
        self.reserved = Resources()
        """By all of them, and by asks that wait for a result."""
        self.entitled_reserved = Resources()
        """By those that have a right to it, and by asks that wait for a result."""
        self.leaving = Resources()
        """Used by allocations that were asked to go and whose room nobody has taken in exchange."""
        self.free = self.available
        """What asks without a reservation may have: what is available and not kept."""
        self.allocations: dict[str, Allocation] = {}
        self.used: Resources | None = None
        """What is really used, by whomever, as it was reported last; None if it never was."""
        self.recommended: Recommended | None = None
        """The last recommendation for it."""
        self.attributes: Mapping[str, str] = {}
        self.draining = False
        self.score = 0.0
        self.ordered = False
        """Whether it stands in the partition's node order, that is: may get new allocations."""
        self.ordered_by = 0.0
        """The score under which it stands in the partition's node order."""

    def attribute(self, key: str) -> str | None:
        """What placement constraints see; None if the node does not have it."""
        value = self.attributes.get(key)
        return self.node_id if value is None and key in HOSTNAME_ATTRIBUTES else value

    @property
    def ready(self) -> bool:
        return self.attributes.get(READY_ATTRIBUTE, "true").strip().lower() != "false"

    @property
    def state(self) -> NodeState:
        if self.draining:
            return NodeState.DRAINING
        return NodeState.SCHEDULABLE if self.ready else NodeState.NOT_READY

    @property
    def unclaimed(self) -> Resources:
        """What is available, as if those who wait for a result were placed: that is what the node is ordered by."""
        return self.available.minus(self.predicate_reserved) if self.predicate_reserved else self.available

    def can_ever_fit(self, items: Items) -> bool:
        """Whether so much would fit if nothing ran here."""
        return self.capacity.minus(self.occupied).lacks(items) is None

    def offer(self, capacity: Resources | None, occupied: Resources | None) -> None:
        """Takes over what the resource manager reports; None leaves that part as it is."""
        if capacity is not None:
            self.capacity = capacity
        if occupied is not None:
            self.occupied = occupied
        self.available = self.capacity.minus(self.occupied).minus(self.allocated)
        self.rescore()

    def rescore(self) -> None:
        """What is available, or kept, changed."""
        self.free = self.available.minus(self.reserved) if self.reserved else self.available
        self.score = self.scoring.score(self.capacity, self.unclaimed)
