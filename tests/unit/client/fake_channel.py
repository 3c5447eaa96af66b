"""A gRPC channel without a network, for what a client does in the course of time: the other side does as it is told."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import grpc
from grpc import aio

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client.update_stream import RESUMES_HEADER


class FakeChannel:
    """Takes registrations and streams.

    `streams_last_s` is after how long each stream is lost; `answers` says whether a unary call is answered, or else
    ends with its timeout.
    """

    def __init__(self, *, streams_last_s: float = math.inf, answers: bool = True, resumes: bool = False) -> None:
        self.streams_last_s = streams_last_s
        self.answers = answers
        self.resumes = resumes
        self.is_there = asyncio.Event()
        self.is_there.set()
        self._room: asyncio.Semaphore | None = None
        self.called: list[tuple[str, float, float]] = []
        """Unary calls: the method, when, and the timeout."""
        self.streams: list[FakeStream] = []

    def may_take(self, messages: int) -> None:
        """So many more are taken from the client on all streams; until this is called, as many as there are."""
        self._room = self._room or asyncio.Semaphore(0)
        for _ in range(messages):
            self._room.release()

    async def take(self) -> None:
        """Returns when one more message is taken."""
        if self._room is not None:
            await self._room.acquire()

    async def channel_ready(self) -> None:
        await self.is_there.wait()

    async def close(self, grace: float | None) -> None: ...

    def unary_unary(self, path: str, *_: object, **__: object) -> Any:
        method = path.rpartition("/")[2]

        async def call(request: object, **options: float) -> object:
            timeout_s = options["timeout"]
            self.called.append((method, asyncio.get_running_loop().time(), timeout_s))
            if not self.answers:
                await asyncio.sleep(timeout_s)
                raise failure(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            return None

        return call

    def unary_stream(self, path: str, *_: object, **__: object) -> None:
        """The stub makes one of each of its methods; a client calls none of these."""

    def stream_stream(self, path: str, *_: object, **__: object) -> Any:
        def call(metadata: tuple[tuple[str, str], ...] = ()) -> FakeStream:
            self.streams.append(FakeStream(self, path.rpartition("/")[2], dict(metadata)))
            return self.streams[-1]

        return call

    def times_of(self, method: str) -> list[float]:
        """When it was called."""
        return [at_s for called, at_s, _ in self.called if called == method]

    def timeouts_of(self, method: str) -> list[float]:
        """How long the client would have waited for an answer."""
        return [timeout_s for called, _, timeout_s in self.called if called == method]


class FakeStream:
    """One call; `written` is what the client sent on it, the hello first."""

    def __init__(self, channel: FakeChannel, method: str, headers: dict[str, str]) -> None:
        self._channel = channel
        self.method = method
        self.headers = headers
        self.written: list[bytes] = []

    async def initial_metadata(self) -> tuple[tuple[str, str], ...]:
        return ((RESUMES_HEADER, "1"),) if self._channel.resumes else ()

    async def read(self) -> object:
        if math.isinf(self._channel.streams_last_s):
            await asyncio.Event().wait()
        await asyncio.sleep(self._channel.streams_last_s)
        raise failure(grpc.StatusCode.UNAVAILABLE, "going away")

    async def write(self, payload: bytes) -> None:
        await self._channel.take()
        self.written.append(payload)

    async def done_writing(self) -> None: ...

    def cancel(self) -> None: ...

    def requests(self) -> list[si_pb2.AllocationRequest]:
        """What came after the hello, if this is a stream of allocations."""
        return [si_pb2.AllocationRequest.FromString(payload) for payload in self.written[1:]]


def failure(code: grpc.StatusCode, details: str) -> aio.AioRpcError:
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details)
