"""The connection of one registered resource manager: its streams, and the responses that wait for them.

Two bounds keep memory in check. When an outbox is over half of its bound its RM counts as away, even if its stream is
open: none of its requests is read, so HTTP/2 flow control holds it back, and nothing is placed for it, as for
an RM that is Paused (SEMANTICS C3: Running is who is there to receive). It counts as back when no outbox is over a
quarter of its bound: with one mark for both, a slow reader would come and go with every message, and all results it is
asked for would be void each time. So an RM that sends without reading costs what was under way, and is served on when
it has read; if it has not within the reconnect timeout, or if even then an outbox grows beyond its bound, it has to
resync.
No response is ever dropped while its RM is expected to read it.

The interface has no acknowledgements, so what the transport took shortly before a stream was lost may have come or not.
A client that cancelled its call on purpose goes on over the same connection, and lost nothing that it wanted; one whose
connection broke has to come over another. That is how the two are told apart where such an RM is to resync: when its
next stream of any kind comes from another peer, or when one from another peer has taken over before the loss of the
older one was noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import grpc

from schedulerd.core.commands import (
    AbsenceCause,
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    StopCause,
    StopResourceManager,
)
from schedulerd.daemon.outbox import Outbox
from schedulerd.daemon.resumption import Taken
from schedulerd.wire.dialect import ALLOCATION_STREAMS, Dialect, Stream

Post = Callable[[Command], None]
"""Queues a command for the scheduler, in order, without waiting."""


@dataclass(frozen=True, slots=True)
class CloseReason:
    """With which status a stream is closed, and how long the responses still waiting may take to leave before that."""

    code: grpc.StatusCode
    details: str
    flush_seconds: float = 0.0
    resync: bool = False
    """Whether the RM has to register again, which a dialect may say in its own way instead of the status."""


class OpenCall(Protocol):
    """A stream of any service, which ends at the latest with the registration of its RM."""

    over: asyncio.Event
    """Set when the stream neither reads nor writes any more."""

    def end(self, ending: CloseReason) -> None:
        """Closes the stream soon; the first ending counts."""


class OpenStream(OpenCall, Protocol):
    """What a link needs of an update stream that is open on it."""

    @property
    def peer(self) -> str:
        """The client's end of the connection: its address with its port."""

    @property
    def is_lost(self) -> bool:
        """Whether the stream is over and we did not end it: its client cancelled it, or is gone."""

    def is_in_doubt(self, seconds: float) -> bool:
        """Whether its client may not have got what was written in the last seconds, and nobody can know."""

    def give_way(self) -> None:
        """A newer stream of the kind has come: read what was already sent, then close."""

    def let_read(self, allowed: bool) -> None:
        """Whether requests may be read now."""


