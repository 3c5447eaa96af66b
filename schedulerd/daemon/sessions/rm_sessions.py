"""All sessions by rmID: which streams may open, and where responses go.

A session begins when the scheduler has accepted a registration, and ends when the scheduler drops the RM's state. Both
arrive as facts, in order with everything else, so no response to an earlier registration can reach the streams of a
later one. In between streams open and end, and responses are kept for the next stream.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Sequence

import grpc

from schedulerd.core.language.commands import AbsenceCause, DisconnectResourceManager, StopCause
from schedulerd.core.language.facts.fact import Fact, ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.daemon.sessions.open_calls import CloseReason, OpenCall, OpenStream, Refused
from schedulerd.daemon.sessions.rm_session import Post, RmSession
from schedulerd.instant import Instant
from schedulerd.wire.dialect import Dialect, Stream, update_streams
from schedulerd.wire.encode import ResponseEncoder

STOPPED_MAX = 1000
"""Number of stopped resource managers that are remembered. A forgotten one is told to register: the same effect."""

REGISTERED_AGAIN = CloseReason(
    grpc.StatusCode.ABORTED, "this rmID was registered again, which ends the streams of its earlier registration"
)

_WHY_STOPPED = {
    StopCause.RECONNECT_TIMEOUT.value: "its allocation stream was not open for longer than the reconnect timeout",
    StopCause.OUTBOX_OVERFLOW.value: "more responses were waiting than are kept for a client that does not read them",
    StopCause.CONNECTION_LOST.value: "a connection was lost with responses on their way, and the next stream came over "
    "another one (--resync-after-lost-connection)",
}


class RmSessions:
    """The sessions of all registered resource managers, and why others were stopped."""

    def __init__(
        self,
        encoder: ResponseEncoder,
        post: Post,
        *,
        outbox_bytes_max: int,
        in_doubt_seconds: float | None = None,
    ) -> None:
        """`outbox_bytes_max` and `in_doubt_seconds` are passed to every `RmSession`."""
        self._encoder = encoder
        self._post = post
        self._outbox_bytes_max = outbox_bytes_max
        self._in_doubt_seconds = in_doubt_seconds
        self._sessions: dict[str, RmSession] = {}
        self._stopped: OrderedDict[str, str] = OrderedDict()
        self._streams: set[OpenCall] = set()
        self._closed: CloseReason | None = None

    @property
    def depth(self) -> int:
        """Number of responses that wait to be sent, over all resource managers."""
        return sum(len(outbox) for session in self._sessions.values() for outbox in session.outboxes.values())

    def knows(self, rm_id: str) -> bool:
        return rm_id in self._sessions

    def dialect(self, rm_id: str) -> Dialect | None:
        """The dialect of the RM's update streams; None until it has opened one, and if it is not registered."""
        session = self._sessions.get(rm_id)
        return session.dialect if session is not None else None

    def open(self, stream: OpenCall) -> None:
        """Adds a stream that was opened. Its RM is not known before its first message."""
        self._streams.add(stream)
        if self._closed is not None:
            stream.end(self._closed)

    def over(self, stream: OpenCall) -> None:
        """Removes a stream that has ended."""
        self._streams.discard(stream)

    def attach(self, rm_id: str, kind: Stream, stream: OpenStream) -> RmSession:
        """Makes `stream` the current one of its kind; returns its session.

        The first stream of an RM decides its dialect until it registers again (SEMANTICS B1). Raises `Refused` if the
        RM is not registered, has to resync (C3 and C4), or mixes dialects.
        """
        session = self._session(rm_id)
        if session.dialect is None:
            session.dialect = kind.dialect
            self._encoder.set_dialect(rm_id, kind.dialect)
        elif session.dialect is not kind.dialect:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, _mixed(rm_id, session.dialect, kind))
        session.add(kind, stream)
        return session

    def accompany(self, rm_id: str, stream: OpenCall) -> RmSession:
        """Ends `stream`, of another service, with the RM's registration; returns the session, which it has to `leave`.

        Raises `Refused` if the RM is not registered or has to resync.
        """
        session = self._session(rm_id)
        session.accompany(stream)
        return session

    def _session(self, rm_id: str) -> RmSession:
        session = self._sessions.get(rm_id)
        if session is not None:
            return session
        if rm_id in self._stopped:
            raise Refused(grpc.StatusCode.ABORTED, self._stopped[rm_id], resync=True)
        raise Refused(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"rmID {rm_id!r} is not registered: call RegisterResourceManager and wait for its answer first",
        )

    def detach(
        self, session: RmSession, kind: Stream, stream: OpenStream, cause: AbsenceCause = AbsenceCause.GONE
    ) -> None:
        """Removes a stream that was attached to the session and has ended; `cause` is why it is no longer read."""
        current = self._sessions.get(session.rm_id)
        if current is session:
            session.remove(kind, stream, cause)
        elif current is not None and not current.connected:
            # The last command of the older session may be queued behind the new registration; this one is behind both.
            self._post(DisconnectResourceManager(session.rm_id))

    def drop(self, rm_id: str, ending: CloseReason) -> None:
        """Ends a session. Called before its RM registers again, so that none of its requests follow that."""
        session = self._sessions.pop(rm_id, None)
        if session is not None:
            session.end(ending)

    def close(self, ending: CloseReason) -> None:
        """Ends all streams, and each stream that is opened later: the daemon is shutting down."""
        self._closed = ending
        for session in self._sessions.values():
            session.suspend()
        for stream in self._streams:
            stream.end(ending)

    async def closed(self, timeout_seconds: float) -> None:
        """Waits until all streams are over, `timeout_seconds` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for stream in list(self._streams):
                    await stream.over.wait()

    def deliver(self, facts: Sequence[Fact], now: Instant) -> None:
        """A sink of the owner: turns the facts of a turn into responses, and puts each into its outbox."""
        first = 0
        for at, fact in enumerate(facts):
            if isinstance(fact, ResourceManagerChanged):
                self._encoder.add(facts[first:at], now)
                first = at + 1
                self._changed(fact)
        self._encoder.add(facts[first:] if first else facts, now)
        responses: defaultdict[str, list[tuple[Stream, bytes]]] = defaultdict(list)
        for response in self._encoder.drain():
            responses[response.rm_id].append((response.stream, response.payload))
        for rm_id, its_own in responses.items():
            session = self._sessions.get(rm_id)
            # Without a session the RM is registering again or was stopped, so earlier responses to it are void.
            if session is not None:
                session.put(its_own)

    def _changed(self, fact: ResourceManagerChanged) -> None:
        if fact.state is ResourceManagerState.INIT:
            self._encoder.forget(fact.rm_id)
            self.drop(fact.rm_id, REGISTERED_AGAIN)
            self._stopped.pop(fact.rm_id, None)
            session = RmSession(fact.rm_id, self._post, self._outbox_bytes_max, self._in_doubt_seconds)
            self._sessions[fact.rm_id] = session
        elif fact.state is ResourceManagerState.STOPPED:
            self._encoder.forget(fact.rm_id)
            self._stop(fact)
        elif fact.rm_id in self._sessions:  # an RM that is registering again has none
            self._sessions[fact.rm_id].is_placed_for = fact.state is ResourceManagerState.RUNNING

    def _stop(self, fact: ResourceManagerChanged) -> None:
        if fact.cause == StopCause.UNREGISTERED:
            self.drop(fact.rm_id, CloseReason(grpc.StatusCode.OK, "unregistered"))
            return
        reason = f"RESYNC: {_WHY_STOPPED.get(fact.cause, fact.cause)}; register again and report everything"
        self._stopped[fact.rm_id] = reason
        if len(self._stopped) > STOPPED_MAX:
            self._stopped.popitem(last=False)
        self.drop(fact.rm_id, CloseReason(grpc.StatusCode.ABORTED, reason, resync=True))


def _mixed(rm_id: str, spoken: Dialect, kind: Stream) -> str:
    return (
        f"{kind.value} is of the scheduler interface of {kind.dialect.value}, but rmID {rm_id!r} speaks that of "
        f"{spoken.value}, as the first stream it opened after registering decided: "
        f"use {', '.join(update_streams(spoken))}, or register again to change"
    )
