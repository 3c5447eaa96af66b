"""All links, by rmID: which streams may open, and where the responses go.

A link begins when the scheduler has taken a registration and ends when it drops the RM's state. Both are heard as
facts, in order with everything else, so nothing of an earlier registration can reach the streams of a later one. In
between streams come and go, and responses are kept for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, defaultdict
from collections.abc import Sequence

import grpc

from schedulerd.core.commands import AbsenceCause, DisconnectResourceManager, StopCause
from schedulerd.core.facts import Fact, ResourceManagerChanged
from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.daemon.identity import EVERYBODY, Identities, Peer
from schedulerd.daemon.refusals import Refusals
from schedulerd.daemon.rm_session import CloseReason, OpenCall, OpenStream, Post, RmSession
from schedulerd.daemon.shares import Shared
from schedulerd.instant import Instant
from schedulerd.wire.dialect import Dialect, Stream, update_streams
from schedulerd.wire.encode import ResponseEncoder

RM_ID_LENGTH_MAX = 256

STOPPED_MAX = 1000
"""Stopped resource managers that are remembered; a forgotten one is told to register, which comes to the same."""

REGISTERED_AGAIN = CloseReason(
    grpc.StatusCode.ABORTED, "this rmID was registered again, which ends the streams of its earlier registration"
)

_WHY_STOPPED = {
    StopCause.RECONNECT_TIMEOUT.value: "nobody read its allocations for longer than the reconnect timeout",
    StopCause.OUTBOX_OVERFLOW.value: "more responses were waiting than are kept for a client that does not read them",
    StopCause.CONNECTION_LOST.value: "a connection was lost with responses on their way, and the next stream came over "
    "another one (--resync-after-lost-connection)",
}


class Refused(Exception):
    """A stream cannot go on; `ending` is what its client is told."""

    def __init__(self, code: grpc.StatusCode, details: str, *, resync: bool = False) -> None:
        super().__init__(details)
        self.ending = CloseReason(code, details, resync=resync)


def rm_id_problem(rm_id: str) -> str | None:
    """Why this cannot be the id of a resource manager, or None. It stands in logs, metrics and status messages."""
    if not rm_id.strip():
        return "rmID: is empty; a resource manager names itself by a unique id"
    if len(rm_id) > RM_ID_LENGTH_MAX or not rm_id.isprintable():
        return f"rmID: has {len(rm_id)} characters; it must be printable and have at most {RM_ID_LENGTH_MAX}"
    return None


class RmSessions:
    """The links of all registered resource managers, and the memory of those that were stopped."""

    def __init__(
        self,
        encoder: ResponseEncoder,
        post: Post,
        *,
        outbox_bytes_max: int,
        in_doubt_seconds: float | None = None,
        identities: Identities = EVERYBODY,
        refusals: Refusals | None = None,
        calls_max: int = 1_000_000,
    ) -> None:
        """`outbox_bytes_max` and `in_doubt_seconds` are those of every `RmSession`; `calls_max` is the server's."""
        self._calls = Shared(calls_max, "streams are open")
        self.identities = identities
        """Whose streams these may be."""
        self.refusals = Refusals() if refusals is None else refusals
        """To be told of streams that are ended with an error."""
        self._encoder = encoder
        self._post = post
        self._outbox_bytes_max = outbox_bytes_max
        self._in_doubt_seconds = in_doubt_seconds
        self._links: dict[str, RmSession] = {}
        self._stopped: OrderedDict[str, str] = OrderedDict()
        self._streams: set[OpenCall] = set()
        self._closed: CloseReason | None = None

    @property
    def depth(self) -> int:
        """Responses that wait to be sent, over all resource managers."""
        return sum(len(outbox) for link in self._links.values() for outbox in link.outboxes.values())

    def knows(self, rm_id: str) -> bool:
        return rm_id in self._links

    def dialect(self, rm_id: str) -> Dialect | None:
        """What this RM speaks on its update streams; None until it has opened one, and if it is not registered."""
        link = self._links.get(rm_id)
        return link.dialect if link is not None else None

    def open(self, stream: OpenCall) -> None:
        """A stream was opened; whose it is will be known from its first message."""
        self._streams.add(stream)
        if self._closed is not None:
            stream.end(self._closed)

    def share(self, peer: Peer) -> contextlib.AbstractContextManager[None]:
        """A stream's part in all calls, for as long as it is open. Raises `NoneLeft` where clients are known."""
        client = self.identities.client(peer, "")
        return self._calls.held(client) if client else contextlib.nullcontext()

    def attach(self, rm_id: str, kind: Stream, stream: OpenStream) -> RmSession:
        """Makes `stream` the current one of its kind; gives its link.

        Its first stream decides which dialect an RM speaks until it registers again (SEMANTICS B1). Raises `Refused` if
        it is not registered, has to resync (C3 and C4), or mixes dialects.
        """
        link = self._link(rm_id)
        if link.dialect is None:
            link.dialect = kind.dialect
            self._encoder.set_dialect(rm_id, kind.dialect)
        elif link.dialect is not kind.dialect:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, _mixed(rm_id, link.dialect, kind))
        link.add(kind, stream)
        return link

    def accompany(self, rm_id: str, stream: OpenCall) -> RmSession:
        """Lets a stream of another service end with the RM's registration; `leave` is to be called when it is over.

        Raises `Refused` as `attach` does.
        """
        link = self._link(rm_id)
        link.companions.append(stream)
        return link

    def leave(self, link: RmSession | None, stream: OpenCall) -> None:
        """`stream` has ended, whoever ended it; `link` is None if it never got that far."""
        self._streams.discard(stream)
        if link is not None:
            link.companions.remove(stream)

    def _link(self, rm_id: str) -> RmSession:
        link = self._links.get(rm_id)
        if link is not None:
            return link
        if rm_id in self._stopped:
            raise Refused(grpc.StatusCode.ABORTED, self._stopped[rm_id], resync=True)
        raise Refused(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"rmID {rm_id!r} is not registered: call RegisterResourceManager and wait for its answer first",
        )

    def detach(
        self, link: RmSession | None, kind: Stream, stream: OpenStream, cause: AbsenceCause = AbsenceCause.GONE
    ) -> None:
        """`stream` has ended, whoever ended it; `link` is None if it never got that far."""
        self._streams.discard(stream)
        if link is None:
            return
        current = self._links.get(link.rm_id)
        if current is link:
            link.remove(kind, stream, cause)
        elif current is not None and not current.connected:
            # What the older link said last may have been queued behind the new registration; this is behind both.
            self._post(DisconnectResourceManager(link.rm_id))

    def drop(self, rm_id: str, ending: CloseReason) -> None:
        """Ends a link. Called before its RM registers anew, so that none of its old requests comes after that."""
        link = self._links.pop(rm_id, None)
        if link is not None:
            link.end(ending)

    def close(self, ending: CloseReason) -> None:
        """Ends all streams, and every one that is opened later: the daemon is shutting down."""
        self._closed = ending
        for link in self._links.values():
            link.suspend()
        for stream in self._streams:
            stream.end(ending)

    async def closed(self, timeout_seconds: float) -> None:
        """Returns when all streams are over, or after the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for stream in list(self._streams):
                    await stream.over.wait()

    def deliver(self, facts: Sequence[Fact], now: Instant) -> None:
        """Turns the facts of a turn into responses and puts each into the outbox it belongs to. A sink of the owner."""
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
            link = self._links.get(rm_id)
            # Without a link its RM is registering anew or was stopped, and what was said to it before is void.
            if link is not None:
                link.put(its_own)

    def _changed(self, fact: ResourceManagerChanged) -> None:
        if fact.state is ResourceManagerState.INIT:
            self._encoder.forget(fact.rm_id)
            self.drop(fact.rm_id, REGISTERED_AGAIN)
            self._stopped.pop(fact.rm_id, None)
            self._links[fact.rm_id] = RmSession(fact.rm_id, self._post, self._outbox_bytes_max, self._in_doubt_seconds)
        elif fact.state is ResourceManagerState.STOPPED:
            self._encoder.forget(fact.rm_id)
            self._stop(fact)
        elif fact.rm_id in self._links:  # not if its RM is registering anew
            self._links[fact.rm_id].is_placed_for = fact.state is ResourceManagerState.RUNNING

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
