"""Every HTTP server of the package refuses bodies with a content coding, and closes connections of bodies that it does
not read: the daemon, the shim, and the webhooks with their port for metrics."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from schedulerd.daemon.admin import http as daemon_http
from schedulerd.daemon.admin.api.guard import API_BODY_BYTES_MAX
from schedulerd.kubernetes.admission import server as server_module
from schedulerd.kubernetes.admission.rules.review import BODY_BYTES_MAX
from schedulerd.kubernetes.shim.http import HttpServer as ShimServer
from tests.contract.daemon_process import DaemonProcess
from tests.kubernetes.admission.test_server import HOST, serving, trusting

pytestmark = pytest.mark.slow  # starts daemons

SECONDS = 30.0
BOMB = gzip.compress(bytes(32 << 20))
"""32 MiB when unpacked."""
CODINGS = ["gzip", "GZIP", "deflate", "br", "zstd", "identity, gzip", "x-gzip"]

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@contextlib.asynccontextmanager
async def daemon() -> AsyncIterator[Connect]:
    process = DaemonProcess()
    await asyncio.to_thread(process.__enter__)
    try:
        yield lambda: asyncio.open_connection("127.0.0.1", int(process.url.rpartition(":")[2]))
    finally:
        await asyncio.to_thread(process.__exit__, None, None, None)


@contextlib.asynccontextmanager
async def shim() -> AsyncIterator[Connect]:
    server = ShimServer("127.0.0.1:0", CollectorRegistry(), lambda: "")
    port = await server.start()
    try:
        yield lambda: asyncio.open_connection("127.0.0.1", port)
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def webhooks() -> AsyncIterator[Connect]:
    async with serving() as served:
        context: ssl.SSLContext = trusting(served.certificates)
        yield lambda: asyncio.open_connection("127.0.0.1", served.port, ssl=context, server_hostname=HOST)


async def answers(connect: Connect, head: str, body: bytes, headers: str = "") -> tuple[int, bytes]:
    """The status, and all that the server sends until it closes the connection."""
    reader, writer = await connect()
    length = "" if "chunked" in headers else f"Content-Length: {len(body)}\r\n"
    writer.write(f"{head} HTTP/1.1\r\nHost: localhost\r\n{length}{headers}\r\n".encode() + body)
    try:
        async with asyncio.timeout(SECONDS):
            found = await reader.read()
    finally:
        writer.transport.abort()
    assert found.startswith(b"HTTP/1."), found
    return int(found.split()[1]), found


TARGETS = [
    (daemon, ["PUT /loglevel", "POST /api/v1/config/validate", "POST /ui/login", "GET /livez", "POST /ws/v1/x"]),
    (shim, ["GET /livez", "POST /metrics"]),
    (webhooks, ["POST /mutate", "POST /none"]),
]


@pytest.mark.parametrize(("server", "heads"), TARGETS, ids=lambda one: getattr(one, "__name__", ""))
async def test_coded_bodies_are_refused_unread_and_their_connection_is_closed(
    real_loop: None, server: Callable[[], contextlib.AbstractAsyncContextManager[Connect]], heads: list[str]
) -> None:
    async with server() as connect:
        for head in heads:
            for coding in CODINGS:
                status, found = await answers(connect, head, BOMB[:2_000], f"Content-Encoding: {coding}\r\n")
                assert status == 415, (head, coding)
                assert b"accept-encoding: identity" in found.lower()
            twice = "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n"
            assert (await answers(connect, head, b"x", twice))[0] == 415
        plain = await answers(connect, heads[0], b"", "Content-Encoding: identity\r\nConnection: close\r\n")
        assert plain[0] != 415


@pytest.mark.parametrize(
    ("server", "head", "size"),
    [
        (daemon, "PUT /loglevel", daemon_http.BODY_BYTES_MAX),
        (daemon, "POST /api/v1/login", API_BODY_BYTES_MAX),
        (webhooks, "POST /mutate", BODY_BYTES_MAX),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
async def test_a_body_that_is_too_large_ends_its_connection(
    real_loop: None,
    server: Callable[[], contextlib.AbstractAsyncContextManager[Connect]],
    head: str,
    size: int,
) -> None:
    async with server() as connect:
        status, found = await answers(connect, head, b" " * (size + 1))
        assert status == 413
        assert b"connection: close" in found.lower()


@pytest.mark.parametrize(("server", "heads"), TARGETS, ids=lambda one: getattr(one, "__name__", ""))
async def test_a_body_in_malformed_chunks_is_a_mistake_of_the_client(
    real_loop: None, server: Callable[[], contextlib.AbstractAsyncContextManager[Connect]], heads: list[str]
) -> None:
    async with server() as connect:
        chunked = "Transfer-Encoding: chunked\r\nConnection: close\r\n"
        for body in (b"ZZ\r\n", b"3\r\nabcde\r\n", b"-1\r\n\r\n"):
            status, _ = await answers(connect, heads[0], body, chunked)
            assert status == 400, body


async def test_a_body_that_is_refused_is_not_waited_for(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "LINGER_SECONDS", 0.01)
    async with webhooks() as connect:
        head = b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n"
        reader, writer = await connect()
        writer.write(head)
        async with asyncio.timeout(SECONDS):
            found = await reader.read()
        writer.transport.abort()
        assert int(found.split()[1]) == 415
