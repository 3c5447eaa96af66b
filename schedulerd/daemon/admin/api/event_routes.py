"""Routes of events: the last ones as a list, and new ones as server-sent events that a client can resume."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.responses import Response

from schedulerd.daemon.admin.api.answers import Answers
from schedulerd.daemon.admin.api.event_stream import EventStream, EventStreams
from schedulerd.daemon.admin.api.finding import NAME_LENGTH_MAX
from schedulerd.daemon.admin.api.listings import Name
from schedulerd.daemon.admin.api.models import EventItem, documented
from schedulerd.daemon.admin.api.projections import event
from schedulerd.daemon.admin.api.routers import Router
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.observe.event_ring import EventRing

EVENTS_LISTED_MAX = 1_000
"""Events of one list."""
_BATCH = 100

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

    @property
    def key(self) -> tuple[str, ...]:
        """Equal filters have equal keys."""
        return self.rm, self.type, self.object

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
    feed, streams = sources.feed, EventStreams(sources.feed)

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
        return EventStream(streams, query, start)

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
