"""Events as messages of the versions of the scheduler interface.

2023-06 says what changed by type and detail. The versions before have a reason, one word, and the group that the object
belongs to; 2021-02 has other numbers for the kinds of object besides, and none for what is no object of the interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd._generated.si.v2022_12 import event_pb2 as event_2022_pb2
from schedulerd.core.language.resources import within_int64
from schedulerd.observe.event_record import Change, Detail, Event, Kind, Record
from schedulerd.observe.event_ring import EventRing

MessageT = TypeVar("MessageT")
Earlier = TypeVar("Earlier", event_2022_pb2.EventRecord, si_2021_pb2.EventRecord)


_KINDS_OF_2021: Mapping[Kind.ValueType, si_2021_pb2.EventRecord.Type.ValueType] = {
    Kind.REQUEST: si_2021_pb2.EventRecord.REQUEST,
    Kind.APP: si_2021_pb2.EventRecord.APP,
    Kind.NODE: si_2021_pb2.EventRecord.NODE,
    Kind.QUEUE: si_2021_pb2.EventRecord.QUEUE,
}

_BOTH_WAYS = frozenset(
    {
        Detail.APP_ALLOC,
        Detail.APP_REQUEST,
        Detail.NODE_ALLOC,
        Detail.QUEUE_APP,
        Detail.QUEUE_ALLOC,
        Detail.QUEUE_CONFIG,
        Detail.QUEUE_DYNAMIC,
    }
)
"""Details of which the change type says whether something came or went."""
_WAYS: Mapping[Change.ValueType, str] = {
    Change.NONE: "",
    Change.SET: "Changed",
    Change.ADD: "Added",
    Change.REMOVE: "Removed",
}


def encoded(events: Iterable[Event], encode: Callable[[Event], MessageT | None], ring: EventRing) -> Iterator[MessageT]:
    """The messages of events. An event that cannot be encoded, which is a bug, is left out, and the ring counts it."""
    for event in events:
        try:
            message = encode(event)
        except Exception as error:  # noqa: BLE001  # one event is no reason to end what all events go through
            ring.count_failed(event.event_id, error)
            continue
        if message is not None:
            yield message


def admin_event(event: Event) -> admin_pb2.Event:
    """The event as a message of Admin, with its id and its resource manager."""
    return admin_pb2.Event(
        id=event.event_id, rmID=event.rm_id, partition=event.partition, record=message_of_2023(event)
    )


def message_of_2023(event: Event) -> si_pb2.EventRecord:
    record = event.record
    message = si_pb2.EventRecord(
        type=record.kind,
        objectID=record.object_id,
        message=record.message,
        timestampNano=event.at_ns,
        eventChangeType=record.change,
        eventChangeDetail=record.detail,
        referenceID=record.reference_id,
    )
    for name, amount in record.resources.items():
        message.resource.resources[name].value = within_int64(amount)
    return message


def message_of_2022(event: Event) -> event_2022_pb2.EventRecord:
    message = _fill(event_2022_pb2.EventRecord(), event)
    message.type = event_2022_pb2.EventRecord.Type.ValueType(event.record.kind)
    return message


def message_of_2021(event: Event) -> si_2021_pb2.EventRecord | None:
    """The event as a 2021-02 message; None if that version has no such kind of object."""
    kind = _KINDS_OF_2021.get(event.record.kind)
    if kind is None:
        return None
    message = _fill(si_2021_pb2.EventRecord(), event)
    message.type = kind
    return message


def _fill(message: Earlier, event: Event) -> Earlier:
    """All that both earlier versions have in common, that is all but the kind of object."""
    record = event.record
    message.objectID = record.object_id
    message.groupID = record.group
    message.reason = reason(record)
    message.message = record.message or ": ".join(part for part in (message.reason, record.reference_id) if part)
    message.timestampNano = event.at_ns
    return message


def reason(record: Record) -> str:
    """One word for what happened, like `AppRunning`, `NodeAllocAdded` or `PlaceholderTooSmall`."""
    if record.reason:
        return record.reason
    word = "".join(part.capitalize() for part in Detail.Name(record.detail).split("_"))
    return word + _WAYS[record.change] if record.detail in _BOTH_WAYS else word
