"""One registration of one resource manager: its streams, its outboxes, and whether the RM is connected.

The newest stream of each kind is the current one; it supersedes older ones. An RM is connected while the stream of its
allocations is open and the RM keeps up with its responses (`back_pressure`). It has to register again when too many
responses wait for it, or when it may have missed some (`lost_connections`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedulerd.core.language.commands import (
    AbsenceCause,
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    StopCause,
    StopResourceManager,
)
from schedulerd.daemon.sessions.back_pressure import Backlog
from schedulerd.daemon.sessions.lost_connections import LostConnections
from schedulerd.daemon.sessions.open_calls import CloseReason, OpenCall, OpenStream
from schedulerd.daemon.sessions.outbox import Outbox
from schedulerd.daemon.sessions.resumption import Position, Taken, resume
from schedulerd.wire.dialect import ALLOCATION_STREAMS, Dialect, Stream

Post = Callable[[Command], None]
"""Queues a command for the scheduler, in order, without waiting."""


class RmSession:
    """One registration of one resource manager."""

    def __init__(self, rm_id: str, post: Post, outbox_bytes_max: int, in_doubt_seconds: float | None = None) -> None:
        """A response sent within `in_doubt_seconds` before a lost connection is in doubt, and requires a resync.

        None ignores lost responses.
        """
        self.rm_id = rm_id
        self.dialect: Dialect | None = None
        """The dialect of its first stream; None before that."""
        # The end of an application and the acceptance of the next one of its id stay apart.
        self.outboxes = {kind: Outbox(joins=kind is not Stream.APPLICATION) for kind in Stream}
        self.connected = False
        """Whether the RM can receive allocations, as the scheduler was told last."""
        self.is_placed_for = False
        """Whether the scheduler allocates for this RM, as it said last. A newer absence may still be in the inbox."""
        self._post = post
        self._taken = {kind: Taken() for kind in Stream}
        self._backlog = Backlog(self.outboxes.values(), outbox_bytes_max)
        self._lost_connections = LostConnections(in_doubt_seconds)
        self._companions: list[OpenCall] = []
        """Streams of other services, which end with this registration."""
        self._streams: dict[Stream, list[OpenStream]] = {kind: [] for kind in Stream}
        """By kind, the open streams, oldest first: the last one is current, the others are superseded."""
        self._why_closed = dict.fromkeys(Stream, AbsenceCause.STREAM_NOT_OPEN)
        """By kind, why its last stream has ended."""
        self._suspended = False
        self._is_stopping = False

    def add(self, kind: Stream, stream: OpenStream) -> None:
        """Makes `stream` the current one of its kind; older ones are superseded."""
        if self._lost_connections.opened(stream):
            self._stop(StopCause.CONNECTION_LOST)
        streams = self._streams[kind]
        if streams:
            streams[-1].supersede()
        streams.append(stream)
        stream.let_read(self._backlog.keeps_up)
        self._tell_scheduler()

    def before(self, kind: Stream, stream: OpenStream) -> OpenStream | None:
        """The older stream that has to end before `stream` may begin; None if there is none. When it has ended there
        may be another one, for which it was waiting itself."""
        streams = self._streams[kind]
        at = streams.index(stream)
        return streams[at - 1] if at else None

    def remove(self, kind: Stream, stream: OpenStream, cause: AbsenceCause) -> None:
        """Removes a stream that has ended; `cause` is why it is no longer read."""
        streams = self._streams[kind]
        streams.remove(stream)
        self._why_closed[kind] = cause
        if self._lost_connections.closed(stream, streams[-1] if streams else None):
            self._stop(StopCause.CONNECTION_LOST)
        self._tell_scheduler()

    def accompany(self, stream: OpenCall) -> None:
        """Ends `stream`, of another service, with this registration, unless it leaves before."""
        self._companions.append(stream)

    def leave(self, stream: OpenCall) -> None:
        """Removes a stream of another service that has ended."""
        self._companions.remove(stream)

    def resume(self, kind: Stream, position: Position | None) -> Taken:
        """Continues a stream of the kind at the client's position; returns the counter of requests after the first one.

        Raises `Refused` if the stream cannot continue there.
        """
        return resume(position, self.outboxes[kind], self._taken[kind])

    def suspend(self) -> None:
        """Stops allocations for the RM, so that the responses that wait can all be sent."""
        self._suspended = True
        self._tell_scheduler()

    def end(self, ending: CloseReason) -> None:
        """Ends the registration and all its streams. Responses that wait are dropped."""
        self._clear()
        for streams in self._streams.values():
            for stream in streams:
                stream.end(ending)
        for companion in self._companions:
            companion.end(ending)

    def put(self, responses: Sequence[tuple[Stream, bytes]]) -> None:
        """Adds the responses of one turn to the outboxes.

        Too many responses stop the RM, except those of the turn in which it falls behind, and those that follow until
        the scheduler knows of that: a client that reads is not punished for one request with a large answer.
        """
        if self._is_stopping:
            return
        for kind, payload in responses:
            self.outboxes[kind].put(payload)
        if self._backlog.is_too_large and not self.is_placed_for:
            self._stop(StopCause.OUTBOX_OVERFLOW)
        else:
            self.regulate()

    def regulate(self) -> None:
        """Pauses or resumes the RM after an outbox has grown or shrunk."""
        if self._backlog.regulate():
            for streams in self._streams.values():
                if streams:
                    streams[-1].let_read(self._backlog.keeps_up)
            self._tell_scheduler()

    def _stop(self, cause: StopCause) -> None:
        """Stops the RM. From now on no responses are kept: with a gap they would mislead the RM."""
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
        if is_there != self.connected and not self._is_stopping:  # otherwise StopResourceManager says it all
            self.connected = is_there
            self._post(
                ConnectResourceManager(self.rm_id)
                if absence is None
                else DisconnectResourceManager(self.rm_id, absence)
            )

    def _absence(self) -> AbsenceCause | None:
        """Why the RM cannot receive allocations; None if it can."""
        if self._suspended:
            return AbsenceCause.SHUTDOWN
        if self.dialect is None:
            return AbsenceCause.STREAM_NOT_OPEN
        kind = ALLOCATION_STREAMS[self.dialect]
        if not self._streams[kind]:
            return self._why_closed[kind]
        return None if self._backlog.keeps_up else AbsenceCause.READS_SLOWLY
