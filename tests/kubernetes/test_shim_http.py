"""The HTTP port of the shim: how many connections there may be, and for how long each may be silent."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from schedulerd import http_connections as bounds
from schedulerd.kubernetes.shim import http_connections
from schedulerd.kubernetes.shim.http import HttpServer

pytestmark = pytest.mark.usefixtures("real_loop")

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PROBE = b"GET /livez HTTP/1.1\r\nHost: shim\r\n\r\n"


class Port:
    """A context: the server, and connections to it."""

    def __init__(self) -> None:
        self.server = HttpServer("127.0.0.1:0", CollectorRegistry(), lambda: "", lambda: (True, ""), lambda: self.notes)
        self.notes = ""
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Port:
        self._port = await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()
        await self.server.stop()

    async def connect(self, said: bytes = b"") -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        writer.write(said)
        return reader, writer


async def ended(connection: Connection) -> bool:
    async with asyncio.timeout(10):
        try:
            return await connection[0].read() == b""
        except ConnectionResetError:
            return True


async def probe(connection: Connection) -> bytes:
    connection[1].write(PROBE)
    async with asyncio.timeout(10):
        head = await connection[0].readuntil(b"\r\n\r\n")
        await connection[0].readexactly(3)
    return head.splitlines()[0]


async def test_a_probe_gets_through_however_many_clients_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "CONNECTIONS_MAX", 5)
    async with Port() as port:
        used = await port.connect()
        assert await probe(used) == b"HTTP/1.1 200 OK"
        silent = [await port.connect(b"GET /metr") for _ in range(4)]
        assert await probe(used) == b"HTTP/1.1 200 OK"
        one = await port.connect()
        assert await probe(one) == b"HTTP/1.1 200 OK"
        assert await ended(silent[0]), "that has been without a request for longest"
        assert await probe(used) == b"HTTP/1.1 200 OK"
        assert len(port.server.connections) == 5


async def test_a_process_that_is_ready_says_what_is_wrong_with_it() -> None:
    async with Port() as port:
        port.notes = "nothing new of nodes: 403"
        reader, _ = await port.connect(PROBE.replace(b"livez", b"readyz"))
        head, said = await reader.readuntil(b"\r\n\r\n"), await reader.readuntil(b"403\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert said == b"ok\nnothing new of nodes: 403\n"


async def test_who_sends_no_request_in_time_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "HEAD_SECONDS_MAX", 0.05)
    async with Port() as port:
        assert await ended(await port.connect()), "at its start"
        assert await ended(await port.connect(b"GET /livez HTTP/1.1\r\n")), "in a request"
        answered = await port.connect()
        assert await probe(answered) == b"HTTP/1.1 200 OK"
        assert await ended(answered), "after an answer"
        while len(port.server.connections):  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_who_does_not_read_the_answer_in_time_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "EXCHANGE_SECONDS_MAX", 0.05)
    server_waits = asyncio.Event()

    async def never(*_: object) -> None:
        server_waits.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(web.RequestHandler, "finish_response", never)
    async with Port() as port:
        slow = await port.connect(PROBE)
        assert await ended(slow)
        assert server_waits.is_set()


async def said_at(port: int, path: str, *headers: str) -> tuple[bytes, bytes]:
    """First line and body of an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = (f"GET {path} HTTP/1.1", "Host: shim", "Connection: close", *headers, "", "")
    writer.write("\r\n".join(lines).encode())
    async with asyncio.timeout(10):
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return head.splitlines()[0], body


async def test_it_says_what_it_waits_for_and_who_leads() -> None:
    missing, leader = ["the API server has not answered"], [(False, "")]
    server = HttpServer("127.0.0.1:0", CollectorRegistry(), lambda: missing[0], lambda: leader[0], lambda: "")
    port = await server.start()
    try:
        assert await said_at(port, "/readyz") == (
            b"HTTP/1.1 503 Service Unavailable",
            b"the API server has not answered\n",
        )
        assert await said_at(port, "/leader") == (b"HTTP/1.1 503 Service Unavailable", b"nobody\n")
        missing[0], leader[0] = "", (True, "pod-1")
        assert (await said_at(port, "/readyz"))[0] == b"HTTP/1.1 200 OK"
        assert await said_at(port, "/leader") == (b"HTTP/1.1 200 OK", b"pod-1\n")
        assert (await said_at(port, "/metrics", "Accept: application/openmetrics-text"))[1] == b"# EOF\n"
        assert (await said_at(port, "/metrics"))[1] == b""
    finally:
        await server.stop()
