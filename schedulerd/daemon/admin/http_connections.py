"""Connections of uvicorn with bounds, and how many clients may lag behind what is written to them.

uvicorn itself bounds only the pause between two requests (`IDLE_SECONDS_MAX`).
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from schedulerd.http_connections import BoundedConnection, OpenConnections, Phase, Tell

CONNECTIONS_MAX = 200
"""Maximum number of open connections; at most a fifth of the limit of open files."""

IDLE_SECONDS_MAX = 5
"""How long a connection may be silent after a response."""

READERS_MAX = 10
"""Maximum number of connections whose clients have not read what was written. The texts for them stay in memory."""

LONG_LIVED = "schedulerd.long_lived"
"""In the scope of a request: a function that takes the time limit of an exchange from its connection."""

HEAD_BYTES_MAX = 8192
"""Maximum size of the request line and the headers."""

_PIECE_BYTES = 1024
"""Bytes are parsed in pieces of this size: the parser checks the size of headers only while they are incomplete."""


class HttpConnections(OpenConnections):
    """The open connections of the port."""

    def __init__(self, tell: Tell = lambda _peer, _reason: None) -> None:
        super().__init__(CONNECTIONS_MAX, of=5, tell=tell)
        self._readers: dict[BoundedConnection, None] = {}

    def lags(self, reader: HttpConnection) -> None:
        """Notes that a client reads too slowly. If there are too many of them, the one that lags longest is closed."""
        self._readers[reader] = None
        if len(self._readers) > READERS_MAX:
            next(iter(self._readers)).abort(f"{READERS_MAX} other clients do not read their answers either")

    def has_read(self, reader: HttpConnection) -> None:
        """Notes that a client has read all."""
        self._readers.pop(reader, None)

    def remove(self, connection: BoundedConnection) -> None:
        super().remove(connection)
        self._readers.pop(connection, None)


class HttpConnection(BoundedConnection, H11Protocol):
    """A connection of uvicorn, with bounds."""

    def __init__(self, connections: HttpConnections, **options: Any) -> None:
        """`options` are those that uvicorn gives to every connection."""
        H11Protocol.__init__(self, **options)
        BoundedConnection.__init__(self, connections)
        self._port = connections

    @property
    def is_waited_for(self) -> bool:
        return self.phase is Phase.HEAD or self.cycle.more_body or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.opened(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed()
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
            self.enter(Phase.EXCHANGE)
            self.scope[LONG_LIVED] = self._last_long  # type: ignore[literal-required]

    def on_response_complete(self) -> None:
        answered = self.cycle
        super().on_response_complete()
        if self.cycle is answered:  # otherwise the next request has arrived already
            self._await_next_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._port.lags(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._port.has_read(self)
        if self.cycle is not None and self.cycle.response_complete:
            self._await_next_request()

    def _last_long(self) -> None:
        """This exchange is an endless stream, which has bounds of its own: no time limit for the whole of it."""
        self.is_stream = True
        self.unbound()

    def _await_next_request(self) -> None:
        """Starts the time limit for the next request once this one is complete and its response has been read."""
        if not self.cycle.more_body and not self.flow.write_paused:
            self.enter(Phase.HEAD)
