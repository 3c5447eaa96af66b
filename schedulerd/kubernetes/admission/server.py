"""The HTTPS server of the webhooks.

Every client that reaches the port may ask. So everything is bounded: connections from the moment they are accepted,
in all and for each address, the time until one asks for something, size and time of a body, the memory of large
bodies together, and reviews at a time. A large review is read in a thread, so that it does not hold the event loop.
Bodies with a content coding are refused (`plain_bodies`).

A body that has not arrived yet takes no place among the reviews, and none in the memory for large ones until it is
large: clients that send nothing cannot keep others from being answered.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from schedulerd.kubernetes.admission.listener import Listener
from schedulerd.kubernetes.admission.metrics import AdmissionMetrics
from schedulerd.kubernetes.admission.rules.review import (
    BODY_BYTES_MAX,
    AdmissionRequest,
    Decision,
    ReviewUnusable,
    read_review,
    write_review,
)
from schedulerd.kubernetes.shim.plain_bodies import CONNECTION_OPTIONS, plain_bodies

LOG = logging.getLogger(__name__)

FIRST_REQUEST_SECONDS = 10.0
"""From the connection, with its TLS handshake, until it has sent the head of a request."""
IDLE_SECONDS = 100.0
"""Between two requests; the API server closes connections after 90 s."""
BODY_SECONDS = 5.0
LINGER_SECONDS = 1.0
"""For the rest of a body that is not read, after the answer; then its connection is closed."""
REVIEWS_MAX = 100
"""That are read or decided at a time, after their bodies have arrived."""
LARGE_BYTES = 64 * 1024
"""From this size on, a review is read in a thread."""
LARGE_AT_A_TIME = 2
LARGE_BYTES_MAX = 4 * BODY_BYTES_MAX
"""Of all bodies from this size on together, until they are decided. The objects in them take ten times as much."""

Handle = Callable[[AdmissionRequest], Awaitable[Decision]]


class WebhookServer:
    """Of `address`, HOST:PORT. `use` has to be called with a certificate before anybody can connect."""

    def __init__(self, address: str, webhooks: Mapping[str, Handle], metrics: AdmissionMetrics) -> None:
        """`webhooks` are the handlers by the name that is their path."""
        self._listener = Listener(address, self._context(), self._connected, metrics.connections_refused.inc)
        self._webhooks = webhooks
        self._metrics = metrics
        self._current: ssl.SSLContext | None = None
        self._metrics.expect(webhooks)
        self._silent: set[asyncio.BaseProtocol] = set()
        self._reviews = 0
        self._large_bytes = 0
        self._large = asyncio.Semaphore(LARGE_AT_A_TIME)
        self._runner: web.AppRunner | None = None

    def use(self, context: ssl.SSLContext) -> None:
        """Certificate and key for connections that are made from now on."""
        self._current = context

    async def start(self) -> int:
        """The port that it listens on. Raises OSError."""
        app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[plain_bodies])
        for name, handle in self._webhooks.items():
            app.router.add_post(f"/{name}", self._handler(name, handle))
        self._runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=IDLE_SECONDS, lingering_time=LINGER_SECONDS, **CONNECTION_OPTIONS
        )
        await self._runner.setup()
        return self._listener.start()

    async def stop(self, seconds: float) -> None:
        """Takes no new connections; requests that are under way have so many seconds."""
        await self._listener.stop()
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

    def _connected(self) -> asyncio.Protocol:
        assert self._runner is not None
        assert self._runner.server is not None
        protocol = self._runner.server()
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
            body = _Body()
            try:
                return await self._answer(name, handle, request, body)
            except TimeoutError:
                self._metrics.failed(name, "slow")
                return web.Response(status=408, text=f"the body took longer than {BODY_SECONDS:g} s\n")
            except web.HTTPRequestEntityTooLarge:
                self._metrics.failed(name, "too_large")
                return web.Response(status=413, text=f"at most {BODY_BYTES_MAX} bytes are read\n")
            except ReviewUnusable as error:
                self._metrics.failed(name, "unusable")
                return web.Response(status=400, text=f"{error}\n")
            except _Busy as error:
                self._metrics.failed(name, "busy")
                return web.Response(status=503, text=f"{error}\n")
            finally:
                self._large_bytes -= body.counted

        return answer

    async def _answer(self, name: str, handle: Handle, request: web.Request, body: _Body) -> web.Response:
        started_s = asyncio.get_running_loop().time()
        async with asyncio.timeout(BODY_SECONDS):
            await self._receive(request, body)
        if self._reviews >= REVIEWS_MAX:
            raise _Busy(f"more than {REVIEWS_MAX} reviews at a time")
        self._reviews += 1
        try:
            return await self._decide(name, handle, body.take(), started_s)
        finally:
            self._reviews -= 1

    async def _receive(self, request: web.Request, body: _Body) -> None:
        async for part in request.content.iter_any():
            body.content += part
            if len(body.content) > BODY_BYTES_MAX:
                raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, len(body.content))
            if len(body.content) >= LARGE_BYTES:
                self._large_bytes += len(body.content) - body.counted
                body.counted = len(body.content)
                if self._large_bytes > LARGE_BYTES_MAX:
                    raise _Busy(f"large bodies have more than {LARGE_BYTES_MAX} bytes together")

    async def _decide(self, name: str, handle: Handle, body: bytes, started_s: float) -> web.Response:
        review = await self._read(body)
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


class _Busy(Exception):
    """Too much at a time; the text says of what."""


class _Body:
    """Of a request, as far as it has arrived."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.counted = 0
        """Bytes that count among those of large bodies."""

    def take(self) -> bytes:
        """The content, of which nothing is left here."""
        content = bytes(self.content)
        self.content.clear()
        return content
