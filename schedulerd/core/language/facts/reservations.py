"""Facts about reservations.

These facts are part of `Fact`. No ledger of asks, allocations or resources depends on them; the facts about allocations
tell what happens to each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schedulerd.core.language.resources import Resources


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
    number: int = 1
    """Tells apart the reservations of one ask."""


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
    number: int = 1