class RmSession:
    """One registration of one resource manager."""

    def __init__(self, rm_id: str, post: Post, outbox_bytes_max: int, in_doubt_seconds: float | None = None) -> None:
        """`in_doubt_seconds`: what was written so long before a connection was lost is in doubt, and means a resync;
        None to go on without what was lost."""
        self.rm_id = rm_id
        self.dialect: Dialect | None = None
        """That of its first stream; None before."""
        self.outboxes = {kind: Outbox() for kind in Stream}
        self.taken = {kind: Taken() for kind in Stream}
        self.companions: list[OpenCall] = []
        """Streams of other services that end when this registration does."""
        self.connected = False
        """What the scheduler was told last: whether this RM is there to receive allocations."""
        self.is_placed_for = False
        """What the scheduler said last: whether it places for this RM. It hears of an absence behind all that waits."""
        self._post = post
        self._outbox_bytes_max = outbox_bytes_max
        self._in_doubt_seconds = in_doubt_seconds
        self._lost_peer: str | None = None
        """Of the last stream that was lost with responses in doubt; None if its connection is known to live."""
        self._streams: dict[Stream, list[OpenStream]] = {kind: [] for kind in Stream}
        """Of each kind the open streams, oldest first: the last one is current, the others are giving way."""
        self._why_closed = dict.fromkeys(Stream, AbsenceCause.NOBODY_READS)
        """Of each kind why its last stream has ended."""
        self._keeps_up = True
        self._suspended = False
        self._is_stopping = False

    def add(self, kind: Stream, stream: OpenStream) -> None:
        """Makes `stream` the current one of its kind; those `before` it give way."""
        if self._lost_peer not in (None, stream.peer):
            self._stop(StopCause.CONNECTION_LOST)
        self._lost_peer = None
        streams = self._streams[kind]
        if streams:
            streams[-1].give_way()
        streams.append(stream)
        stream.let_read(self._keeps_up)
        self._tell_scheduler()

    def before(self, kind: Stream, stream: OpenStream) -> OpenStream | None:
        """The one that has to end before `stream` may begin, or None. When it has ended there may be another, if it had
        waited for its own turn."""
        streams = self._streams[kind]
        at = streams.index(stream)
        return streams[at - 1] if at else None

    def remove(self, kind: Stream, stream: OpenStream, cause: AbsenceCause) -> None:
        """The stream has ended; `cause` is why nobody reads it any more."""
        self._streams[kind].remove(stream)
        self._why_closed[kind] = cause
        if self._in_doubt_seconds is not None and stream.is_in_doubt(self._in_doubt_seconds):
            self._doubt(kind, stream)
        self._tell_scheduler()

    def _doubt(self, kind: Stream, stream: OpenStream) -> None:
        """`stream` has ended, and its client may not have got all."""
        newer = self._streams[kind]
        if newer and newer[-1].peer != stream.peer:
            self._stop(StopCause.CONNECTION_LOST)
        elif stream.is_lost:
            self._lost_peer = stream.peer

    def suspend(self) -> None:
        """Has nothing placed any more, so that what waits can be sent to the end."""
        self._suspended = True
        self._tell_scheduler()

    def end(self, ending: CloseReason) -> None:
        """Ends all streams, and the registration with them: what waits is void."""
        self._clear()
        for streams in self._streams.values():
            for stream in streams:
                stream.end(ending)
        for companion in self.companions:
            companion.end(ending)

    def put(self, responses: Sequence[tuple[Stream, bytes]]) -> None:
        """Keeps the responses of one turn, each for the stream of its kind.

        Too many stop the RM, but not those of the turn that makes it fall behind, nor what is placed for it before the
        scheduler knows of that: who reads is not punished for one request with a large answer.
        """
        if self._is_stopping:
            return
        for kind, payload in responses:
            self.outboxes[kind].put(payload)
        largest = max(outbox.size_bytes for outbox in self.outboxes.values())
        if largest > self._outbox_bytes_max and not self._keeps_up and not self.is_placed_for:
            self._stop(StopCause.OUTBOX_OVERFLOW)
        else:
            self.regulate()

    def regulate(self) -> None:
        """Slows the RM down or lets it go on, after an outbox has grown or shrunk."""
        mark_bytes = self._outbox_bytes_max // (2 if self._keeps_up else 4)
        keeps_up = all(outbox.size_bytes <= mark_bytes for outbox in self.outboxes.values())
        if keeps_up != self._keeps_up:
            self._keeps_up = keeps_up
            for streams in self._streams.values():
                if streams:
                    streams[-1].let_read(keeps_up)
            self._tell_scheduler()

    def _stop(self, cause: StopCause) -> None:
        """Nothing is kept for this registration from then on: with a gap it would mislead."""
        self._clear()
        if not self._is_stopping:
            self._is_stopping = True
            self._post(StopResourceManager(self.rm_id, cause))

    def _clear(self) -> None:
        for outbox in self.outboxes.values():
            outbox.clear()

    def _tell_scheduler(self) -> None:
        absence = self._absence()
        is_there = absence is None
        if is_there != self.connected and not self._is_stopping:  # then it is being stopped, which says it all
            self.connected = is_there
            self._post(
                ConnectResourceManager(self.rm_id)
                if absence is None
                else DisconnectResourceManager(self.rm_id, absence)
            )

    def _absence(self) -> AbsenceCause | None:
        """Why the RM is not there to receive allocations; None if it is."""
        if self._suspended:
            return AbsenceCause.SHUTDOWN
        if self.dialect is None:
            return AbsenceCause.NOBODY_READS
        kind = ALLOCATION_STREAMS[self.dialect]
        if not self._streams[kind]:
            return self._why_closed[kind]
        return None if self._keeps_up else AbsenceCause.READS_TOO_SLOWLY
