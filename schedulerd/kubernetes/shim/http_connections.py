"""Bounds the connections of the shim's HTTP port: their number, and how long each may keep the process waiting.

When there are too many, a new connection replaces the one that has kept the process waiting longest, so a probe gets
through however many clients are silent. A handler answers at once, so an exchange that lasts waits for its client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

from aiohttp import web

from schedulerd.open_files import share

CONNECTIONS_MAX = 100
"""Maximum number of open connections; at most a quarter of the limit of open files."""

HEAD_SECONDS_MAX = 10.0
"""How long a connection may take to send a request, from its start or the last response on."""

EXCHANGE_SECONDS_MAX = 60.0
"""How long it may take from a request until the client has read the response."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Phase(Enum):
    HEAD = auto()
    """The next request has not arrived."""
    EXCHANGE = auto()
    """A request has arrived, and its response has not been read."""


class HttpConnections:
    """The open connections; the one that has been in its phase longest is first."""

    def __init__(self) -> None:
        self._files_max = share(4, CONNECTIONS_MAX)
        self._open: dict[HttpConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, new: HttpConnection) -> None:
        """Adds a connection. Beyond the bound another one is closed: one without a request if there is any."""
        if len(self._open) >= min(self._files_max, CONNECTIONS_MAX):
            without_request = (one for one in self._open if one.phase is _Phase.HEAD)
            next(without_request, next(iter(self._open))).abort()
        self._open[new] = None

    def moved(self, connection: HttpConnection) -> None:
        """The connection has entered its next phase."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def remove(self, connection: HttpConnection) -> None:
        self._open.pop(connection, None)


class HttpConnection(web.RequestHandler):
    """A connection of aiohttp, with bounds."""

    __slots__ = ("_all", "_timer", "phase")

    def __init__(self, connections: HttpConnections, server: web.Server, **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._all = connections
        self._timer: asyncio.TimerHandle | None = None
        self.phase = _Phase.HEAD

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._all.add(self)
        self._enter(_Phase.HEAD)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._all.remove(self)
        super().connection_lost(exc)

    def begin_exchange(self) -> None:
        """A request has arrived."""
        self._enter(_Phase.EXCHANGE)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        finished = await super().finish_response(request, resp, start_time)
        self._enter(_Phase.HEAD)
        return finished

    def abort(self) -> None:
        """Closes the connection at once; what was not read is lost."""
        self._all.remove(self)
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()

    def _enter(self, phase: _Phase) -> None:
        if self.transport is None:
            return
        self.phase = phase
        self._all.moved(self)
        if self._timer is not None:
            self._timer.cancel()
        seconds = HEAD_SECONDS_MAX if phase is _Phase.HEAD else EXCHANGE_SECONDS_MAX
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)


@web.middleware
async def begins_exchange(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Of the application: notes that a request has arrived."""
    if isinstance(request.protocol, HttpConnection):
        request.protocol.begin_exchange()
    return await handler(request)
