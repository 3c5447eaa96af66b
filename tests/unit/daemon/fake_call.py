"""The border to gRPC of a call that streams both ways, with its client played by the test."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from schedulerd.daemon.transport.stream_call import StreamCall


class Aborted(Exception):
    """What `context.abort` raises."""


class FakeContext:
    """A call: what the client sends is put into `requests`, what it receives is in `responses`."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[Any] = asyncio.Queue()
        self.responses: list[bytes] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self.write_error: Exception | None = None
        self.headers: tuple[tuple[str, str], ...] | None = None
        """What was sent before the first response; None if nothing was."""
        self.request_headers: tuple[tuple[str, str], ...] = ()
        self.client = "ipv4:127.0.0.1:1"
        """The other end of the connection."""
        self.status = (grpc.StatusCode.OK, "")

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None:
        assert self.headers is None, "gRPC refuses to send headers twice"
        self.headers = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.request_headers

    async def read(self) -> Any:
        return await self.requests.get()

    async def write(self, message: bytes) -> None:
        await self.reading.wait()
        if self.write_error is not None:
            raise self.write_error
        self.responses.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        assert self.headers is not None, "gRPC cannot abort while it sends headers with a response"
        self.status = (code, details)
        raise Aborted

    def peer(self) -> str:
        return self.client

    def half_close(self) -> None:
        self.requests.put_nowait(grpc.aio.EOF)


async def until_over(call: StreamCall) -> None:
    """Serves the call, whatever its end."""
    try:
        await call.run()
    except Aborted:
        return


async def turns(count: int = 50) -> None:
    """Lets everything that can happen without waiting for time happen."""
    for _ in range(count):
        await asyncio.sleep(0)
