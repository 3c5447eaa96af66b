"""Routes of events: the last ones as a list, and new ones as server-sent events that a client can resume."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.api import event_scan, finding
from schedulerd.daemon.admin.api.answers import Answers
from schedulerd.daemon.admin.api.event_stream import EVENT_ITEM, EventStream, EventStreams
from schedulerd.daemon.admin.api.finding import NAME_LENGTH_MAX
from schedulerd.daemon.admin.api.listings import Name
from schedulerd.daemon.admin.api.models import EventItem, EventType, documented
from schedulerd.daemon.admin.api.projections import EVENT_TYPES, event
from schedulerd.daemon.admin.api.routers import Router
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.observe.event_record import Event
from schedulerd.observe.event_ring import EventRing

FilterT = TypeVar("FilterT", bound="EventFilter")

EVENTS_LISTED_MAX = 1_000
"""Events of one list."""


@documented
@dataclass(frozen=True, slots=True)
class Events:
    """Events in the order in which they happened. A page can be short, even empty, and there can still be more of the
    filter: the daemon looks at a bounded number of events for one page."""

    items: list[EventItem]
    next: str
    """For `after`: the page of later events. It is equal to the `after` of the request if there are none yet."""
    previous: str
    """For `before`: the page of earlier events; '' if there are none, and on a page that `after` asked for."""
    lost: int
    """Events after `after` that are no longer there."""


class EventFilter(BaseModel):
    """Which events."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    rm: str = Field(default="", max_length=NAME_LENGTH_MAX)
    """Only of this resource manager."""
    type: Literal[EventType, ""] = ""
    object: Name = ""
    """Only of the object with this id, such as an application, a node, a queue or an ask, or that refer to it.
    Of an application also the id that pods of one namespace give it."""
    after: str = Field(default="", max_length=NAME_LENGTH_MAX)
    """Id of an event: only later ones."""

    @property
    def key(self) -> tuple[str, ...]:
        """Equal filters have equal keys."""
        return self.rm, self.type, self.object

    def wants(self, one: Event) -> bool:
        record = one.record
        is_of_it = self.object in ("", record.object_id, record.reference_id)
        return is_of_it and self.type in ("", EVENT_TYPES[record.kind])


class EventQuery(EventFilter):
    """A list of events."""

    before: str = Field(default="", max_length=NAME_LENGTH_MAX)
    """Id of an event: only earlier ones. Not together with `after`."""
    limit: int = Field(default=100, ge=1, le=EVENTS_LISTED_MAX)
    """With `after`, the first ones after it; otherwise the last ones."""


def routes(sources: ApiSources, answers: Answers) -> Router:
    """The router of these routes."""
    router = Router(tags=["events"])
    feed, streams = sources.feed, EventStreams(sources.feed, sources.queries, sources.scheduler)

    async def with_whole_id(query: FilterT) -> FilterT:
        """The object may be an application by the id that its pods give it. Raises `HTTPException` with 404."""
        if not query.object or query.type not in ("", "app"):
            return query
        ids = await answers.finish(_ids_of_namespaces(sources, query))
        return query.model_copy(update={"object": finding.only(ids, query.object)}) if ids else query

    @router.get("/events", response_model=Events)
    async def list_events(query: Annotated[EventQuery, Query()]) -> Response:
        """The last events, or those after or before an id."""
        if not feed.tracked:
            raise HTTPException(422, "no events are kept: the setting event_tracking is off")
        if query.after and query.before:
            raise HTTPException(422, "before: is set, and after is too; set one of them")
        query = await with_whole_id(query)
        body = await answers.finish(_list(feed.ring, query, sources.scheduler))
        return Response(body, headers={"cache-control": "no-store"}, media_type="application/json")

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
        return EventStream(streams, await with_whole_id(query), start)

    return router


def _ids_of_namespaces(sources: ApiSources, query: EventFilter) -> Generator[None, None, dict[str, None]]:
    """Of the applications of all partitions that the filter leaves; none if one has exactly this id."""
    found: dict[str, None] = {}
    for rm in list(sources.scheduler.cluster.resource_managers.values()):
        for partition in list(rm.partitions.values()) if query.rm in ("", rm.rm_id) else ():
            for known in (partition.applications, partition.terminated_by_id):
                if query.object in known:
                    return {}
                if not found:
                    found |= yield from finding.ids_of_namespaces(known, query.object)
    return found


def _start(ring: EventRing, after: str) -> int:
    """The number of the first event that the client has not seen; 0 if it saw those of another run of the daemon.
    Raises `HTTPException` with 422."""
    instance_id, number = _parts(ring, "after", after)
    return number + 1 if instance_id == ring.instance_id else 0


def _end(ring: EventRing, before: str) -> int:
    """The number of the event that the client names. Raises `HTTPException` with 422."""
    instance_id, number = _parts(ring, "before", before)
    if instance_id != ring.instance_id:
        raise HTTPException(422, f"before: is {before[:100]!r}, of another run of the daemon; begin without it")
    return min(number, ring.next_id)


def _parts(ring: EventRing, name: str, event_id: str) -> tuple[str, int]:
    """The run of the daemon in the id of an event, and its number. Raises `HTTPException` with 422."""
    instance_id, colon, number = event_id.rpartition(":")
    if not colon or not number.isascii() or not number.isdigit() or len(number) > 18:
        example = f"{ring.instance_id}:7"
        raise HTTPException(422, f"{name}: is {event_id[:100]!r}; it must be the id of an event, like {example}")
    return instance_id, int(number)


def _list(ring: EventRing, query: EventQuery, scheduler: Scheduler) -> Generator[None, None, bytes]:
    """The answer as JSON."""
    previous = ""
    if query.after:
        start = _start(ring, query.after)
        found = yield from event_scan.forwards(ring, query, start, ring.next_id, query.limit)
        following = found.edge
    else:
        following = _end(ring, query.before) if query.before else ring.next_id
        found = yield from event_scan.backwards(ring, query, following, query.limit)
        if found.edge > ring.lowest_id:
            previous = f"{ring.instance_id}:{found.edge}"
    texts = []
    for one in found.events:
        texts.append(EVENT_ITEM.dump_json(event(one, ring.instance_id, scheduler)))
        yield
    rest = {
        "next": f"{ring.instance_id}:{following - 1}" if following else "",
        "previous": previous,
        "lost": found.lost,
    }
    return b'{"items":[' + b",".join(texts) + b"]," + json.dumps(rest).encode()[1:]
