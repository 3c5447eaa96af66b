"""Facts about preemption.

These facts are part of `Fact`. They have a module of their own because no ledger of asks, allocations or resources
depends on them; the facts about allocations tell what happens to each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    number: int = 1
    """That of the reservation (`Reserved`)."""


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
    number: int = 1
    """That of the reservation (`Reserved`)."""


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
