"""A node: what it offers, what is used there, and whether it accepts new allocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.language.commands import ExistingAllocation
from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.language.specs import NodeOrder

if TYPE_CHECKING:
    from schedulerd.core.state.model.allocation import Allocation
    from schedulerd.core.state.model.predicate_check import PredicateCheck
    from schedulerd.core.state.model.reservation import Reservation

READY_ATTRIBUTE = "ready"
"""SI constant `NodeReadyAttribute`: "false" keeps new allocations away; a node without it is ready."""

HOSTNAME_ATTRIBUTES = ("si/hostname", "hostname")
"""SI constant `HostName`, and its name in an example of SI 2021-02. For a node without it, the node id counts."""


RESERVATIONS_MAX = 250
"""Maximum number of reservations on one node; all of them are checked whenever something changes there."""


class Scoring:
    """How the nodes of a partition are ordered (`nodesortpolicy`): lowest score first.

    The score is the weighted mean of the used shares (`fair`) or of the free shares (`binpacking`). Resources without
    weight, or which the node does not have, do not count.
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
    """The last recommendation to the RM of what a node should offer."""

    own: Resources
    """What the node offers when it does not follow recommendations."""
    offered: Resources
    """What it offered at that time; less than `own` if it followed an earlier recommendation."""
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
        "entitled_reserved",
        "free",
        "leaving",
        "no_reservation_before_ns",
        "node_id",
        "occupied",
        "ordered",
        "ordered_by",
        "predicate_checks",
        "predicate_reserved",
        "recommended",
        "reservations",
        "reserved",
        "score",
        "scoring",
        "state",
        "unclaimed",
        "used",
    )

    def __init__(self, node_id: str, scoring: Scoring) -> None:
        self.node_id = node_id
        self.scoring = scoring
        self.capacity = Resources()
        self.occupied = Resources()
        """Used by workloads of others than this scheduler (SI `occupiedResource`)."""
        self.allocated = Resources()
        """Used by allocations, unclaimed ones included."""
        self.available = Resources()
        """Capacity minus occupied minus allocated; negative where the node is over-committed."""
        self.reservations: dict[Reservation, None] = {}
        """Reservations on this node, oldest first."""
        self.predicate_reserved = Resources()
        """What open predicate checks hold here."""
        self.predicate_checks: dict[PredicateCheck, None] = {}
        """Open predicate checks about this node."""
        self.changed = 0
        """Value of `Partition.changes` when the node last got more room or other attributes, so that refusals of the RM
        may no longer hold."""
        self.no_reservation_before_ns = 0
        """Until this time it gets no aging reservation, because one expired here."""
        self.reserved = Resources()
        """What reservations, and open predicate checks, hold here."""
        self.entitled_reserved = Resources()
        """What entitled reservations, and open predicate checks, hold here."""
        self.leaving = Resources()
        """Used by allocations that are being released, except those that are being replaced in a swap."""
        self.free = self.available
        """What asks without a reservation may have: available minus reserved."""
        self.allocations: dict[str, Allocation] = {}
        self.unclaimed: dict[str, Unclaimed] = {}
        """Existing allocations of applications that are not known, by UUID."""
        self.used: Resources | None = None
        """Real use by all workloads as last reported; None if never reported."""
        self.recommended: Recommended | None = None
        """The last recommendation for this node."""
        self.attributes: Mapping[str, str] = {}
        self.state = NodeState.REMOVED
        """Moved by its handlers only (`lifecycles.NODE`)."""
        self.score = 0.0
        self.ordered = False
        """Whether it is in the node order of the partition, that is: accepts new allocations."""
        self.ordered_by = 0.0
        """Its score in the node order of the partition."""

    def attribute(self, key: str) -> str | None:
        """The value that placement constraints see; None if the node does not have the attribute."""
        value = self.attributes.get(key)
        return self.node_id if value is None and key in HOSTNAME_ATTRIBUTES else value

    @property
    def ready(self) -> bool:
        return self.attributes.get(READY_ATTRIBUTE, "true").strip().lower() != "false"

    @property
    def draining(self) -> bool:
        return self.state is NodeState.DRAINING

    @property
    def available_beside_checks(self) -> Resources:
        """Available minus what open predicate checks hold; the score is computed from this, as if their asks were
        allocated."""
        return self.available.minus(self.predicate_reserved) if self.predicate_reserved else self.available

    def shortage(self, items: Items, reserved: Resources) -> Resources:
        """What the node lacks for `items` once all that is being released has gone; `reserved` is for others."""
        room = self.available
        if self.leaving or reserved:
            room = room.plus(self.leaving).minus(reserved)
        get = room.get
        return Resources({name: amount - get(name, 0) for name, amount in items if amount > get(name, 0)})

    def can_ever_fit(self, items: Items) -> bool:
        """Whether `items` would fit if nothing ran here."""
        return self.capacity.minus(self.occupied).lacks(items) is None

    @property
    def is_reservable(self) -> bool:
        """Whether the number of reservations allows one more."""
        return len(self.reservations) < RESERVATIONS_MAX

    def offer(self, capacity: Resources | None, occupied: Resources | None) -> None:
        """Takes over what the resource manager reports; None leaves that part unchanged."""
        if capacity is not None:
            self.capacity = capacity
        if occupied is not None:
            self.occupied = occupied
        self.available = self.capacity.minus(self.occupied).minus(self.allocated)
        self.rescore()

    def rescore(self) -> None:
        """Computes `free` and the score again, after `available` or a reservation changed."""
        self.free = self.available.minus(self.reserved) if self.reserved else self.available
        self.score = self.scoring.score(self.capacity, self.available_beside_checks)


class Unclaimed:
    """An existing allocation of an application that is not known, on its node."""

    __slots__ = ("items", "mistake", "node", "spec")

    def __init__(self, spec: ExistingAllocation, node: Node) -> None:
        self.spec = spec
        """As the RM reported it."""
        self.items: Items = Resources.canonical(spec.resources)
        self.node = node
        self.mistake = ""
        """Why it could not join its application, which was added since; '' if it waits for one to be added."""

    @property
    def uuid(self) -> str:
        return self.spec.uuid

    @property
    def application_id(self) -> str:
        return self.spec.application_id

    @property
    def key(self) -> str:
        return self.spec.allocation_key
