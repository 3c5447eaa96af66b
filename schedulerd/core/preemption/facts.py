"""Facts about reservations and preemption.

These facts are part of `Fact`. They have a module of their own because no ledger of asks, allocations or resources
depends on them; the facts about allocations tell what happens to each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schedulerd.core.resources import Resources


class ReservationEnd(StrEnum):
    """Why a reservation ended."""

    PLACED = "placed"
    """The ask was allocated in the reserved room."""
    NOT_NEEDED = "not_needed"
    """The ask was allocated elsewhere or withdrawn, or its application does not wait for it now."""
    NODE = "node"
    """The node is gone, takes no new allocations, is too small beside the own allocations of the ask's application, or
    is ruled out by a constraint or by the RM."""
    GANG = "gang"
    """The ask's gang cannot be complete on the existing nodes, even without other applications."""
    QUOTA = "quota"
    """The room is there, but a quota or limit keeps the ask out."""
    EXPIRED = "expired"
    """The reservation lasted for `reservation_s` in vain; the ask gets no other one for the same time."""


class PreemptionRefusal(StrEnum):
    """Why no allocation is preempted for an ask."""

    NOT_ENTITLED = "not_entitled"
    """With the ask, a queue would use more than its guarantee; or its queues have no guarantee."""
    QUOTA = "quota"
    """A quota or limit would not let the ask in even after preemption."""
    NO_VICTIMS = "no_victims"
    """No queue from which the ask may preempt is above its guarantee."""
    NO_NODE = "no_node"
    """On no node would the possible victims make enough room."""


@dataclass(slots=True)
class Reserved:
    """Room of a node was reserved for one allocation of an ask."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    node_id: str
    resources: Resources
    entitled: bool
    """True if allocations are preempted for the ask, or if it has a required node."""


@dataclass(slots=True)
class ReservationEnded:
    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    node_id: str
    entitled: bool
    end: ReservationEnd
    kept_ns: int
    """How long the reservation lasted."""


@dataclass(slots=True)
class Preempted:
    """The RM is asked to release victims on a node, so that an entitled ask fits there."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    node_id: str
    victims: tuple[tuple[str, str], ...]
    """Queue and UUID of each victim; empty if pending releases free enough room."""
    why: str


@dataclass(slots=True)
class QuotaPreempted:
    """A queue was above its max for longer than its delay: the RM is asked to release the excess."""

    rm_id: str
    partition: str
    queue: str
    victims: int
    """Number of allocations; 0 if none may be preempted, and then relief is not tried again."""
    why: str


@dataclass(slots=True)
class RoomMade:
    """The last victim for an ask is gone."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    node_id: str
    waited_ns: int
    """Time since the victims were asked to be released."""


@dataclass(slots=True)
class PreemptionRefused:
    """A preemption attempt for an ask ended without victims."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    refusal: PreemptionRefusal
    reason: str
    """The complete reason, as a sentence."""
