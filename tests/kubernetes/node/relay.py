"""Passes bytes between two connections, as the network of a pod is another one than that of the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

CHUNK_BYTES = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[asyncio.StreamReader], Awaitable[Streams]]
"""Opens the other side; may read from this one first."""


class Relay:
    """Handles each connection of a server: `asyncio.start_server(Relay(connect), ...)`."""

    def __init__(self, connect: Connect, greeting: bytes = b"") -> None:
        """`greeting` is what the client is told when the other side is connected."""
        self._connect = connect
        self._greeting = greeting
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._relay(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())  # it may be cancelled before it has begun

    async def close(self) -> None:
        """Cuts all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await self._connect(reader)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            return
        writer.write(self._greeting)
        try:
            await asyncio.gather(_pass(reader, there_writer), _pass(there_reader, writer))
        finally:
            there_writer.transport.abort()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def to_unix(path: Path, first_line: str = "") -> Connect:
    async def connect(reader: asyncio.StreamReader) -> Streams:
        there = await asyncio.open_unix_connection(path)
        if first_line:
            there[1].write(f"{first_line}\n".encode())
        return there

    return connect


def to_port(host: str, port: int) -> Connect:
    async def connect(reader: asyncio.StreamReader) -> Streams:
        return await asyncio.open_connection(host, port)

    return connect


async def to_named_port(reader: asyncio.StreamReader) -> Streams:
    """The first line is the port of this machine."""
    return await asyncio.open_connection("127.0.0.1", int(await reader.readline()))
