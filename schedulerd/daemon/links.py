"""What the daemon knows of each resource manager's connection: its streams, and the responses that wait for them.

A link begins when the scheduler has taken a registration and ends when it drops the RM's state. Both are heard as
facts, in order with everything else, so nothing of an earlier registration can reach the streams of a later one. In
between streams come and go, and responses are kept for the next one. The scheduler is told when the stream that carries
the allocations comes and goes, which is what makes the RM Running or Paused (SEMANTICS C3).

Two bounds keep memory in check. Over half of `outbox_bytes_max` the RM's requests are no longer read, so that HTTP/2
flow control holds back an RM that sends and does not read. What the scheduler goes on to place by itself may still fill
the other half; then the RM has to resync. No response is ever dropped while its RM is expected to read it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import grpc
import structlog

from schedulerd.core.commands import (
    Command,
    ConnectResourceManager,
    DisconnectResourceManager,
    StopCause,
    StopResourceManager,
)
from schedulerd.core.facts import Fact, ResourceManagerChanged
from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.daemon.outbox import Outbox
from schedulerd.wire.encode import Response, ResponseEncoder, Stream

STOPPED_MAX = 1000
"""Stopped resource managers that are remembered; a forgotten one is told to register, which comes to the same."""

log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """With which status a stream is closed, and how long the responses still waiting may take to leave before that."""

    code: grpc.StatusCode
    details: str
    flush_seconds: float = 0.0


class Refused(Exception):
    """A stream cannot be opened; `ending` is what its client is told."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.ending = Ending(code, details)


class OpenStream(Protocol):
    """What a link needs of a stream that is open on it."""

    over: asyncio.Event
    """Set when the stream neither reads nor writes any more."""

    def end(self, ending: Ending) -> None:
        """Closes the stream soon; the first ending counts."""

    def give_way(self) -> None:
        """A newer stream of the kind has come: read what was already sent, then close."""

    def let_read(self, allowed: bool) -> None:
        """Whether requests may be read now."""


