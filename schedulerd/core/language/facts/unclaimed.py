"""Facts about unclaimed allocations; they are part of `Fact`.

Every `AllocationUnclaimed` is followed by one `UnclaimedEnded`, unless the state of its RM is dropped. Both are about
the room of a node alone: no queue and no user has a part in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.resources import Resources


class UnclaimedEnd(StrEnum):
    """Why an allocation is unclaimed no longer."""

    JOINED = "joined"
    """Its application was added. The fact is followed by `Allocated`, or by `AllocationChanged`."""
    RELEASED = "released"
    """Its RM released it, or removed its application."""
    NODE_REMOVED = "node_removed"
    REPORTED_ANEW = "reported_anew"
    """Its RM reports it with other amounts, or elsewhere. `AllocationUnclaimed` follows."""


@dataclass(slots=True)
class AllocationUnclaimed:
    """An RM reported an existing allocation of an application that is not known: it uses room of its node."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resources: Resources
    tags: Mapping[str, str]
    reason: str


@dataclass(slots=True)
class UnclaimedEnded:
    """An allocation is unclaimed no longer, and its room is free, or is that of an allocation of its application."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resources: Resources
    cause: UnclaimedEnd
    termination: TerminationType
    """The type to tell the RM with."""
    confirm: bool
    """Whether the RM is told: it asked for the release, or must learn of it."""
    message: str
