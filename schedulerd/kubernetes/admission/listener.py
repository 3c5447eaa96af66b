"""Accepts connections over TLS, and counts them from the moment they are accepted: before the handshake."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from schedulerd.address import split_address
from schedulerd.open_files import share

LOG = logging.getLogger(__name__)

CONNECTIONS_MAX = 500
"""At most half of the limit of open files."""
PEER_CONNECTIONS_MAX = 200
"""From one address. The API server has one for each review that it waits for."""
HANDSHAKE_SECONDS = 5.0
ACCEPT_AGAIN_SECONDS = 0.5
"""After the system has given no connection, as without file descriptors."""


class Listener:
    """Gives every connection a protocol of `make`; `refused` is called for each that is one too many."""

    def __init__(
        self,
        address: str,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        refused: Callable[[], object],
    ) -> None:
        """`address` is HOST:PORT."""
        self._address = split_address(address)
        self._context = context
        self._make = make
        self._refused = refused
        self._connections_max = share(2, CONNECTIONS_MAX)
        self._peers: Counter[str] = Counter()
        """Connections by address."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None

    def start(self) -> int:
        """The port that it listens on. Raises OSError."""
        host, port = self._address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=128, dualstack_ipv6=host == "::")
        self._socket.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._socket))
        return int(self._socket.getsockname()[1])

    async def stop(self) -> None:
        """Connections that there are go on, but for those in their handshake."""
        for task in filter(None, (self._accepting, *self._tasks)):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._socket is not None:
            self._socket.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(listening)
            except OSError as error:
                LOG.warning("no connection is accepted: %s", error)
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            host = str(peer[0])
            if self._peers.total() >= self._connections_max or self._peers[host] >= PEER_CONNECTIONS_MAX:
                connection.close()
                self._refused()
                continue
            self._peers[host] += 1
            task = asyncio.create_task(self._begin(connection, host))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _begin(self, connection: socket.socket, host: str) -> None:
        """The handshake."""
        counted = _Counted(self._make(), lambda: self._ended(host))
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: counted, connection, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except (OSError, asyncio.CancelledError):  # also what TLS has to say
            connection.close()
            counted.end()

    def _ended(self, host: str) -> None:
        self._peers[host] -= 1
        if not self._peers[host]:
            del self._peers[host]


class _Counted(asyncio.Protocol):
    """Another protocol, whose end is told once, whether it was ever connected or not."""

    def __init__(self, inner: asyncio.Protocol, ended: Callable[[], None]) -> None:
        self._inner = inner
        self._tell = ended
        self._is_ended = False

    def end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._tell()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._inner.connection_lost(error)
        self.end()
