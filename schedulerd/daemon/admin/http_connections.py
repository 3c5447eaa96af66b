"""Bounds the connections of the HTTP port: their number, and how long each may keep the daemon waiting.

A connection costs a file descriptor, which gRPC needs too. When there are too many, a new connection replaces the one
that has kept the daemon waiting longest, so a probe gets through however many clients are silent. uvicorn itself bounds
only the pause between two requests (`IDLE_SECONDS_MAX`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, TypeAlias

from uvicorn.protocols.http.h11_impl import H11Protocol

from schedulerd.open_files import share

CONNECTIONS_MAX = 200
"""Maximum number of open connections; at most a fifth of the limit of open files."""

IDLE_SECONDS_MAX = 5
"""How long a connection may be silent after a response."""

HEAD_SECONDS_MAX = 10.0
"""How long a connection may take to send the request line and the headers, from its start or the last response on."""

EXCHANGE_SECONDS_MAX = 60.0
"""How long it may take from the headers of a request until the client has read the response. This includes the daemon's
time for the response (a state query waits for its turn) and the client's time to send the body and to read."""

READERS_MAX = 10
"""Maximum number of connections whose clients have not read what was written. The texts for them stay in memory."""

LONG_LIVED = "schedulerd.long_lived"
"""In the scope of a request: a function that takes the time limit of an exchange from its connection."""

HEAD_BYTES_MAX = 8192
"""Maximum size of the request line and the headers."""

_PIECE_BYTES = 1024
"""Bytes are parsed in pieces of this size: the parser checks the size of headers only while they are incomplete."""


Tell: TypeAlias = Callable[[str, str], None]
"""Called for a connection that was closed before its client was done: the client's address, and the reason."""


class _Phase(Enum):
    """Whether a connection waits for a request or serves one."""

    HEAD = auto()
    """The next request has not arrived."""
    EXCHANGE = auto()
    """A request has arrived, and its response has not been read."""


class HttpConnections:
    """The open connections; the one that has been in its phase longest is first."""

    def __init__(self, tell: Tell = lambda _peer, _reason: None) -> None:
        self.tell = tell
        self._files_max = share(5, CONNECTIONS_MAX)
        self._open: dict[HttpConnection, None] = {}
        self._readers: dict[HttpConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def abort(self) -> None:
        """Closes all connections at once; what was not read is lost."""
        for connection in list(self._open):
            connection.abort()

    def add(self, new: HttpConnection) -> None:
        """Adds a connection. Beyond the bound another one is closed, or `new` if the daemon is busy with all others."""
        most = min(self._files_max, CONNECTIONS_MAX)
        if len(self._open) >= most:
            self._in_the_way(new).abort(f"{most} connections are open, and another one needs the place")
        if not new.is_aborted:
            self._open[new] = None

    def moved(self, connection: HttpConnection) -> None:
        """Notes that a connection has entered its next phase."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def lags(self, reader: HttpConnection) -> None:
        """Notes that a client reads too slowly. If there are too many of them, the one that lags longest is closed."""
        self._readers[reader] = None
        if len(self._readers) > READERS_MAX:
            next(iter(self._readers)).abort(f"{READERS_MAX} other clients do not read their answers either")

    def has_read(self, reader: HttpConnection) -> None:
        self._readers.pop(reader, None)

    def remove(self, connection: HttpConnection) -> None:
        self._open.pop(connection, None)
        self._readers.pop(connection, None)

    def _in_the_way(self, new: HttpConnection) -> HttpConnection:
        """The connection to close: the one without a request for longest, else one that waits for its client, else an
        endless stream, whose client resumes it."""
        without_request = (one for one in self._open if one.phase is _Phase.HEAD)
        waited_for = (one for one in self._open if one.is_waited_for)
        streams = (one for one in self._open if one.is_stream)
        return next(without_request, None) or next(waited_for, None) or next(streams, new)


class HttpConnection(H11Protocol):
    """A connection of uvicorn, with bounds."""

    def __init__(self, connections: HttpConnections, **options: Any) -> None:
        """`options` are those that uvicorn gives to every connection."""
        super().__init__(**options)
        self.all = connections
        self.phase = _Phase.HEAD
        self.is_aborted = False
        self.is_stream = False
        """Whether the present answer is an endless stream."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waited_for(self) -> bool:
        """Whether the client has to act next: to send, or to read."""
        return self.phase is _Phase.HEAD or self.cycle.more_body or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.all.add(self)
        self._enter(_Phase.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.all.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[start : start + _PIECE_BYTES])

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self.cycle.response_complete:
            self._enter(_Phase.EXCHANGE)
            self.scope[LONG_LIVED] = self._last_long  # type: ignore[literal-required]

    def on_response_complete(self) -> None:
        answered = self.cycle
        super().on_response_complete()
        if self.cycle is answered:  # otherwise the next request has arrived already
            self._await_next_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.all.lags(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.all.has_read(self)
        if self.cycle is not None and self.cycle.response_complete:
            self._await_next_request()

    def abort(self, reason: str = "") -> None:
        """Closes the connection at once; what was not read is lost. `reason`: what the client did or failed to do."""
        self.is_aborted = True
        self.all.remove(self)
        self.transport.abort()
        if reason:
            host, port, *_ = self.transport.get_extra_info("peername") or ("", "")
            self.all.tell(f"{host}:{port}", reason)

    def _last_long(self) -> None:
        """This exchange is an endless stream, which has bounds of its own: no time limit for the whole of it."""
        self.is_stream = True
        if self._timer is not None:
            self._timer.cancel()

    def _await_next_request(self) -> None:
        """Starts the time limit for the next request once this one is complete and its response has been read."""
        if not self.cycle.more_body and not self.flow.write_paused:
            self._enter(_Phase.HEAD)

    def _enter(self, phase: _Phase) -> None:
        self.phase = phase
        self.is_stream = False
        self.all.moved(self)
        if self._timer is not None:
            self._timer.cancel()
        if phase is _Phase.HEAD:
            seconds, reason = HEAD_SECONDS_MAX, f"no request came within {HEAD_SECONDS_MAX:g} s"
        else:
            seconds, reason = EXCHANGE_SECONDS_MAX, f"an exchange was not over within {EXCHANGE_SECONDS_MAX:g} s"
        self._timer = self.loop.call_later(seconds, self.abort, reason)
