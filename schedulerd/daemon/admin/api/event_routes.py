"""Routes of events: the last ones as a list, and new ones as server-sent events that a client can resume."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from schedulerd.daemon.admin.api.answers import Answers
from schedulerd.daemon.admin.api.finding import NAME_LENGTH_MAX
from schedulerd.daemon.admin.api.listings import Name
from schedulerd.daemon.admin.api.models import EventItem, documented
from schedulerd.daemon.admin.api.problems import too_busy
from schedulerd.daemon.admin.api.projections import event
from schedulerd.daemon.admin.api.routers import Router
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.runtime.shares import NoneLeft, Shared
from schedulerd.observe.event_ring import EventRing

EVENTS_LISTED_MAX = 1_000
"""Events of one list."""
STREAMS_MAX = 100
"""Open streams of events, of all clients."""
STREAM_SECONDS_MAX = 50.0
"""After this time a stream ends, before the connection would be closed; the client resumes by the last id."""
UNREAD_SECONDS_MAX = 5.0
"""A client that does not read for this long, with more than 64 KiB written, is cut; it may resume."""
HEARTBEAT_SECONDS = 15.0
"""Without events, a comment is sent this often, so that the client knows that the daemon is there."""
_BATCH = 100
_ADAPTER = TypeAdapter(EventItem)

Kind = Literal["request", "app", "node", "queue", "usergroup", ""]


@documented
@dataclass(frozen=True, slots=True)
class Events:
    """Events in the order in which they happened."""

    items: list[EventItem]
    next: str
    """For `after`: what comes after these."""
    lost: int
    """Events after `after` that are no longer there."""


class EventFilter(BaseModel):
    """Which events."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    rm: str = Field(default="", max_length=NAME_LENGTH_MAX)
    """Only of this resource manager."""
    type: Kind = ""
    object: Name = ""
    """Only of the object with this id, such as an application, a node, a queue or an ask, or that refer to it."""
    after: str = Field(default="", max_length=NAME_LENGTH_MAX)
    """Id of an event: only later ones."""

    def wants(self, item: EventItem) -> bool:
        is_of_it = self.object in ("", item.object, item.reference)
        return is_of_it and self.type in ("", item.type)


class EventQuery(EventFilter):
    """A list of events."""

    limit: int = Field(default=100, ge=1, le=EVENTS_LISTED_MAX)
    """Without `after`, the last ones; with `after`, the first ones after it."""


_LISTED = TypeAdapter(Events)


def routes(sources: ApiSources, answers: Answers) -> Router:
    """The router of these routes."""
    router = Router(tags=["events"])
    feed, streams = sources.feed, Shared(STREAMS_MAX, "streams of events are open")

    @router.get("/events", response_model=Events)
    async def list_events(query: Annotated[EventQuery, Query()]) -> Response:
        """The last events, or those after an id."""
        if not feed.tracked:
            raise HTTPException(422, "no events are kept: the setting event_tracking is off")
        return await answers.fresh(_LISTED, await answers.finish(_list(feed.ring, query)))

    @router.get(
        "/events/stream",
        response_class=Response,
        responses={200: {"content": {"text/event-stream": {}}, "description": "Events as they happen"}},
    )
    async def stream_events(request: Request, query: Annotated[EventFilter, Query()]) -> Response:
        """New events as server-sent events. Resume with the header Last-Event-ID, which browsers send themselves, or
        with `after`. A stream ends after less than a minute, and the client resumes it."""
        after = request.headers.get("last-event-id", "") or query.after
        start = _start(feed.ring, after) if after else None
        return _EventStream(feed, streams, query, start)

    return router


def _start(ring: EventRing, after: str) -> int:
    """The number of the first event that the client has not seen; 0 if it saw those of another run of the daemon.
    Raises `HTTPException` with 422."""
    instance_id, colon, number = after.rpartition(":")
    if not colon or not number.isascii() or not number.isdigit() or len(number) > 18:
        raise HTTPException(422, f"after: is {after[:100]!r}; it must be the id of an event, like {ring.instance_id}:7")
    return int(number) + 1 if instance_id == ring.instance_id else 0


def _list(ring: EventRing, query: EventQuery) -> Generator[None, None, Events]:
    if query.after:
        start, end = _start(ring, query.after), ring.next_id
    else:
        start, end = (yield from _last(ring, query)), ring.next_id
    lost = max(0, min(ring.lowest_id, end) - start) if query.after else 0
    items: list[EventItem] = []
    at = start
    while at < end and len(items) < query.limit:
        found = ring.read(at, 1, query.rm)
        items += [one for one in (event(each, ring.instance_id) for each in found.events) if query.wants(one)]
        at = found.next_id
        yield
    return Events(items, f"{ring.instance_id}:{max(0, at - 1)}" if at else "", lost)


def _last(ring: EventRing, query: EventQuery) -> Generator[None, None, int]:
    """The number from which on there are `limit` events of the filter; the lowest if there are fewer."""
    at, found = ring.next_id, 0
    is_plain = not query.object and not query.type
    while at > ring.lowest_id and found < query.limit:
        if is_plain:
            at, passed = ring.back(at, min(query.limit - found, _BATCH), query.rm)
            found += passed
        else:
            at -= 1
            read = ring.read(at, 1, query.rm)
            seen = [event(one, ring.instance_id) for one in read.events if one.event_id == at]
            found += sum(map(query.wants, seen))
        yield
    return at


class _EventStream(Response):
    """Sends events until the client goes, or `STREAM_SECONDS_MAX` are over."""

    media_type = "text/event-stream"

    def __init__(self, feed: EventFeed, streams: Shared, query: EventFilter, start: int | None) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._feed, self._streams, self._query, self._start = feed, streams, query, start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `HTTPException` with 503 as long as nothing is sent."""
        try:
            with self._streams.held(None):
                await self._serve(receive, send)
        except NoneLeft as error:
            raise too_busy(f"{error}; close one first") from error

    async def _serve(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait([sending, leaving], timeout=STREAM_SECONDS_MAX, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and sending.exception() is not None:
                return  # cut: the connection is closed without the end of the body
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.wait([sending, leaving])
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        woken = asyncio.Event()
        ring = self._feed.ring
        with self._feed.follow(woken.set, self._query.rm, self._start) as follower:
            await _send(send, f": instance {ring.instance_id}\nretry: 1000\n\n".encode())
            while not self._feed.closed:
                batch = follower.take(_BATCH)
                text = b"".join(self._texts(batch.lost, (event(one, ring.instance_id) for one in batch.events)))
                if text:
                    await _send(send, text)
                if batch.more:
                    await asyncio.sleep(0)
                    continue
                try:
                    await asyncio.wait_for(woken.wait(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    await _send(send, b": still here\n\n")
                woken.clear()

    def _texts(self, lost: int, items: Iterator[EventItem]) -> Iterator[bytes]:
        if lost:
            yield b"event: lost\ndata: " + json.dumps({"lost": lost}).encode() + b"\n\n"
        for one in items:
            if self._query.wants(one):
                yield b"id: " + one.id.encode() + b"\ndata: " + _ADAPTER.dump_json(one) + b"\n\n"


async def _send(send: Send, text: bytes) -> None:
    """Raises `TimeoutError` if the client does not read."""
    await asyncio.wait_for(send({"type": "http.response.body", "body": text, "more_body": True}), UNREAD_SECONDS_MAX)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
