"""An answer that goes on for as long as its client reads it: what every stream of events over HTTP has in common.

A stream that is cut has no end of its body, so that the client sees that something is missing, and resumes.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import ClassVar, TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from schedulerd.daemon.admin.http_connections import LONG_LIVED

UNREAD_SECONDS_MAX = 5.0
"""A client that does not read for this long, with 64 KiB written, is cut."""

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends a part of the body. Raises `TimeoutError` if the client does not read."""


class EndlessResponse(Response, ABC):
    """Sends what `send_all` writes until it returns, the client goes, or it reads too slowly."""

    seconds_max: ClassVar[float | None] = None
    """After this time the stream ends in order; None: it is without end, and no exchange of its connection is."""

    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__(headers={"cache-control": "no-store", **headers})
        del self.headers["content-length"]

    @abstractmethod
    def held(self) -> AbstractContextManager[object]:
        """What the stream takes from others while it is open. May refuse the request with an exception."""

    @abstractmethod
    async def send_all(self, write: Write) -> None:
        """Writes the body. Raises `TimeoutError` to cut the stream. Cancelled when the client goes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.held():
            if self.seconds_max is None:
                scope.get(LONG_LIVED, lambda: None)()
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            with suppress(TimeoutError):
                if await self._send_all_or_gone(receive, send):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all_or_gone(self, receive: Receive, send: Send) -> bool:
        """Whether the client is still there."""

        async def write(text: bytes) -> None:
            async with asyncio.timeout(UNREAD_SECONDS_MAX):
                await send({"type": "http.response.body", "body": text, "more_body": True})

        sending = asyncio.ensure_future(self.send_all(write))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait([sending, leaving], timeout=self.seconds_max, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            return not leaving.done()
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.wait([sending, leaving])


async def _gone(receive: Receive) -> None:
    """Returns when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
