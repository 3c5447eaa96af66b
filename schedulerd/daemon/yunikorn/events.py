"""Events in the peer's shape, as a batch and as an endless stream of lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from starlette.responses import Response

from schedulerd.daemon.admin.endless import EndlessResponse, Write
from schedulerd.daemon.runtime.event_feed import EventFeed, Follower
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.runtime.shares import NoneLeft
from schedulerd.daemon.yunikorn.answers import JSON_TYPE
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.errors import EVENTS_DISABLED, TOO_MANY_STREAMS, PeerError
from schedulerd.daemon.yunikorn.go_json import Fields, amounts, encode, go_object
from schedulerd.daemon.yunikorn.lookup import whole_number
from schedulerd.observe.event_record import Event
from schedulerd.observe.event_ring import EventCursor

BATCH_MAX = 10_000
"""Maximum number of events in a batch."""

READ_MAX = 50
"""Events that are read from the ring at a time."""

STREAMS_MAX = 100
"""Maximum number of event streams at a time; a client may have a quarter of them."""


def check_tracking(feed: EventFeed) -> None:
    """Raises `PeerError` if no events are recorded."""
    if not feed.tracked:
        raise PeerError(500, EVENTS_DISABLED)


def batch(call: Call) -> Fields:
    """The events from an id on. Raises `PeerError`."""
    feed = call.rest.events
    check_tracking(feed)
    count = whole_number(call, "count")
    start = whole_number(call, "start") or 0
    if count == 0:
        raise PeerError(400, '0 is not a valid value for "count"')
    ring = feed.ring
    wanted = min(BATCH_MAX if count is None else count, BATCH_MAX)
    is_there = ring.lowest_id <= start < ring.next_id
    return {
        "InstanceUUID": ring.instance_id,
        "LowestID": ring.lowest_id if ring.next_id else 0,
        "HighestID": max(0, ring.next_id - 1),
        "EventRecords": Listed(_events(feed, start, wanted, call.query("rm"))) if is_there else None,
    }


def _events(feed: EventFeed, start: int, wanted: int, rm_id: str) -> Iterator[Any]:
    end = feed.ring.next_id
    cursor = EventCursor(feed.ring, start, rm_id)
    while wanted > 0 and cursor.at < end:
        found = cursor.take(min(READ_MAX, wanted))
        if cursor.lost:
            return
        yield from map(event_object, found)
        wanted -= len(found)


def event_object(event: Event) -> Fields:
    """One event. Enums are numbers, and the kind says nothing of the resource manager."""
    record = event.record
    resources = amounts(record.resources)
    return go_object(
        {
            "type": int(record.kind),
            "objectID": record.object_id,
            "message": record.message,
            "timestampNano": event.at_ns,
            "eventChangeType": int(record.change),
            "eventChangeDetail": int(record.detail),
            "referenceID": record.reference_id,
            "resource": {"resources": {name: {"value": amount} for name, amount in resources.items()}}
            if resources
            else {},
        },
        frozenset({"resource"}),
    )


def stream(call: Call) -> Response:
    """The endless answer. Raises `PeerError`."""
    feed = call.rest.events
    check_tracking(feed)
    count = min(whole_number(call, "count") or 0, BATCH_MAX)
    holds = ExitStack()
    client = call.request.client
    try:
        holds.enter_context(call.streams.held(client.host if client is not None else None))
    except NoneLeft as error:
        raise PeerError(503, TOO_MANY_STREAMS) from error
    rm_id = call.query("rm")
    return EventStream(feed, feed.ring.back(feed.ring.next_id, count, rm_id)[0], rm_id, holds)


class EventStream(EndlessResponse):
    """Sends events until the client goes, reads too slowly, or the daemon ends."""

    def __init__(self, feed: EventFeed, start: int, rm_id: str, holds: ExitStack) -> None:
        super().__init__({"content-type": JSON_TYPE})
        self._feed, self._start, self._rm_id, self._holds = feed, start, rm_id, holds

    def held(self) -> ExitStack:
        return self._holds

    async def send_all(self, write: Write) -> None:
        await write(_line({"InstanceUUID": self._feed.ring.instance_id}))
        with self._feed.follow(self._rm_id, self._start) as follower:
            while not self._feed.closed:
                text = self._next(follower)
                if text:
                    await write(text)
                else:
                    await follower.wait()

    def _next(self, follower: Follower) -> bytes:
        """The next lines; empty if there is nothing now. Raises `TimeoutError` if some are lost."""
        while True:
            found = follower.take(READ_MAX)
            if follower.lost:
                raise TimeoutError
            if found or follower.is_at_end:
                return b"".join(_line(event_object(one)) for one in found)


def _line(value: Fields) -> bytes:
    return f"{encode(value)}\n".encode("utf-8", "replace")
