"""Requests of calls with one request: in time, of a sane size, and messages; or the call ends with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import grpc
import pytest

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.daemon.access.refusals import Refusals
from schedulerd.daemon.access.request_reading import REQUEST_BYTES_MAX, RequestReader
from tests.loops import each_row
from tests.unit import virtual_loop

REQUEST = admin_pb2.GetStateDumpRequest(rmID="rm")


class Aborted(Exception):
    """What `context.abort` raises."""


class Call:
    """A call whose client has sent this: bytes, the end, or nothing at all."""

    def __init__(self, sent: object | None) -> None:
        self._sent = sent
        self.status: tuple[grpc.StatusCode, str] | None = None

    async def read(self) -> object:
        if self._sent is None:
            await asyncio.get_running_loop().create_future()
        return self._sent

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        self.status = (code, details)
        raise Aborted


class Details:
    method = "/schedulerd.v1.Admin/Get"
    invocation_metadata: tuple[tuple[str, str | bytes], ...] = ()


async def answer(_request: object, _context: object) -> object:
    return "answer"


async def never(_request: object, _context: object) -> NoReturn:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def late(_request: object, _context: object) -> NoReturn:
    raise TimeoutError("of what it waits for itself")


def play(call: Call, serve: Callable[[Any, Any], Awaitable[Any]], *, is_streaming: bool = False) -> tuple[Any, float]:
    """What the call is answered, or the error it ends with, and after how many seconds."""

    async def story() -> tuple[Any, float]:
        make: Any = grpc.unary_stream_rpc_method_handler if is_streaming else grpc.unary_unary_rpc_method_handler
        handler = make(serve, request_deserializer=admin_pb2.GetStateDumpRequest.FromString)

        async def found(_details: object) -> object:
            return handler

        reader = RequestReader(Refusals(), request_seconds=20, answer_seconds=60)
        wrapped = await reader.intercept_service(found, Details())
        method = wrapped.stream_stream if is_streaming else wrapped.stream_unary
        began = asyncio.get_running_loop().time()
        result: object
        try:
            result = await asyncio.wait_for(method(None, call), 1000)
        except (Aborted, TimeoutError) as error:
            result = error
        return result, asyncio.get_running_loop().time() - began

    return virtual_loop.run(story())


@each_row("is_streaming", [False, True], ids=["one answer", "many"])
@each_row(
    ("sent", "code", "words", "seconds"),
    [
        (None, grpc.StatusCode.DEADLINE_EXCEEDED, "no request came within 20 s", 20),
        (grpc.aio.EOF, grpc.StatusCode.INVALID_ARGUMENT, "no request was sent", 0),
        (b"\x0a\xff", grpc.StatusCode.INVALID_ARGUMENT, "not a request of Get: ", 0),
        (
            b"x" * (REQUEST_BYTES_MAX + 1),
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "the request has 2097153 bytes; at most 2097152 are allowed",
            0,
        ),
    ],
    ids=["none comes", "none is sent", "no message", "too large"],
)
def test_what_is_no_request_ends_the_call(
    sent: object, code: grpc.StatusCode, words: str, seconds: float, is_streaming: bool
) -> None:
    call = Call(sent)
    result, took = play(call, answer, is_streaming=is_streaming)
    assert isinstance(result, Aborted)
    assert call.status is not None
    assert call.status[0] is code
    assert call.status[1].startswith(words)
    assert took == pytest.approx(seconds)


def test_the_largest_request_is_served() -> None:
    raw = admin_pb2.GetStateDumpRequest(rmID="x" * (REQUEST_BYTES_MAX - 4)).SerializeToString()
    assert len(raw) == REQUEST_BYTES_MAX
    call = Call(raw)
    assert play(call, answer)[0] == "answer"


def test_an_answer_has_so_much_time_and_a_stream_of_answers_all() -> None:
    call = Call(REQUEST.SerializeToString())
    result, took = play(call, never)
    assert isinstance(result, Aborted)
    assert call.status == (grpc.StatusCode.DEADLINE_EXCEEDED, "the answer took more than 60 s")
    assert took == pytest.approx(60)
    assert play(Call(REQUEST.SerializeToString()), never, is_streaming=True)[1] == pytest.approx(1000)


def test_a_method_that_runs_out_of_time_by_itself_is_not_blamed_on_the_clock() -> None:
    call = Call(REQUEST.SerializeToString())
    result, took = play(call, late)
    assert isinstance(result, TimeoutError)
    assert (call.status, took) == (None, 0)
