"""Detects that an RM may have missed responses because a connection was lost, if it does not say how far it has come.

The interface has no acknowledgements: a response that the transport took shortly before a stream was lost may have
arrived or not. A client that cancelled its call on purpose continues over the same connection, and lost nothing that it
wanted. A client whose connection broke has to use another one. So the RM has to resync if its next stream of any kind
comes from another peer, or if a stream from another peer took over before the loss of the older one was noticed.
"""

from __future__ import annotations

from schedulerd.daemon.sessions.open_calls import OpenStream


class LostConnections:
    """The lost connections of one registration."""

    def __init__(self, in_doubt_seconds: float | None) -> None:
        """What was written within `in_doubt_seconds` before a connection was lost is in doubt; None ignores losses."""
        self._in_doubt_seconds = in_doubt_seconds
        self._lost_peer: str | None = None
        """Peer of the last stream that was lost with responses in doubt; None if its connection is known to live."""

    def opened(self, stream: OpenStream) -> bool:
        """Whether the RM has to resync now that `stream` is open."""
        came_elsewhere = self._lost_peer not in (None, stream.peer)
        self._lost_peer = None
        return came_elsewhere

    def closed(self, stream: OpenStream, newest: OpenStream | None) -> bool:
        """Whether the RM has to resync now that `stream` has ended; `newest` is the open stream of the kind, if any."""
        if self._in_doubt_seconds is None or not stream.is_in_doubt(self._in_doubt_seconds):
            return False
        if newest is not None and newest.peer != stream.peer:
            return True
        if stream.is_lost:
            self._lost_peer = stream.peer
        return False
