"""Server-sent events: what happens, for any number of clients with one filter at the price of one.

Streams send at the same moments, every `TICK_SECONDS`, and what they send between two moments is made once for all
streams with the same filter. It is made within the share of the loop that state queries have, however many filters
there are: streams of many filters fall behind, and tell their clients what they lost.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pydantic import TypeAdapter

from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.api import event_scan
from schedulerd.daemon.admin.api.event_scan import Filter
from schedulerd.daemon.admin.api.models import EventItem
from schedulerd.daemon.admin.api.problems import too_busy
from schedulerd.daemon.admin.api.projections import event
from schedulerd.daemon.admin.endless import EndlessResponse, Write
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.runtime.shares import NoneLeft, Shared
from schedulerd.observe.event_ring import EventRing

STREAMS_MAX = 100
"""Open streams of events, of all clients."""
STREAM_SECONDS_MAX = 50.0
"""After this time a stream ends, before the connection would be closed; the client resumes by the last id."""
HEARTBEAT_SECONDS = 15.0
"""Without events, a comment is sent this often, so that the client knows that the daemon is there."""
TICK_SECONDS = 0.5
"""Events are sent at multiples of this time of the loop."""
CHUNKS_KEPT_MAX = 32
"""Texts that are kept for other streams."""
_CHUNK_EVENTS = 100

EVENT_ITEM = TypeAdapter(EventItem)


class Chunk(NamedTuple):
    """What comes next on a stream."""

    text: bytes
    next_id: int
    """Where the chunk after it begins."""
    lost: int


class EventStreams:
    """What all streams share."""

    def __init__(self, feed: EventFeed, queries: StateQueries, scheduler: Scheduler) -> None:
        self.feed = feed
        self.open = Shared(STREAMS_MAX, "streams of events are open")
        self._queries, self._scheduler = queries, scheduler
        self._turn = asyncio.Lock()
        """Held for one chunk, so that the loop goes round between two streams, and no chunk is made twice."""
        self._kept: OrderedDict[tuple[object, ...], Chunk] = OrderedDict()

    @property
    def ring(self) -> EventRing:
        return self.feed.ring

    async def chunk(self, wanted: Filter, start: int, end: int) -> Chunk:
        """The events from `start` on, before `end`, or the first of them."""
        key = (*wanted.key, start, end)
        async with self._turn:
            await asyncio.sleep(0)
            found = self._kept.get(key)
            if found is None:
                found = self._kept[key] = await self._queries.finish(self._make(wanted, start, end))
                while len(self._kept) > CHUNKS_KEPT_MAX:
                    self._kept.popitem(last=False)
        return found

    def _make(self, wanted: Filter, start: int, end: int) -> Generator[None, None, Chunk]:
        ring = self.ring
        found = yield from event_scan.forwards(ring, wanted, start, end, _CHUNK_EVENTS)
        texts = []
        if found.lost:
            texts.append(b"event: lost\ndata: " + json.dumps({"lost": found.lost}).encode() + b"\n\n")
        for one in found.events:
            item = event(one, ring.instance_id, self._scheduler)
            texts.append(b"id: " + item.id.encode() + b"\ndata: " + EVENT_ITEM.dump_json(item) + b"\n\n")
            yield
        return Chunk(b"".join(texts), found.edge, found.lost)


class EventStream(EndlessResponse):
    """Sends events until the client goes, or `STREAM_SECONDS_MAX` are over."""

    media_type = "text/event-stream"
    seconds_max = STREAM_SECONDS_MAX

    def __init__(self, streams: EventStreams, wanted: Filter, start: int | None) -> None:
        """From the id `start` on; None: from now on."""
        super().__init__({"x-accel-buffering": "no"})
        self._streams, self._wanted, self._start = streams, wanted, start

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises `HTTPException` with 503."""
        try:
            with self._streams.open.held(None):
                yield
        except NoneLeft as error:
            raise too_busy(f"{error}; close one first") from error

    async def send_all(self, write: Write) -> None:
        feed, ring = self._streams.feed, self._streams.ring
        with feed.follow(self._wanted.rm, self._start) as follower:
            await write(f": instance {ring.instance_id}\nretry: 1000\n\n".encode())
            while not feed.closed:
                follower.at = await self._send_from(follower.at, ring.next_id, write)
                if await follower.wait(HEARTBEAT_SECONDS):
                    await asyncio.sleep(TICK_SECONDS - asyncio.get_running_loop().time() % TICK_SECONDS)
                else:
                    await write(b": still here\n\n")

    async def _send_from(self, at: int, end: int, write: Write) -> int:
        """Sends all events from `at` on, before `end`. Returns where to go on."""
        while at < end:
            chunk = await self._streams.chunk(self._wanted, at, end)
            self._streams.feed.lost += chunk.lost
            if chunk.text:
                await write(chunk.text)
            at = chunk.next_id
        return at
