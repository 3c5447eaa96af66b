"""A server of HTTP connections without sockets, and its clients, on a virtual loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.server import ServerState

from schedulerd.daemon.admin.http import uvicorn_config
from schedulerd.daemon.admin.http_connections import (
    LONG_LIVED,
    HttpConnection,
    HttpConnections,
)
from schedulerd.http_connections import EXCHANGE_SECONDS_MAX
from tests.unit import virtual_loop

LATE_SECONDS = 30.0


async def small(_request: Request) -> Response:
    return Response(b"ok")


async def late(_request: Request) -> Response:
    await asyncio.sleep(LATE_SECONDS)
    return Response(b"ok")


async def endless(request: Request) -> Response:
    request.scope[LONG_LIVED]()
    await asyncio.sleep(3 * EXCHANGE_SECONDS_MAX)
    return Response(b"ok")


async def body(request: Request) -> Response:
    try:
        return Response(await request.body())
    except ClientDisconnect:
        return Response(status_code=400)


APP = Starlette(
    routes=[
        Route("/small", small),
        Route("/late", late),
        Route("/endless", endless),
        Route("/body", body, methods=["PUT"]),
    ]
)


class Client:
    """The other side of a connection, and the transport between them."""

    def __init__(self, world: World) -> None:
        self.received = b""
        self.reads = True
        """Whether it takes what is written to it; set it before it asks."""
        self.closed_at_s: float | None = None
        self._loop = asyncio.get_running_loop()
        self._unread = b""
        self._closing = False
        self._protocol = HttpConnection(
            world.connections, config=world.config, server_state=world.state, app_state={}, _loop=self._loop
        )
        self._protocol.connection_made(cast(asyncio.Transport, self))

    def say(self, data: bytes) -> None:
        if self.closed_at_s is None:
            self._protocol.data_received(data)

    def read(self) -> None:
        """Takes what waits for it, and everything from here on."""
        self.reads = True
        self.received += self._unread
        self._unread = b""
        self._protocol.resume_writing()
        if self._closing:
            self._lost()

    @property
    def is_open(self) -> bool:
        return self.closed_at_s is None

    @property
    def answers(self) -> int:
        return self.received.count(b"200 OK")

    # The transport, as far as uvicorn uses it.

    def write(self, data: bytes) -> None:
        if self.reads:
            self.received += data
        elif data:
            self._unread += data
            self._protocol.pause_writing()

    def close(self) -> None:
        self._closing = True
        if not self._unread:
            self._lost()

    def abort(self) -> None:
        self._lost()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.1", 4711) if name == "peername" else None

    def _lost(self) -> None:
        self._closing = True
        if self.closed_at_s is None:
            self.closed_at_s = self._loop.time()
            self._loop.call_soon(self._protocol.connection_lost, None)


class World:
    """A server without sockets: time passes only when everybody waits."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        """Of connections that were closed before their clients were done: whose, and why."""
        self.connections = HttpConnections(lambda peer, reason: self.told.append((peer, reason)))
        self.config = uvicorn_config(APP, self.connections)
        self.config.load()
        self.state = ServerState()

    def connect(self) -> Client:
        return Client(self)


def run(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        world = World()
        await story(world)
        await asyncio.sleep(2 * EXCHANGE_SECONDS_MAX)
        assert world.state.tasks == set()
        assert world.state.connections == set()

    virtual_loop.run(told())
