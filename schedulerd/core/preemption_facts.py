"""What can be said about room that is kept for asks, and about those that end for others.

What becomes of each allocation is said by the facts about allocations. These are part of `Fact` too, and have a module
of their own because no count of asks, allocations or resources depends on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schedulerd.core.resources import Resources


class ReservationEnd(StrEnum):
    """Why room is not kept for an ask any longer."""

    PLACED = "placed"
    """The ask got it."""
    NOT_NEEDED = "not_needed"
    """The ask was placed elsewhere, or is not wanted any longer, or its application does not wait for it now."""
    NODE = "node"
    """The node is gone, or takes nothing new, or is too small beside what the application of the ask uses there."""
    GANG = "gang"
    """The gang of the ask cannot be complete on the nodes there are, even if no other application used them."""
    QUOTA = "quota"
    """There is room now, and no quota for the ask."""
    EXPIRED = "expired"
    """It was kept for long enough in vain, and is left to others for as long."""


class PreemptionRefusal(StrEnum):
    """Why nobody is ended for an ask."""

    NOT_ENTITLED = "not_entitled"
    """With it, a queue would use more than it is guaranteed; or nothing is guaranteed to its queues."""
    QUOTA = "quota"
    """A quota or a limit would not let it in even then."""
    NO_VICTIMS = "no_victims"
    """No queue that it may take from is above its guarantee."""
    NO_NODE = "no_node"
    """On no node would those that may be ended make enough room."""


@dataclass(slots=True)
class Reserved:
    """Room of a node is kept for one allocation of an ask."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    node_id: str
    resources: Resources
    entitled: bool
    """True if the ask has a right to the node: others end for it, or it may run nowhere else."""


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
    """How long the room was kept."""


@dataclass(slots=True)
class Preempted:
    """The RM is asked to end allocations on a node, so that an ask with a right to it fits there."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    node_id: str
    victims: tuple[tuple[str, str], ...]
    """Queue and UUID of each; none if enough room was about to come free anyway."""
    why: str


@dataclass(slots=True)
class QuotaPreempted:
    """A queue was above its max for longer than it may be, and the RM is asked to end what is too much of it."""

    rm_id: str
    partition: str
    queue: str
    victims: int
    """How many allocations; none if none of them may be ended, which is not tried again then."""
    why: str


@dataclass(slots=True)
class RoomMade:
    """The last that had to go for an ask is gone."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    node_id: str
    waited_ns: int
    """Since they were asked to go."""


@dataclass(slots=True)
class PreemptionRefused:
    """It was looked at who could end for an ask, and nobody is asked to."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    refusal: PreemptionRefusal
    reason: str
    """The whole of it as a sentence."""
