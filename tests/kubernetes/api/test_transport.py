"""What is read of an answer, and when a write leaves: directly, or through a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from schedulerd.kubernetes.api import Refused, Transport
from schedulerd.kubernetes.api.errors import AnswerUnusable, WriteForbidden
from schedulerd.kubernetes.api.resources import PODS
from schedulerd.kubernetes.api.status import status_of
from schedulerd.kubernetes.api.transport import Answer, Request
from schedulerd.kubernetes.auth import Access, Material

OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
READ = Request("GET", PODS, "/pods", bytes_max=100, seconds_max=5.0)
WRITE = Request("POST", PODS, "/pods", body=b"{}", seconds_max=5.0)


class Peer:
    """A server, or a proxy, that gives every request the same answer."""

    def __init__(self, answer: bytes) -> None:
        self.requests: list[str] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self._answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def talking(peer: Peer, *, proxied: bool = False) -> AsyncIterator[Transport]:
    async def read() -> Material:
        return Material(token="t")

    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    at = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = Transport(Access("http://api.example", read, proxy=at) if proxied else Access(at, read))
    try:
        yield transport
    finally:
        await transport.close()
        server.close()
        await server.wait_closed()


async def test_an_answer_in_chunks_is_read(real_loop: None) -> None:
    async with talking(Peer(OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")) as transport:
        assert await transport.request(READ) == Answer(200, b"abc")


@pytest.mark.parametrize("head", [b"Content-Length: 101\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n65\r\n", b"\r\n"])
async def test_no_more_is_read_than_was_asked_for(real_loop: None, head: bytes) -> None:
    async with talking(Peer(OK + head + b"x" * 101)) as transport:
        with pytest.raises(AnswerUnusable, match=r"at most 100|more than 100"):
            await transport.request(READ)


async def test_of_a_long_error_the_code_says_enough(real_loop: None) -> None:
    async with talking(Peer(b"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Length: 300000\r\n\r\n")) as transport:
        with pytest.raises(Refused) as caught:
            await transport.request(READ)
    assert (caught.value.status.code, caught.value.retry_after_s) == (429, 7.0)


async def test_a_status_may_say_when_to_come_back(real_loop: None) -> None:
    body = b'{"kind":"Status","message":"' + b"m" * 3_000 + b'","details":{"retryAfterSeconds":500}}'
    head = b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with talking(Peer(head + body)) as transport:
        with pytest.raises(Refused) as caught:
            await transport.request(READ)
    assert caught.value.retry_after_s == 120.0, "no write waits for longer"
    assert caught.value.status.message == "m" * 2_000 + "..."
    assert status_of(503, body).details is not None


async def test_writes_go_through_a_proxy(real_loop: None) -> None:
    peer = Peer(OK + b"Content-Length: 2\r\n\r\n{}")
    async with talking(peer, proxied=True) as transport:
        assert await transport.request(WRITE) == Answer(200, b"{}")
    (sent,) = peer.requests
    assert sent.startswith("POST http://api.example/pods HTTP/1.1\r\n")
    assert "\r\nContent-Type: application/json\r\n" in sent


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("looks", [0, 1, 2])
async def test_no_write_leaves_once_another_process_may_lead(real_loop: None, looks: int, proxied: bool) -> None:
    """However far it has come: before it begins, before its connection, and when that is there."""
    open_s: Iterator[float] = iter([5.0] * looks)
    peer = Peer(OK + b"Content-Length: 2\r\n\r\n{}")
    async with talking(peer, proxied=proxied) as transport:
        with pytest.raises(WriteForbidden, match="not the leader"):
            await transport.request(WRITE, lambda: next(open_s, 0.0))
    assert peer.requests == []
