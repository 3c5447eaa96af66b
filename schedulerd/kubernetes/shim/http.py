"""The HTTP server of the process: metrics and probes.

It answers on the loop that does all the work, so a loop that is stuck answers nothing, and the probe fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from schedulerd.address import split_address
from schedulerd.kubernetes.shim.http_connections import HttpConnection, begins_exchange, open_connections
from schedulerd.kubernetes.shim.plain_bodies import CONNECTION_OPTIONS, plain_bodies
from schedulerd.open_files import share

OPENMETRICS = "application/openmetrics-text"
REQUEST_BYTES_MAX = 1024
IDLE_SECONDS = 75.0
ACCEPTED_MAX = 100
"""Connections that the system may accept at a time; at most a tenth of the limit of open files."""
STOP_SECONDS = 0.5


class HttpServer:
    """Of `address`, HOST:PORT. `waits_for` says why the process is not ready; empty if it is. `leader` says whether
    this process leads, and who does; None where all replicas work. `notes` is what else is to be known of a process
    that is ready: what is wrong with it all the same, and its journal; empty if nothing is."""

    def __init__(
        self,
        address: str,
        registry: CollectorRegistry,
        waits_for: Callable[[], str],
        leader: Callable[[], tuple[bool, str]] | None = None,
        notes: Callable[[], str] = lambda: "",
    ) -> None:
        self._host, self._port = split_address(address)
        self._registry = registry
        self._waits_for = waits_for
        self._leader = leader
        self._notes = notes
        self.connections = open_connections()
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self) -> int:
        """The port that it listens on. Raises OSError."""
        app = web.Application(client_max_size=REQUEST_BYTES_MAX, middlewares=[begins_exchange, plain_bodies])
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        if self._leader is not None:
            app.router.add_get("/leader", self._leads)
        self._runner = web.AppRunner(app, shutdown_timeout=STOP_SECONDS)
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._connection, self._host, self._port, backlog=share(10, ACCEPTED_MAX)
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _connection(self) -> HttpConnection:
        assert self._runner is not None
        assert self._runner.server is not None
        return HttpConnection(
            *(self.connections, self._runner.server),
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            lingering_time=0.0,
            **CONNECTION_OPTIONS,
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        wants_openmetrics = OPENMETRICS in request.headers.get("Accept", "")
        encode, content_type = choose_encoder(f"{OPENMETRICS}; version=1.0.0" if wants_openmetrics else "")
        return web.Response(body=encode(self._registry), headers={"Content-Type": content_type})

    async def _livez(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        missing = self._waits_for()
        if missing:
            return web.Response(text=f"{missing}\n", status=503)
        leads, leader = self._leader() if self._leader is not None else (True, "")
        said = "ok" if leads else f"ok: standing by, the leader is {leader or 'nobody'}"
        notes = self._notes()
        return web.Response(text=f"{said}\n{notes}\n" if notes else f"{said}\n")

    async def _leads(self, request: web.Request) -> web.Response:
        assert self._leader is not None
        leads, leader = self._leader()
        return web.Response(text=f"{leader or 'nobody'}\n", status=200 if leads else 503)
