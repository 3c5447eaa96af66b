"""What happened to one object, as plain values: an event before it is a message of some version of the interface.

The scheduler interface has three shapes of `EventRecord`. A `Record` has what any of them says, in the words and
numbers of 2023-06, so that each is a matter of leaving out and renaming.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from schedulerd._generated.si.v1 import si_pb2

TEXT_LENGTH_MAX = 1_024
"""Characters of a message, and of an id that a resource manager sent and that was not accepted: events stay in memory
for long, and what is rejected may be of any size."""

NO_RESOURCES: Mapping[str, int] = MappingProxyType({})

SI = si_pb2.EventRecord
"""For the values of its enums: to look them up in the enum itself takes fifty times as long."""
Kind = si_pb2.EventRecord.Type
Change = si_pb2.EventRecord.ChangeType
Detail = si_pb2.EventRecord.ChangeDetail


class Record(NamedTuple):
    """One SI `EventRecord` without its time."""

    kind: Kind.ValueType
    object_id: str
    change: Change.ValueType
    detail: Detail.ValueType
    reference_id: str = ""
    resources: Mapping[str, int] = NO_RESOURCES
    message: str = ""
    group: str = ""
    """The application of a request, the queue of an application; `groupID` of the versions before 2023-06."""
    reason: str = ""
    """One word in CamelCase, for those versions; '' where change and detail say it all."""
    at_ns: int | None = None
    """Monotonic time of the event if the fact has one; None: the time when the fact was observed."""


class Event(NamedTuple):
    """A record with its number, its resource manager and its partition."""

    event_id: int
    rm_id: str
    partition: str
    """Name as in the queue file; '' for an object outside of partitions."""
    at_ns: int
    """Wall time, in nanoseconds since the Unix epoch."""
    record: Record


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Since the daemon began, for the metrics."""

    recorded: int = 0
    suppressed: int = 0
    """Events that were not recorded, because the object had the same event a moment before."""
    lost: int = 0
    """No longer there when a follower came to them; counted for each follower."""
    failed: int = 0
    """Left out because they could not be recorded or shown; counted for each reader."""
    followers: int = 0
    """Current number of followers."""


def cut(text: str) -> str:
    """As much of a text as an event keeps."""
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 3]}..."
