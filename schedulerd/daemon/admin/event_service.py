"""The gRPC methods of `schedulerd.v1.Admin` that list past events and stream new ones.

`protos/schedulerd/v1/admin.proto` describes the methods for clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import NoReturn, TypeAlias

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.daemon.access.identity import EVERYBODY, Identities
from schedulerd.daemon.access.methods import UnaryContext, unary
from schedulerd.daemon.access.rm_ids import rm_id_problem
from schedulerd.daemon.admin.admin_service import ADMIN_SERVICE
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.runtime.shares import NoneLeft, Shared
from schedulerd.observe.event_messages import admin_event, encoded
from schedulerd.observe.event_ring import EventCursor

LISTED_MAX = 1_000
"""Maximum number of events in a response of ListEvents, which then has some hundred kilobytes."""

MESSAGE_BYTES_MAX = 1 << 20
"""A message that has reached this size takes no more events. A gRPC client accepts 4 MiB by default, and a client that
follows all resource managers must not be cut off by one whose nodes have long resource names."""

BATCH_MAX = 200
"""Number of events that are read and made into messages in one go: about a millisecond."""

STREAMS_MAX = 100
"""Maximum number of event streams of all clients; one client may have a quarter of it."""

StreamContext: TypeAlias = grpc.aio.ServicerContext[admin_pb2.StreamEventsRequest, admin_pb2.StreamEventsResponse]
AnyContext: TypeAlias = UnaryContext | StreamContext


class EventService:
    """Implements the methods."""

    def __init__(self, feed: EventFeed, identities: Identities = EVERYBODY) -> None:
        self._feed = feed
        self._identities = identities
        self._streams = Shared(STREAMS_MAX, "streams of events are open")

    async def list_events(
        self, request: admin_pb2.ListEventsRequest, context: UnaryContext
    ) -> admin_pb2.ListEventsResponse:
        """Reads the ring in batches, with turns of the loop in between; events that happen meanwhile may be in it."""
        await self._check_rm_id(request.rmID, context)
        if not self._feed.tracked:
            await _abort_untracked(context)
        if not 0 <= request.count <= LISTED_MAX:
            await _abort(context, f"count: is {request.count}; it must be 1 to {LISTED_MAX}, or 0 for {LISTED_MAX}")
        if request.start < 0:
            await _abort(context, f"start: is {request.start}; it must be the id of an event, 0 or more")
        ring = self._feed.ring
        wanted, room_bytes = request.count or LISTED_MAX, MESSAGE_BYTES_MAX
        answer = admin_pb2.ListEventsResponse(instanceID=ring.instance_id)
        cursor = EventCursor(ring, request.start, request.rmID)
        while room_bytes > 0 and (missing := wanted - len(answer.events)):
            found = cursor.take(min(missing, BATCH_MAX))
            pieces = _pieces(encoded(found, admin_event, ring), room_bytes)
            events = next(pieces)
            answer.events.extend(events)
            if next(pieces, None) is not None:
                cursor.at = events[-1].id + 1
            room_bytes -= sum(event.ByteSize() for event in events)
            if cursor.is_at_end:
                break
            await asyncio.sleep(0)
        answer.nextID = cursor.at
        answer.lowestID = ring.lowest_id
        answer.highestID = ring.next_id - 1
        return answer

    async def stream_events(self, request: admin_pb2.StreamEventsRequest, context: StreamContext) -> None:
        """Never returns: the client cancels the call, or the daemon aborts it."""
        await self._check_rm_id(request.rmID, context)
        start = await self._start(request, context)
        try:
            with self._streams.held(self._identities.client(context, request.rmID)):
                await self._send_all(context, request.rmID, start)
        except NoneLeft as problem:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{problem}; close one first")

    async def _send_all(self, context: StreamContext, rm_id: str, start: int | None) -> None:
        with self._feed.follow(rm_id, start) as follower:
            await context.write(admin_pb2.StreamEventsResponse(instanceID=self._feed.ring.instance_id))
            while True:
                found = follower.take(BATCH_MAX)
                if found or follower.lost:
                    for events in _pieces(encoded(found, admin_event, self._feed.ring), MESSAGE_BYTES_MAX):
                        lost, follower.lost = follower.lost, 0
                        await context.write(admin_pb2.StreamEventsResponse(events=events, lost=lost))
                if not follower.is_at_end:
                    await asyncio.sleep(0)
                    continue
                if self._feed.closed:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "draining: schedulerd shuts down")
                await follower.wait()

    async def _start(self, request: admin_pb2.StreamEventsRequest, context: StreamContext) -> int | None:
        """The id of the first event to send; None for new events only."""
        is_after = request.HasField("after")
        if request.count < 0:
            await _abort(context, f"count: is {request.count}; it must be 0 or more")
        if is_after and request.count:
            await _abort(context, f"count: is {request.count} with `after` set; set one of them, or none")
        if (is_after or request.count) and not self._feed.tracked:
            await _abort_untracked(context)
        if is_after:
            return await self._after(request.after, context)
        return await self._before(request.count, request.rmID) if request.count else None

    async def _after(self, seen: admin_pb2.StreamPosition, context: StreamContext) -> int:
        """The id of the first event that the client has not seen; 0 if it saw those of another run of the daemon."""
        ring = self._feed.ring
        if seen.id < -1:
            await _abort(context, f"after.id: is {seen.id}; it must be the id of an event, or -1 before the first")
        if seen.instanceID != ring.instance_id:
            return 0
        if seen.id >= ring.next_id:
            details = f"after.id: is {seen.id}, and the newest event of this instance is {ring.next_id - 1}"
            await _abort(context, details)
        return seen.id + 1

    async def _before(self, count: int, rm_id: str) -> int:
        """The id from which on there are `count` events now; the oldest kept id if there are fewer."""
        ring = self._feed.ring
        at = ring.next_id
        while count and at > ring.lowest_id:
            at, passed = ring.back(at, count, rm_id)
            count -= passed
            await asyncio.sleep(0)
        return at

    async def _check_rm_id(self, rm_id: str, context: AnyContext) -> None:
        problem = rm_id_problem(rm_id) if rm_id else None
        if problem is not None:
            await _abort(context, problem)

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """The handlers of all methods, to be added to a `grpc.aio` server."""
        return [
            grpc.method_handlers_generic_handler(
                ADMIN_SERVICE,
                {
                    "ListEvents": unary(admin_pb2.ListEventsRequest, self.list_events),
                    "StreamEvents": grpc.unary_stream_rpc_method_handler(
                        self.stream_events,
                        request_deserializer=admin_pb2.StreamEventsRequest.FromString,
                        response_serializer=lambda message: message.SerializeToString(),
                    ),
                },
            )
        ]


def _pieces(messages: Iterable[admin_pb2.Event], size_bytes: int) -> Iterator[list[admin_pb2.Event]]:
    """Splits the messages into lists; a list of `size_bytes` takes no more. One empty list if there are none."""
    piece: list[admin_pb2.Event] = []
    piece_bytes = 0
    for message in messages:
        if piece and piece_bytes >= size_bytes:
            yield piece
            piece, piece_bytes = [], 0
        piece.append(message)
        piece_bytes += message.ByteSize()
    yield piece


async def _abort(context: AnyContext, details: str) -> NoReturn:
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, details)


async def _abort_untracked(context: AnyContext) -> NoReturn:
    details = "no events are kept: the setting event_tracking is off; StreamEvents sends new events"
    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, details)
