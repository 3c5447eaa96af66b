"""Who of the resource managers can be called back, and how everybody else calls them.

The way in for the rest of the daemon: facts come in as a sink of the owner, event records by `send_events`, an
operator's wish for a state dump by `state_dump`. An RM without a callback stream is none of their business: what is for
it is dropped.

The scheduler hears of a stream's end a moment later. When a connection breaks, all streams of its RM end, and were this
one the first to be noticed, its asks would be placed without its say before anybody knows that it is not there at all;
and an RM that comes back at once has missed nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import grpc

from schedulerd.core.callback_facts import (
    PredicateNotWanted,
    PredicateWanted,
    PreemptionPredicateWanted,
    SchedulingStateChanged,
)
from schedulerd.core.commands import DisconnectCallbacks
from schedulerd.core.facts import Fact
from schedulerd.daemon.callback_stream import CallbackStream
from schedulerd.daemon.calls import Calls, NoStateDump
from schedulerd.daemon.rm_session import CloseReason, Post
from schedulerd.daemon.rm_sessions import RmSessions
from schedulerd.instant import Instant
from schedulerd.observe.callback_tally import CallbackTally
from schedulerd.wire.callback import EventMessage, InterfaceVersion

GRACE_SECONDS = 1.0
"""From the end of a stream to when asks of its RM are placed without its say."""

_TAKEN_OVER = CloseReason(grpc.StatusCode.OK, "a newer stream of this RM has taken over")


class Cancellable(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None: ...


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Cancellable]


class Callbacks:
    """The callback stream of each RM that has one; at most one each."""

    def __init__(self, links: RmSessions, post: Post, tally: CallbackTally, call_later: CallLater) -> None:
        """`post` queues a command for the scheduler; `call_later` is the loop's."""
        self._links = links
        self._post = post
        self._tally = tally
        self.listeners_changed = asyncio.Event()
        """Set when `event_listeners` may not be what they were; whoever waits for it clears it."""
        self._streams: dict[str, CallbackStream] = {}
        self._leaving: dict[str, Cancellable] = {}
        """Of RMs whose stream has ended, and the scheduler has not heard of it yet."""
        self._call_later = call_later

    def took_over(self, rm_id: str, stream: CallbackStream) -> None:
        """`stream` is the one of its RM from now on. What was asked on an older one is void (`ConnectCallbacks`)."""
        older = self._streams.get(rm_id)
        if older is not None:
            older.end(_TAKEN_OVER)
        leaving = self._leaving.pop(rm_id, None)
        if leaving is not None:
            leaving.cancel()
        self._streams[rm_id] = stream
        self.listeners_changed.set()
        self._tally.streams = len(self._streams)

    def left(self, rm_id: str, stream: CallbackStream) -> None:
        """`stream` has ended. The scheduler hears of it unless a newer one takes over, or the whole RM is gone."""
        if self._streams.get(rm_id) is stream:
            del self._streams[rm_id]
            self.listeners_changed.set()
            self._tally.streams = len(self._streams)
            self._leaving[rm_id] = self._call_later(GRACE_SECONDS, partial(self._gone, rm_id))

    def _gone(self, rm_id: str) -> None:
        del self._leaving[rm_id]
        if self._links.knows(rm_id):
            self._post(DisconnectCallbacks(rm_id))

    def deliver(self, facts: Sequence[Fact], _now: Instant) -> None:
        """Turns facts into calls. A sink of the owner."""
        if not self._streams:
            return
        for fact in facts:
            put = _CALLS.get(type(fact))
            if put is not None:
                stream = self._streams.get(fact.rm_id)  # type: ignore[union-attr]  # every fact in the table has one
                if stream is not None:
                    put(stream.calls, fact)

    def event_listeners(self) -> Mapping[str, InterfaceVersion]:
        """The RMs that want event records, and of which version."""
        return {rm_id: stream.hello.version for rm_id, stream in self._streams.items() if stream.hello.events}

    def send_events(self, rm_id: str, records: Iterable[EventMessage]) -> None:
        """Sends records, of the version that the RM wants, oldest first. Those it cannot take in time are dropped."""
        stream = self._streams.get(rm_id)
        if stream is not None and stream.hello.events:
            stream.calls.tell_events(records)

    async def state_dump(self, rm_id: str, timeout_seconds: float) -> str:
        """The RM's own state as JSON text. Raises `NoStateDump` with the reason if there is none."""
        stream = self._streams.get(rm_id)
        if stream is None:
            raise NoStateDump("the resource manager has no callback stream")
        return await stream.state_dump(timeout_seconds)


def _void(calls: Calls, fact: PredicateNotWanted) -> None:
    calls.void_result(fact.call_id)


# A function takes exactly the fact of its row; a mapping of types to functions cannot say that to the type checker.
_CALLS: Mapping[type[Any], Callable[[Calls, Any], None]] = {
    PredicateWanted: Calls.want_result,
    PreemptionPredicateWanted: Calls.want_result,
    PredicateNotWanted: _void,
    SchedulingStateChanged: Calls.tell_state,
}