class Link:
    """One registration of one resource manager."""

    def __init__(self, rm_id: str, outbox_bytes_max: int) -> None:
        self.rm_id = rm_id
        self.outboxes = {kind: Outbox() for kind in Stream}
        self.streams: dict[Stream, list[OpenStream]] = {kind: [] for kind in Stream}
        """Of each kind the open streams, oldest first: the last one is current, the others are giving way."""
        self._overflowed = False
        self._outbox_bytes_max = outbox_bytes_max
        self._reading = True

    def put(self, kind: Stream, payload: bytes) -> bool:
        """Keeps a response for the stream of its kind; False if that is one too many, and the RM has to resync.

        After that nothing is kept for this registration any more, because with a gap the rest would mislead.
        """
        if self._overflowed:
            return True
        outbox = self.outboxes[kind]
        outbox.put(payload)
        self._overflowed = outbox.size_bytes > self._outbox_bytes_max
        if self._overflowed:
            for outbox in self.outboxes.values():
                outbox.clear()
        self.regulate()
        return not self._overflowed

    def regulate(self) -> None:
        """Stops or resumes reading this RM's requests after its outboxes have grown or shrunk."""
        reading = all(outbox.size_bytes <= self._outbox_bytes_max // 2 for outbox in self.outboxes.values())
        if reading != self._reading:
            self._reading = reading
            for streams in self.streams.values():
                if streams:
                    streams[-1].let_read(reading)

    def add(self, kind: Stream, stream: OpenStream) -> OpenStream | None:
        """Makes `stream` the current one of its kind; gives the one it takes over from."""
        streams = self.streams[kind]
        older = streams[-1] if streams else None
        if older is not None:
            older.give_way()
        streams.append(stream)
        stream.let_read(self._reading)
        return older

    def end(self, ending: Ending) -> None:
        for streams in self.streams.values():
            for stream in streams:
                stream.end(ending)


class Links:
    """All links, by rmID. `post` queues a command for the scheduler without waiting."""

    def __init__(self, encoder: ResponseEncoder, post: Callable[[Command], None], *, outbox_bytes_max: int) -> None:
        self._encoder = encoder
        self._post = post
        self._outbox_bytes_max = outbox_bytes_max
        self._links: dict[str, Link] = {}
        self._stopped: OrderedDict[str, str] = OrderedDict()
        self._streams: set[OpenStream] = set()
        self._closed: Ending | None = None

    @property
    def depth(self) -> int:
        """Responses that wait to be sent, over all resource managers."""
        return sum(len(outbox) for link in self._links.values() for outbox in link.outboxes.values())

    def knows(self, rm_id: str) -> bool:
        return rm_id in self._links

    def open(self, stream: OpenStream) -> None:
        """A stream was opened; whose it is will be known from its first message."""
        self._streams.add(stream)
        if self._closed is not None:
            stream.end(self._closed)

    def attach(self, rm_id: str, kind: Stream, stream: OpenStream) -> tuple[Link, OpenStream | None]:
        """Makes `stream` the current one of its kind; gives its link and the stream it takes over from, if any.

        Raises `Refused` if the RM is not registered or has to resync.
        """
        link = self._links.get(rm_id)
        if link is None:
            if rm_id in self._stopped:
                raise Refused(grpc.StatusCode.ABORTED, self._stopped[rm_id])
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"rmID {rm_id!r} is not registered: call RegisterResourceManager and wait for its answer first",
            )
        older = link.add(kind, stream)
        if kind is Stream.ALLOCATION and len(link.streams[kind]) == 1:
            self._post(ConnectResourceManager(rm_id))
        return link, older

    def detach(self, link: Link | None, kind: Stream, stream: OpenStream) -> None:
        """`stream` has ended, whoever ended it; `link` is None if it never got that far."""
        self._streams.discard(stream)
        if link is None:
            return
        link.streams[kind].remove(stream)
        current = self._links.get(link.rm_id)
        # Also asked of a newer link: a Connect of the older one may have been queued behind the new registration.
        if kind is Stream.ALLOCATION and current is not None and not current.streams[kind] and self._closed is None:
            self._post(DisconnectResourceManager(link.rm_id))

    def drop(self, rm_id: str, ending: Ending) -> None:
        """Ends the link before its RM registers anew: from here on none of its old requests reaches the inbox."""
        link = self._links.pop(rm_id, None)
        if link is not None:
            link.end(ending)

    def close(self, ending: Ending) -> None:
        """Ends all streams, and every one that is opened later: the daemon is shutting down."""
        self._closed = ending
        for stream in self._streams:
            stream.end(ending)

    async def closed(self, timeout_seconds: float) -> None:
        """Returns when all streams are over, or after the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for stream in list(self._streams):
                    await stream.over.wait()

    def deliver(self, facts: Sequence[Fact], _now_ns: int) -> None:
        """Turns the facts of a turn into responses and puts each into the outbox it belongs to. A sink of the owner."""
        first = 0
        for at, fact in enumerate(facts):
            if isinstance(fact, ResourceManagerChanged):
                self._encoder.add(facts[first:at])
                first = at + 1
                self._changed(fact)
        self._encoder.add(facts[first:] if first else facts)
        for response in self._encoder.drain():
            self._put(response)

    def _changed(self, fact: ResourceManagerChanged) -> None:
        if fact.state is ResourceManagerState.INIT:
            self._encoder.forget(fact.rm_id)
            self.drop(fact.rm_id, REGISTERED_AGAIN)
            self._stopped.pop(fact.rm_id, None)
            self._links[fact.rm_id] = Link(fact.rm_id, self._outbox_bytes_max)
        elif fact.state is ResourceManagerState.STOPPED:
            self._encoder.forget(fact.rm_id)
            self._stop(fact)

    def _stop(self, fact: ResourceManagerChanged) -> None:
        if fact.cause == StopCause.UNREGISTERED:
            self.drop(fact.rm_id, Ending(grpc.StatusCode.OK, "unregistered"))
            return
        reason = f"RESYNC: {_WHY_STOPPED.get(fact.cause, fact.cause)}; register again and report everything"
        self._stopped[fact.rm_id] = reason
        while len(self._stopped) > STOPPED_MAX:
            self._stopped.popitem(last=False)
        self.drop(fact.rm_id, Ending(grpc.StatusCode.ABORTED, reason))

    def _put(self, response: Response) -> None:
        link = self._links.get(response.rm_id)
        if link is None:
            return  # its RM registers anew or was stopped: what was said to the earlier registration is void
        if not link.put(response.stream, response.payload):
            log.warning("outbox_overflow", rm_id=response.rm_id, stream=response.stream.value)
            self._post(StopResourceManager(response.rm_id, StopCause.OUTBOX_OVERFLOW))


REGISTERED_AGAIN = Ending(
    grpc.StatusCode.ABORTED, "this rmID was registered again, which ends the streams of its earlier registration"
)

_WHY_STOPPED = {
    StopCause.RECONNECT_TIMEOUT.value: "the UpdateAllocation stream was not open for longer than the reconnect timeout",
    StopCause.OUTBOX_OVERFLOW.value: "more responses were waiting than are kept for a client that does not read them",
}
