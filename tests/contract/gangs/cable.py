"""The connection between a resource manager and the daemon, where something happens at an exact byte.

Time would do for killing at a random moment, but would hardly ever hit the middle of a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
CHUNK_BYTES_MAX = 1 << 16


class Cable:
    """Relays connections to `port` of this machine, both ways; a context."""

    def __init__(self) -> None:
        self.port: int | None = None
        """Of the daemon; while it is None, connections are closed at once."""
        self._bytes_passed = 0
        """Both ways, since the last `after`."""
        self._bytes_wanted: int | None = None
        self._strike: Callable[[], None] = lambda: None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def target(self) -> str:
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    def after(self, count: int, strike: Callable[[], None]) -> None:
        """Calls `strike` when so many bytes more have passed, before any other; it may `disconnect`."""
        self._bytes_passed = 0
        self._bytes_wanted = count
        self._strike = strike

    def disarm(self) -> None:
        """Nothing happens any more, however many bytes pass."""
        self._bytes_wanted = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.disconnect()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.port is None:
                return
            far_reader, far_writer = await asyncio.open_connection(HOST, self.port)
            self._writers |= {writer, far_writer}
            try:
                await asyncio.gather(self._relay(reader, far_writer), self._relay(far_reader, writer))
            finally:
                self._writers -= {writer, far_writer}
        except ConnectionError:
            return
        finally:
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK_BYTES_MAX):
                before = len(chunk) if self._bytes_wanted is None else self._bytes_wanted - self._bytes_passed
                writer.write(chunk[:before])
                self._bytes_passed += min(before, len(chunk))
                if self._bytes_passed == self._bytes_wanted:
                    self.disarm()
                    self._strike()
                    if writer.is_closing():
                        return
                    writer.write(chunk[before:])
                await writer.drain()
        finally:
            writer.close()

    def disconnect(self) -> None:
        """Closes all connections now."""
        for writer in self._writers:
            writer.close()
