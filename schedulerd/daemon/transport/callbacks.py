"""The callback streams of all resource managers, and the calls that the rest of the daemon makes on them.

Facts arrive as in any sink of the owner, event records by `send_events`, an operator's request for a state dump by
`state_dump`, and what people want to know of a pod by `pod_said`. What is for an RM without a callback stream is
dropped.

The scheduler learns of a stream's end after a delay. When a connection breaks, all streams of its RM end. If this one
is noticed first, the RM's asks would be allocated without its predicate results before the daemon knows that the RM is
gone. And an RM that returns at once has missed nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import grpc

from schedulerd.core.language.commands import DisconnectCallbacks
from schedulerd.core.language.facts.fact import Allocated, Fact, Released
from schedulerd.core.language.facts.predicates import (
    PredicateNotWanted,
    PredicateWanted,
    PreemptionPredicateWanted,
    SlotHeld,
)
from schedulerd.core.language.facts.queues import QueueNameUnused
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingStateChanged
from schedulerd.daemon.sessions.open_calls import CloseReason
from schedulerd.daemon.sessions.rm_session import Post
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.callback_stream import CallbackStream
from schedulerd.instant import Instant
from schedulerd.observe.callback_tally import CallbackTally
from schedulerd.wire.callback import EventMessage, InterfaceVersion, NoPodAnswer, NoStateDump

GRACE_SECONDS = 1.0
"""Delay from the end of a stream until asks of its RM are allocated without its predicate results."""

_TAKEN_OVER = CloseReason(grpc.StatusCode.OK, "a newer stream of this RM has taken over")


class Cancellable(Protocol):
    """A scheduled call."""

    def cancel(self) -> None: ...


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Cancellable]


class Callbacks:
    """The callback streams of all RMs that have one; at most one each."""

    def __init__(self, sessions: RmSessions, post: Post, tally: CallbackTally, call_later: CallLater) -> None:
        """`post` queues a command for the scheduler; `call_later` is the loop's."""
        self._sessions = sessions
        self._post = post
        self._tally = tally
        self.listeners_changed = asyncio.Event()
        """Set when the result of `event_listeners` may have changed; the task that waits for it clears it."""
        self._streams: dict[str, CallbackStream] = {}
        self._leaving: dict[str, Cancellable] = {}
        """Timers of RMs whose stream has ended, while the scheduler has not been told."""
        self._call_later = call_later

    def took_over(self, rm_id: str, stream: CallbackStream) -> None:
        """Makes `stream` the current one of its RM. Calls on an older stream are void (`ConnectCallbacks`)."""
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
        """Removes a stream that has ended. The scheduler is told, unless a newer one takes over or the RM is gone."""
        if self._streams.get(rm_id) is stream:
            del self._streams[rm_id]
            self.listeners_changed.set()
            self._tally.streams = len(self._streams)
            self._leaving[rm_id] = self._call_later(GRACE_SECONDS, partial(self._gone, rm_id))

    def _gone(self, rm_id: str) -> None:
        del self._leaving[rm_id]
        if self._sessions.knows(rm_id):
            self._post(DisconnectCallbacks(rm_id))

    def deliver(self, facts: Sequence[Fact], _now: Instant) -> None:
        """A sink of the owner: turns facts into calls."""
        if not self._streams:
            return
        for fact in facts:
            put = _CALLS.get(type(fact))
            if put is not None:
                stream = self._streams.get(fact.rm_id)  # type: ignore[union-attr]  # every fact in the table has one
                if stream is not None:
                    put(stream, fact)

    def event_listeners(self) -> Mapping[str, InterfaceVersion]:
        """The RMs that want event records, with the version of the records."""
        return {rm_id: stream.hello.version for rm_id, stream in self._streams.items() if stream.hello.events}

    def send_events(self, rm_id: str, records: Iterable[EventMessage]) -> None:
        """Sends records, in the version that the RM wants, oldest first. Those not read in time are dropped."""
        stream = self._streams.get(rm_id)
        if stream is not None and stream.hello.events:
            stream.calls.tell_events(records)

    async def state_dump(self, rm_id: str, timeout_seconds: float) -> str:
        """The RM's own state as JSON text. Raises `NoStateDump` with the reason if there is none."""
        stream = self._streams.get(rm_id)
        if stream is None:
            raise NoStateDump("the resource manager has no callback stream")
        return await stream.state_dump(timeout_seconds)

    async def pod_said(self, rm_id: str, namespace: str, name: str) -> str:
        """What the RM says of a pod of which it has no ask; '' if it does not know it. Raises `NoPodAnswer`."""
        stream = self._streams.get(rm_id)
        if stream is None:
            raise NoPodAnswer("it has no callback stream")
        return await stream.pod_said(namespace, name)


def _tell_queue_name_unused(stream: CallbackStream, fact: QueueNameUnused) -> None:
    if stream.hello.application_notices:
        stream.calls.tell_queue_name_unused(fact)


def _allocated(stream: CallbackStream, fact: Allocated) -> None:
    if fact.slot:
        _held(stream, fact)
    elif fact.replaces and stream.hello.connect.holds:
        stream.calls.tell_unhold(fact.replaces, fact.allocation_key)


def _held(stream: CallbackStream, fact: Allocated | SlotHeld) -> None:
    if stream.hello.connect.holds:
        stream.calls.tell_hold(fact.uuid, fact)


def _released(stream: CallbackStream, fact: Released) -> None:
    if fact.slot and stream.hello.connect.holds:
        stream.calls.tell_unhold(fact.uuid)


# Each function takes exactly the fact of its row; a mapping of types to functions cannot tell the type checker so.
_CALLS: Mapping[type[Any], Callable[[CallbackStream, Any], None]] = {
    PredicateWanted: lambda stream, fact: stream.calls.want_result(fact),
    PreemptionPredicateWanted: lambda stream, fact: stream.calls.want_result(fact),
    PredicateNotWanted: lambda stream, fact: stream.calls.void_result(fact.call_id),
    SchedulingStateChanged: lambda stream, fact: stream.calls.tell_state(fact),
    PendingReasonChanged: lambda stream, fact: stream.calls.tell_reason(fact),
    QueueNameUnused: _tell_queue_name_unused,
    Allocated: _allocated,
    Released: _released,
    SlotHeld: _held,
}
