"""The stream of a page: server-sent events with what has changed, which a browser resumes by the last id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

from schedulerd.daemon.admin.endless import EndlessResponse, Write
from schedulerd.daemon.admin.ui.live import Live, Message, Topic
from schedulerd.daemon.runtime.shares import NoneLeft, Shared

STREAMS_MAX = 100
"""Open streams of pages, of all browsers."""
HEARTBEAT_SECONDS = 10.0
"""Without changes, a sign of life is sent this often; access is checked again then."""


class PageStream(EndlessResponse):
    """Sends events until the browser goes, may not read any more, or reads too slowly; it resumes by the last id."""

    media_type = "text/event-stream"

    def __init__(
        self, live: Live, streams: Shared, topic: Topic, known: str, form: str, check: Callable[[], object]
    ) -> None:
        """`known`: the version that the page has; `check` raises `HTTPException` if the browser may read no longer."""
        super().__init__({"x-accel-buffering": "no"})
        self._live, self._streams, self._topic = live, streams, topic
        self._known, self._form, self._check = known, form, check

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises `HTTPException` with 503."""
        try:
            with self._streams.held(None):
                yield
        except NoneLeft as error:
            raise HTTPException(503, f"{error}; close one first", {"Retry-After": "5"}) from error

    async def send_all(self, write: Write) -> None:
        with self._live.watching(self._topic) as woken:
            await write(b"retry: 2000\n\n")
            while not self._live.closed:
                woken.clear()
                for message in await self._live.since(self._topic, self._known, self._form):
                    self._known = message.id
                    await write(_text(message))
                    if message.event in ("form", "gone"):
                        return
                if woken.is_set():
                    continue
                try:
                    await asyncio.wait_for(woken.wait(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    await write(b"event: same\ndata: {}\n\n")
                try:
                    self._check()
                except HTTPException:
                    return


def _text(message: Message) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (message.event.encode(), message.id.encode(), message.data)
