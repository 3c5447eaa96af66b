"""Answers to writes, in every way that they can come, and in pieces of any size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from schedulerd.kubernetes.api import Refused, Transport, Unreachable
from schedulerd.kubernetes.api.errors import AnswerUnusable
from schedulerd.kubernetes.api.resources import PODS
from schedulerd.kubernetes.api.transport import Answer, Request
from schedulerd.kubernetes.api.write_connections import NotConnected, WriteConnection, WriteConnections
from schedulerd.kubernetes.auth import Access, Material

OK = b"HTTP/1.1 201 Created\r\n"


class Peer:
    """A server that answers every request with the next of its answers, in pieces of a size."""

    def __init__(self, answers: list[bytes], piece: int) -> None:
        self.connections = 0
        self.heads: list[str] = []
        self._answers = answers
        self._piece = piece

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heads.append(head.decode())
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                answer = self._answers.pop(0)
                for start in range(0, len(answer), self._piece):
                    writer.write(answer[start : start + self._piece])
                    await asyncio.sleep(0)
                if b"close" in answer.lower() or (b"length" not in answer.lower() and b"chunked" not in answer.lower()):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def writing(peer: Peer, token: str = "t") -> AsyncIterator[Callable[[int], asyncio.Task[Answer]]]:
    async def read() -> Material:
        return Material(token=token)

    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = Transport(Access(f"http://127.0.0.1:{port}/prefix", read))

    def write(bytes_max: int = 100_000) -> asyncio.Task[Answer]:
        request = Request("POST", PODS, "/pods", [("dryRun", "a b")], b"{}", bytes_max=bytes_max, seconds_max=5.0)
        return asyncio.create_task(transport.request(request))

    try:
        yield write
    finally:
        await transport.close()
        server.close()
        await server.wait_closed()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("piece", [1, 7, 10_000])
async def test_answers_with_a_length_and_in_chunks_come_over_one_connection(real_loop: None, piece: int) -> None:
    answers = [
        OK + b"Content-Length: 3\r\nX-Other: 1\r\n\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 3\r\n\r\nabc",
    ]
    peer = Peer(answers, piece)
    async with writing(peer) as write:
        for _ in range(3):
            assert await write(100) == Answer(201, b"abc")
    assert peer.connections == 1
    assert peer.heads[0].startswith("POST /prefix/pods?dryRun=a+b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert "\r\nAuthorization: Bearer t\r\n" in peer.heads[0]


@pytest.mark.parametrize("piece", [1, 10_000])
async def test_an_answer_that_ends_with_its_connection(real_loop: None, piece: int) -> None:
    peer = Peer([OK + b"\r\nabc", OK + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc"], piece)
    async with writing(peer) as write:
        assert await write(100) == Answer(201, b"abc")
        assert await write(100) == Answer(201, b"abc")
    assert peer.connections == 2


@pytest.mark.parametrize("piece", [1, 10_000])
@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-close\r\n\r\n",
        b"HTTP/1.1 2x1 close\r\n\r\n",
        OK + b"Content-Length: -3\r\n\r\nabc",
        OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        OK + b"Transfer-Encoding: chunked\r\n\r\nno length\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 1_025,
        OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: trailer\r\n\r\n",
        OK + b"Transfer-Encoding: gzip\r\n\r\nabc",
        OK + b"Connection: close\r\nContent-Length: 4\r\n\r\nabc",
        OK + b"X: " + b"x" * 100_000,
    ],
)
async def test_what_is_no_answer_may_have_been_performed(real_loop: None, answer: bytes, piece: int) -> None:
    if piece == 1 and len(answer) > 10_000:
        piece = 1_000
    async with writing(Peer([answer], piece)) as write:
        with pytest.raises(Unreachable) as caught:
            await write(100)
    assert caught.value.has_left


@pytest.mark.parametrize("head", [b"Content-Length: 101\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n65\r\n", b"\r\n"])
async def test_too_long(real_loop: None, head: bytes) -> None:
    async with writing(Peer([OK + head + b"x" * 101], 10)) as write:
        with pytest.raises(AnswerUnusable):
            await write(100)


@pytest.mark.parametrize("head", [b"Content-Length: 300000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n493E0\r\n"])
async def test_of_errors_the_code_says_enough(real_loop: None, head: bytes) -> None:
    peer = Peer([b"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\n" + head + b"x" * 1_000], 10_000)
    async with writing(peer) as write:
        with pytest.raises(Refused) as caught:
            await write(100)
    assert (caught.value.status.code, caught.value.retry_after_s) == (429, 7.0)


async def test_an_answer_without_content_has_no_body(real_loop: None) -> None:
    peer = Peer([b"HTTP/1.1 204 No Content\r\n\r\n", OK + b"Content-Length: 1\r\n\r\na"], 10_000)
    async with writing(peer) as write:
        assert await write(100) == Answer(204, b"")


async def test_a_connection_that_says_more_than_it_was_asked_is_not_used_again(real_loop: None) -> None:
    peer = Peer([OK + b"Content-Length: 3\r\n\r\nabcHTTP/1.1 201", OK + b"Content-Length: 3\r\n\r\ndef"], 10_000)
    async with writing(peer) as write:
        assert await write(100) == Answer(201, b"abc")
        assert await write(100) == Answer(201, b"def")
    assert peer.connections == 2


async def test_nobody_listens(real_loop: None) -> None:
    async with writing(Peer([], 1)) as write:
        pass
    with pytest.raises(Unreachable) as caught:
        await write(100)
    assert not caught.value.has_left


async def test_a_new_connection_that_is_lost_before_the_request_ends_it_at_once() -> None:
    async def dial(connection: WriteConnection, *_: object) -> None:
        connection.connection_made(asyncio.Transport())
        connection.connection_lost(None)

    connections = WriteConnections("http://127.0.0.1", None, {}, dial)
    connection = await connections.connection(None)
    with pytest.raises(NotConnected, match="lost before"):
        await connection.exchange(b"", 100, 100)


async def test_a_token_with_line_breaks_is_not_sent(real_loop: None) -> None:
    peer = Peer([], 1)
    async with writing(peer, "t\r\nX: y") as write:
        with pytest.raises(Unreachable, match="line breaks"):
            await write(100)
    assert peer.heads == []
