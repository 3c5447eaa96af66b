"""Connections of aiohttp with bounds. A handler answers at once, so an exchange that lasts waits for its client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from schedulerd.http_connections import BoundedConnection, OpenConnections, Phase

CONNECTIONS_MAX = 100
"""Maximum number of open connections; at most a quarter of the limit of open files."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpConnection(BoundedConnection, web.RequestHandler):
    """A connection of aiohttp, with bounds."""

    def __init__(self, connections: OpenConnections, server: web.Server, **options: Any) -> None:
        web.RequestHandler.__init__(self, server, loop=asyncio.get_running_loop(), **options)
        BoundedConnection.__init__(self, connections)

    # A transport of uvloop is no instance of asyncio's classes.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.opened(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.closed()
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        finished = await super().finish_response(request, resp, start_time)
        self.enter(Phase.HEAD)
        return finished


def open_connections() -> OpenConnections:
    """Of one port."""
    return OpenConnections(CONNECTIONS_MAX, of=4)


@web.middleware
async def begins_exchange(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Of the application: notes that a request has arrived."""
    if isinstance(request.protocol, HttpConnection):
        request.protocol.enter(Phase.EXCHANGE)
    return await handler(request)
