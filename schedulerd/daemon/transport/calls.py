"""The calls of one callback stream: those that wait to be sent, and those that wait for an answer.

Memory is bounded whatever the reader does. The core bounds the number of results that it asks for at a time, and says
when one is no longer wanted. Events and scheduling states are only for information: if a reader falls behind, only the
newest of them are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from schedulerd.core.language import checks
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.facts.queues import QueueNameUnused
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingStateChanged
from schedulerd.observe.callback_tally import CallbackTally, CallKind
from schedulerd.wire.callback import (
    REASON_CHARACTERS_MAX,
    CallBuilder,
    EventMessage,
    Held,
    InterfaceVersion,
    NoPodAnswer,
    NoStateDump,
)

UNSENT_MAX = 10_000
"""Maximum number of events, and of scheduling states, that wait for a reader; a few megabytes."""
REASONS_UNSENT_MAX = 100_000
"""Maximum number of asks whose newest pending reason waits for a reader; some tens of megabytes. More, as an RM that
makes sentences of its own has nothing to say of an ask whose reason was dropped."""
PODS_ASKED_MAX = 50
"""Maximum number of pods that people wait to be told of, by one RM."""
POD_CHARACTERS_MAX = 2_000
"""Maximum length of what an RM says of a pod."""

_ENDED = "its callback stream has ended"


class Calls:
    """Sends calls in batches (`next_message`), those that need an answer first. `tally` counts everything."""

    def __init__(
        self, rm_id: str, version: InterfaceVersion, tally: CallbackTally, clock_seconds: Callable[[], float]
    ) -> None:
        self.changed = asyncio.Event()
        """Set when there may be something to send."""
        self._rm_id = rm_id
        self._version = version
        self._tally = tally
        self._clock_seconds = clock_seconds
        self._greeted = False
        self._results: dict[int, PredicateWanted | PreemptionPredicateWanted] = {}
        self._states: deque[SchedulingStateChanged] = deque()
        self._reasons: dict[tuple[str, str, str], PendingReasonChanged] = {}
        """The newest of each ask."""
        self._events: deque[EventMessage] = deque()
        self._holds: dict[str, Held] = {}
        """Unsent, by hold id."""
        self._held: set[str] = set()
        """The holds that the RM knows: as many as there are slots with room."""
        self._unholds: dict[str, str] = {}
        """Unsent, with the ask that took the room: at most as many as the RM knows holds."""
        self._notices: deque[QueueNameUnused] = deque()
        self._closed = False
        self._dump_turn = asyncio.Lock()
        """Only one dump at a time, because a dump may have some megabytes."""
        self._dump: asyncio.Future[str] | None = None
        self._dump_is_sent = False
        self._dumps_wanted = 0
        """Number of dumps that were asked for; it is the call id of the last one."""
        self._pods: dict[int, tuple[str, str, asyncio.Future[str]]] = {}
        """Pods that are asked about, by call id: namespace, name, and the answer."""
        self._pods_unsent: deque[int] = deque()
        self._pods_wanted = 0
        self._open: dict[tuple[CallKind, int], float] = {}
        """When each call that waits for its answer was sent."""

    def want_result(self, fact: PredicateWanted | PreemptionPredicateWanted) -> None:
        self._results[fact.call_id] = fact
        self.changed.set()

    def void_result(self, call_id: int) -> None:
        """Drops a call whose answer is no longer wanted; a call that was not sent yet is not sent."""
        unsent = self._results.pop(call_id, None)
        if unsent is not None:
            self._tally.dropped[_kind(unsent)] += 1
        for kind in (CallKind.PREDICATES, CallKind.PREEMPTION_PREDICATES):
            self._open.pop((kind, call_id), None)

    def tell_state(self, fact: SchedulingStateChanged) -> None:
        self._keep(self._states, fact, CallKind.SCHEDULING_STATE)

    def tell_reason(self, fact: PendingReasonChanged) -> None:
        name = fact.partition, fact.application_id, fact.allocation_key
        if name not in self._reasons and len(self._reasons) >= REASONS_UNSENT_MAX:
            del self._reasons[next(iter(self._reasons))]
            self._tally.dropped[CallKind.SCHEDULING_STATE] += 1
        self._reasons[name] = fact
        self.changed.set()

    def tell_hold(self, hold_id: str, place: Held) -> None:
        self._holds[hold_id] = place
        self.changed.set()

    def tell_unhold(self, hold_id: str, taken_by: str = "") -> None:
        """The hold ends; one that was not sent is not sent any more. `taken_by` may be told before or after the end."""
        if self._holds.pop(hold_id, None) is None and hold_id in self._held:
            self._unholds[hold_id] = taken_by or self._unholds.get(hold_id, "")
            self.changed.set()

    def tell_queue_name_unused(self, fact: QueueNameUnused) -> None:
        self._keep(self._notices, fact, CallKind.APPLICATION_NOTICE)

    def tell_events(self, records: Iterable[EventMessage]) -> None:
        for record in records:
            self._keep(self._events, record, CallKind.EVENT)

    async def state_dump(self) -> str:
        """Asks for a dump and waits for it. Raises `NoStateDump` if the RM has none or the stream ends."""
        async with self._dump_turn:
            if self._closed:
                raise NoStateDump(_ENDED)
            self._dumps_wanted += 1
            self._dump = asyncio.get_running_loop().create_future()
            self._dump_is_sent = False
            self.changed.set()
            try:
                return await self._dump
            finally:
                self._dump = None
                self._open.pop((CallKind.STATE_DUMP, self._dumps_wanted), None)
                if not self._dump_is_sent:
                    self._tally.dropped[CallKind.STATE_DUMP] += 1

    def dumped(self, call_id: int, dump: str, error: str) -> None:
        """Handles the RM's answer: its dump, or why there is none."""
        if not self.answered(CallKind.STATE_DUMP, call_id) or self._dump is None or self._dump.done():
            return
        if error:
            said = checks.message(error, REASON_CHARACTERS_MAX)
            self._dump.set_exception(NoStateDump(f"the resource manager says: {said}"))
        else:
            self._dump.set_result(dump)

    async def pod_said(self, namespace: str, name: str) -> str:
        """What the RM says of the pod; '' if it does not know it.

        Raises `NoPodAnswer` if too many wait for an answer, or if the stream ends.
        """
        if self._closed:
            raise NoPodAnswer(_ENDED)
        if len(self._pods) >= PODS_ASKED_MAX:
            raise NoPodAnswer(f"{PODS_ASKED_MAX} answers about pods are waited for already; try again")
        self._pods_wanted += 1
        call_id = self._pods_wanted
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._pods[call_id] = namespace, name, answer
        self._pods_unsent.append(call_id)
        self.changed.set()
        try:
            return await answer
        finally:
            del self._pods[call_id]
            self._open.pop((CallKind.POD, call_id), None)

    def told_of_pod(self, call_id: int, said: str) -> None:
        """Handles the RM's answer about a pod."""
        if self.answered(CallKind.POD, call_id) and call_id in self._pods:
            answer = self._pods[call_id][2]
            if not answer.done():
                answer.set_result(checks.message(said, POD_CHARACTERS_MAX))

    def answered(self, kind: CallKind, call_id: int) -> bool:
        """Whether this answer was waited for. An answer that was not is counted, and needs no other handling."""
        sent_seconds = self._open.pop((kind, call_id), None)
        if sent_seconds is None:
            self._tally.late_answers[kind] += 1
            return False
        self._tally.answered(kind, self._clock_seconds() - sent_seconds)
        return True

    def close(self) -> None:
        """Fails what is waited for: the stream has ended, and nothing is sent or answered any more."""
        self._closed = True
        if self._dump is not None and not self._dump.done():
            self._dump.set_exception(NoStateDump(_ENDED))
        for _, _, answer in self._pods.values():
            if not answer.done():
                answer.set_exception(NoPodAnswer(_ENDED))

    def next_message(self) -> bytes | None:
        """The next message to send; None if there is none."""
        builder = CallBuilder(self._rm_id, self._version)
        if not self._greeted:
            self._greeted = True
            builder.connected()
        now_seconds = self._clock_seconds()
        self._send_holds(builder)
        while self._results and not builder.is_full:
            self._send_result(builder, now_seconds)
        if self._dump is not None and not self._dump_is_sent:
            self._dump_is_sent = True
            builder.state_dump_wanted(self._dumps_wanted)
            self._sent(CallKind.STATE_DUMP, self._dumps_wanted, now_seconds)
        while self._pods_unsent and not builder.is_full:
            call_id = self._pods_unsent.popleft()
            if call_id in self._pods:
                namespace, name, _ = self._pods[call_id]
                builder.pod_wanted(call_id, namespace, name)
                self._sent(CallKind.POD, call_id, now_seconds)
        self._send(self._states, builder.scheduling_state, builder, CallKind.SCHEDULING_STATE)
        while self._reasons and not builder.is_full:
            builder.pending_reason(self._reasons.pop(next(iter(self._reasons))))
            self._tally.calls[CallKind.SCHEDULING_STATE] += 1
        self._send(self._notices, builder.queue_name_unused, builder, CallKind.APPLICATION_NOTICE)
        self._send(self._events, builder.event, builder, CallKind.EVENT)
        return builder.payload() or None

    def _send_holds(self, builder: CallBuilder) -> None:
        """Those that end first: they may be in the way of new ones."""
        while self._unholds and not builder.is_full:
            hold_id = next(iter(self._unholds))
            builder.unhold(hold_id, self._unholds.pop(hold_id))
            self._held.discard(hold_id)
            self._tally.calls[CallKind.HOLD] += 1
        while self._holds and not builder.is_full:
            hold_id = next(iter(self._holds))
            builder.hold(hold_id, self._holds.pop(hold_id))
            self._held.add(hold_id)
            self._tally.calls[CallKind.HOLD] += 1

    def _send_result(self, builder: CallBuilder, now_seconds: float) -> None:
        call_id = next(iter(self._results))
        fact = self._results.pop(call_id)
        if isinstance(fact, PredicateWanted):
            builder.predicate_wanted(fact)
        else:
            builder.preemption_predicate_wanted(fact)
        self._sent(_kind(fact), call_id, now_seconds)

    def _sent(self, kind: CallKind, call_id: int, now_seconds: float) -> None:
        self._open[kind, call_id] = now_seconds
        self._tally.calls[kind] += 1

    def _send(self, unsent: deque[Any], put: Callable[[Any], None], builder: CallBuilder, kind: CallKind) -> None:
        while unsent and not builder.is_full:
            put(unsent.popleft())
            self._tally.calls[kind] += 1

    def _keep(self, unsent: deque[Any], item: object, kind: CallKind) -> None:
        if len(unsent) >= UNSENT_MAX:
            unsent.popleft()
            self._tally.dropped[kind] += 1
        unsent.append(item)
        self.changed.set()


def _kind(fact: PredicateWanted | PreemptionPredicateWanted) -> CallKind:
    return CallKind.PREDICATES if isinstance(fact, PredicateWanted) else CallKind.PREEMPTION_PREDICATES
