"""The stream of a page: server-sent events with what has changed, which a browser resumes by the last id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from schedulerd.daemon.admin.http_connections import LONG_LIVED
from schedulerd.daemon.admin.ui.live import Live, Message, Topic
from schedulerd.daemon.runtime.shares import NoneLeft, Shared

STREAMS_MAX = 100
"""Open streams of pages, of all browsers."""
HEARTBEAT_SECONDS = 10.0
"""Without changes, a sign of life is sent this often; access is checked again then."""
UNREAD_SECONDS_MAX = 5.0
"""A browser that does not read for this long, with 64 KiB written, is cut; it resumes by the last id."""


class PageStream(Response):
    """Sends events until the browser goes, may not read any more, or reads too slowly."""

    media_type = "text/event-stream"

    def __init__(
        self, live: Live, streams: Shared, topic: Topic, known: str, form: str, check: Callable[[], object]
    ) -> None:
        """`known`: the version that the page has; `check` raises `HTTPException` if the browser may read no longer."""
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._live, self._streams, self._topic = live, streams, topic
        self._known, self._form, self._check = known, form, check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `HTTPException` with 503 as long as nothing is sent."""
        try:
            with self._streams.held(None), self._live.watching(self._topic) as woken:
                scope.get(LONG_LIVED, lambda: None)()
                await self._serve(receive, send, woken)
        except NoneLeft as error:
            raise HTTPException(503, f"{error}; close one first", {"Retry-After": "5"}) from error

    async def _serve(self, receive: Receive, send: Send, woken: asyncio.Event) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        leaving = asyncio.ensure_future(_gone(receive, woken))
        try:
            await self._send_all(send, woken, leaving)
        except TimeoutError:
            return  # the answer stays incomplete: the browser sees that it was cut, and resumes
        finally:
            leaving.cancel()
            await asyncio.wait([leaving])
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send, woken: asyncio.Event, leaving: asyncio.Future[None]) -> None:
        await _write(send, b"retry: 2000\n\n")
        while not leaving.done() and not self._live.closed:
            woken.clear()
            for message in await self._live.since(self._topic, self._known, self._form):
                self._known = message.id
                await _write(send, _text(message))
                if message.event in ("form", "gone"):
                    return
            if woken.is_set():
                continue
            try:
                await asyncio.wait_for(woken.wait(), HEARTBEAT_SECONDS)
            except TimeoutError:
                await _write(send, b"event: same\ndata: {}\n\n")
            try:
                self._check()
            except HTTPException:
                return


def _text(message: Message) -> bytes:
    return b"event: %s\nid: %s\ndata: %s\n\n" % (message.event.encode(), message.id.encode(), message.data)


async def _write(send: Send, text: bytes) -> None:
    """Raises `TimeoutError` if the browser does not read."""
    await asyncio.wait_for(send({"type": "http.response.body", "body": text, "more_body": True}), UNREAD_SECONDS_MAX)


async def _gone(receive: Receive, woken: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    woken.set()
