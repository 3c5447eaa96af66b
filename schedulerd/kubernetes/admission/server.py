"""The HTTPS server of the webhooks.

Whoever reaches the port may ask. So everything is bounded: connections, the time until one asks for something, reviews
at a time, size and time of a body. A large review is read in a thread, so that it does not hold the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from aiohttp import web

from schedulerd.address import split_address
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.admission.rules.review import (
    BODY_BYTES_MAX,
    AdmissionRequest,
    Decision,
    ReviewUnusable,
    read_review,
    write_review,
)

LOG = logging.getLogger(__name__)

CONNECTIONS_MAX = 500
FIRST_REQUEST_SECONDS = 10.0
"""From the connection, with its TLS handshake, until it has sent the head of a request."""
IDLE_SECONDS = 100.0
"""Between two requests; the API server closes connections after 90 s."""
HANDSHAKE_SECONDS = 5.0
BODY_SECONDS = 5.0
REVIEWS_MAX = 100
"""That are read or decided at a time."""
LARGE_BYTES = 64 * 1024
"""From this size on, a review is read in a thread."""
LARGE_AT_A_TIME = 2

Handle = Callable[[AdmissionRequest], Awaitable[Decision]]


class WebhookServer:
    """Of `address`, HOST:PORT. `use` has to be called with a certificate before anybody can connect."""

    def __init__(self, address: str, webhooks: Mapping[str, Handle], metrics: AdmissionMetrics) -> None:
        """`webhooks` are the handlers by the name that is their path."""
        self._host, self._port = split_address(address)
        self._webhooks = webhooks
        self._metrics = metrics
        self._current: ssl.SSLContext | None = None
        self._metrics.expect(webhooks)
        self._silent: set[asyncio.BaseProtocol] = set()
        self._reviews = 0
        self._large = asyncio.Semaphore(LARGE_AT_A_TIME)
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None

    def use(self, context: ssl.SSLContext) -> None:
        """Certificate and key for connections that are made from now on."""
        self._current = context

    async def start(self) -> int:
        """The port that it listens on. Raises OSError."""
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        for name, handle in self._webhooks.items():
            app.router.add_post(f"/{name}", self._handler(name, handle))
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=IDLE_SECONDS)
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connected,
            self._host,
            self._port,
            ssl=self._context(),
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, seconds: float) -> None:
        """Takes no new connections; requests that are under way have so many seconds."""
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            assert self._runner.server is not None
            transports = [protocol.transport for protocol in self._runner.server.connections]
            await self._runner.server.shutdown(seconds)
            await self._runner.cleanup()
            for transport in transports:  # saying goodbye over TLS would outlast the event loop
                if transport is not None:
                    transport.abort()

    def _context(self) -> ssl.SSLContext:
        """Has no certificate: each handshake takes the one that is in use then."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2

        def choose(connection: ssl.SSLObject, name: str | None, asked: ssl.SSLContext) -> int | None:
            if self._current is None:
                return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
            connection.context = self._current
            return None

        context.sni_callback = choose
        return context

    def _connected(self) -> asyncio.BaseProtocol:
        assert self._runner is not None
        assert self._runner.server is not None
        protocol = cast(asyncio.Protocol, self._runner.server())
        if len(self._runner.server.connections) >= CONNECTIONS_MAX:
            self._metrics.connections_refused.inc()
            return _Refused()
        self._silent.add(protocol)
        asyncio.get_running_loop().call_later(FIRST_REQUEST_SECONDS, self._end_silent, protocol)
        return protocol

    def _end_silent(self, protocol: asyncio.BaseProtocol) -> None:
        if protocol in self._silent:
            self._silent.discard(protocol)
            transport = getattr(protocol, "transport", None)
            if transport is not None:
                transport.abort()

    def _handler(self, name: str, handle: Handle) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            self._silent.discard(request.protocol)
            if self._reviews >= REVIEWS_MAX:
                self._metrics.failed(name, "busy")
                return web.Response(status=503, text=f"more than {REVIEWS_MAX} reviews at a time\n")
            self._reviews += 1
            try:
                return await self._answer(name, handle, request)
            finally:
                self._reviews -= 1

        return answer

    async def _answer(self, name: str, handle: Handle, request: web.Request) -> web.Response:
        started_s = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
            review = await self._read(body)
        except TimeoutError:
            self._metrics.failed(name, "slow")
            return web.Response(status=408, text=f"the body took longer than {BODY_SECONDS:g} s\n")
        except web.HTTPRequestEntityTooLarge:
            self._metrics.failed(name, "too_large")
            return web.Response(status=413, text=f"at most {BODY_BYTES_MAX} bytes are read\n")
        except ReviewUnusable as error:
            self._metrics.failed(name, "unusable")
            return web.Response(status=400, text=f"{error}\n")
        try:
            decision = await handle(review)
        except Exception:
            self._metrics.failed(name, "bug")
            LOG.critical("a bug of schedulerd: a review of %s was not decided", name, exc_info=True)
            return web.Response(status=500, text="a bug of schedulerd\n")
        self._metrics.decided(name, review, decision, asyncio.get_running_loop().time() - started_s)
        if not decision.is_allowed:
            LOG.info(
                "%s refused %s of %s %s/%s by %s: %s",
                name,
                *(review.operation[:20], review.resource.resource[:100], review.namespace[:63], review.name[:253]),
                *(review.user_info.username[:253], decision.refusal[:1_000]),
            )
        return web.Response(body=write_review(review, decision), content_type="application/json")

    async def _read(self, body: bytes) -> AdmissionRequest:
        if len(body) < LARGE_BYTES:
            return read_review(body)
        async with self._large:
            return await asyncio.to_thread(read_review, body)


class _Refused(asyncio.Protocol):
    """Of one connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()
