"""Bounds the connections of an HTTP port: their number, and how long each may keep the process waiting.

A connection costs a file descriptor. When there are too many, a new connection replaces the one that has kept the
process waiting longest, so a probe gets through however many clients are silent. Which library serves the port does not
matter here: its connections are told what happens to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import TypeAlias

from schedulerd.open_files import share

HEAD_SECONDS_MAX = 10.0
"""How long a connection may take to send the request line and the headers, from its start or the last response on."""

EXCHANGE_SECONDS_MAX = 60.0
"""How long it may take from the headers of a request until the client has read the response. This includes the time of
the process for the response (a state query waits for its turn), and the client's to send the body and to read."""

Tell: TypeAlias = Callable[[str, str], None]
"""Called for a connection that was closed before its client was done: the client's address, and the reason."""


class Phase(Enum):
    """Whether a connection waits for a request or serves one."""

    HEAD = auto()
    """The next request has not arrived."""
    EXCHANGE = auto()
    """A request has arrived, and its response has not been read."""


class OpenConnections:
    """The open connections of a port; the one that has been in its phase longest is first."""

    def __init__(self, most: int, of: int, tell: Tell = lambda _peer, _reason: None) -> None:
        """At most `most`, and 1 of `of` of the files that the process may open."""
        self.tell = tell
        self._most = share(of, most)
        self._open: dict[BoundedConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def abort(self) -> None:
        """Closes all connections at once; what was not read is lost."""
        for connection in list(self._open):
            connection.abort()

    def add(self, new: BoundedConnection) -> None:
        """Adds a connection. Beyond the bound another one is closed, or `new` if the process is busy with all."""
        if len(self._open) >= self._most:
            self._in_the_way(new).abort(f"{self._most} connections are open, and another one needs the place")
        if not new.is_aborted:
            self._open[new] = None

    def moved(self, connection: BoundedConnection) -> None:
        """Notes that a connection has entered its next phase."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def remove(self, connection: BoundedConnection) -> None:
        self._open.pop(connection, None)

    def _in_the_way(self, new: BoundedConnection) -> BoundedConnection:
        """The connection to close: the one without a request for longest, else one that waits for its client, else an
        endless stream, whose client resumes it."""
        without_request = (one for one in self._open if one.phase is Phase.HEAD)
        waited_for = (one for one in self._open if one.is_waited_for)
        streams = (one for one in self._open if one.is_stream)
        return next(without_request, None) or next(waited_for, None) or next(streams, new)


class BoundedConnection:
    """A base of connections of any library, which call `opened`, `enter` and `closed`."""

    phase = Phase.HEAD
    is_aborted = False
    is_stream = False
    """Whether the present answer is an endless stream."""
    _limit: asyncio.TimerHandle | None = None
    _bounded: asyncio.WriteTransport | None = None

    def __init__(self, connections: OpenConnections) -> None:
        self.all = connections

    @property
    def is_waited_for(self) -> bool:
        """Whether the client has to act next: to send, or to read."""
        return True

    def opened(self, transport: asyncio.WriteTransport) -> None:
        """The client has connected."""
        self._bounded = transport
        self.all.add(self)
        self.enter(Phase.HEAD)

    def closed(self) -> None:
        """The connection is no more."""
        self._bounded = None
        self.unbound()
        self.all.remove(self)

    def abort(self, reason: str = "") -> None:
        """Closes the connection at once; what was not read is lost. `reason`: what the client did or failed to do."""
        self.is_aborted = True
        self.all.remove(self)
        if self._bounded is None:
            return
        self._bounded.abort()
        if reason:
            host, port, *_ = self._bounded.get_extra_info("peername") or ("", "")
            self.all.tell(f"{host}:{port}", reason)

    def enter(self, phase: Phase) -> None:
        """The next phase begins, with its time limit."""
        self.phase = phase
        self.is_stream = False
        self.all.moved(self)
        self.unbound()
        if self._bounded is None:
            return
        if phase is Phase.HEAD:
            seconds, reason = HEAD_SECONDS_MAX, f"no request came within {HEAD_SECONDS_MAX:g} s"
        else:
            seconds, reason = EXCHANGE_SECONDS_MAX, f"an exchange was not over within {EXCHANGE_SECONDS_MAX:g} s"
        self._limit = asyncio.get_running_loop().call_later(seconds, self.abort, reason)

    def unbound(self) -> None:
        """Takes the time limit from the present phase."""
        if self._limit is not None:
            self._limit.cancel()
