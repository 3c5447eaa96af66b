"""Callback facts -> calls on an RM's callback stream, and its answers -> commands.

The sender puts the calls of an RM together (`CallBuilder`) when it sends them, not when the facts come: a call that was
not sent yet may not be wanted any longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from google.protobuf.message import Message

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from schedulerd._generated.si.v2022_12 import event_pb2 as event_2022_pb2
from schedulerd.core.language.commands import ConnectCallbacks, PredicateResult
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.facts.queues import QueueNameUnused
from schedulerd.core.language.facts.scheduling_states import (
    PendingReasonChanged,
    SchedulingState,
    SchedulingStateChanged,
)
from schedulerd.core.language.resources import within_int64
from schedulerd.core.language.task_groups import MEMBER_SLOT
from schedulerd.core.state.pending.rules.states import PendingState
from schedulerd.core.state.quotas.rules import BlockedBy
from schedulerd.wire.dialect import Dialect
from schedulerd.wire.names import partition_to_wire

ITEMS_MAX = 500
"""Items per call message, and results per command."""

CALL_BYTES_MAX = 1024 * 1024
"""A call message takes no more items from this size on, so that it stays far below the 4 MiB that clients take."""

REASON_CHARACTERS_MAX = 200
"""Maximum length of a reason from an RM; it is kept with the ask and shown to people."""

EventMessage: TypeAlias = si_pb2.EventRecord | si_2021_pb2.EventRecord | event_2022_pb2.EventRecord


class InterfaceVersion(StrEnum):
    """Version of the scheduler interface, where it makes a difference."""

    V2021_02 = "2021-02"
    V2022_12 = "2022-12"
    V2023_06 = "2023-06"


_VERSIONS: Mapping[int, InterfaceVersion] = {
    callback_pb2.INTERFACE_VERSION_2021_02: InterfaceVersion.V2021_02,
    callback_pb2.INTERFACE_VERSION_2022_12: InterfaceVersion.V2022_12,
    callback_pb2.INTERFACE_VERSION_2023_06: InterfaceVersion.V2023_06,
}

_EVENT_FIELDS: Mapping[InterfaceVersion, str] = {
    InterfaceVersion.V2021_02: "eventsOf2021",
    InterfaceVersion.V2022_12: "eventsOf2022",
    InterfaceVersion.V2023_06: "events",
}
_StatesOf2021 = si_2021_pb2.UpdateContainerSchedulingStateRequest
_STATES_OF_2021: Mapping[SchedulingState, _StatesOf2021.SchedulingState.ValueType] = {
    state: _StatesOf2021.SchedulingState.Value(state.name) for state in SchedulingState
}
_PENDING_STATES: Mapping[str, callback_pb2.PendingReason.State.ValueType] = {
    state.value: callback_pb2.PendingReason.State.Value(state.name) for state in PendingState
}
_RULES: Mapping[str, callback_pb2.PendingReason.Rule.ValueType] = {
    "": callback_pb2.PendingReason.RULE_NOT_SET,
    **{rule.value: callback_pb2.PendingReason.Rule.Value(rule.name) for rule in BlockedBy},
}
_NO_STATE = si_pb2.UpdateContainerSchedulingStateRequest.UNKNOWN_SCHEDULING_STATE


USUAL_STATES = (SchedulingState.SKIPPED.value, SchedulingState.FAILED.value)
"""The scheduling states that an RM is sent if its hello names none: the ones that YuniKorn sends."""

_STATE_NUMBERS = frozenset(state.value for state in SchedulingState)


class Held(Protocol):
    """A slot that has room on a node: `Allocated` or `SlotHeld`."""

    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    task_group: str


class HelloInvalid(ValueError):
    """An invalid hello; the message says why."""


class NoStateDump(Exception):
    """The RM gave no state dump; the text says why."""


class NoPodAnswer(Exception):
    """The RM could not be asked about a pod, or did not answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of an RM on its callback stream."""

    connect: ConnectCallbacks
    events: bool
    state_dump: bool
    pods: bool
    application_notices: bool
    version: InterfaceVersion
    """Version of the event records and scheduling states that the RM gets."""

    @property
    def answers(self) -> bool:
        """Whether the RM serves any call that needs an answer."""
        return self.connect.predicates or self.connect.preemption_predicates or self.state_dump or self.pods


def read_hello(message: callback_pb2.CallbackHello, spoken: Dialect | None) -> Hello:
    """`spoken` on its update streams, if that is known, is the version of an RM that does not say one.

    Raises `HelloInvalid` for an unknown version.
    """
    if message.version == callback_pb2.INTERFACE_VERSION_NOT_SET:
        version = InterfaceVersion(spoken or Dialect.V2023_06)
    elif message.version in _VERSIONS:
        version = _VERSIONS[message.version]
    else:
        known = ", ".join(f"{number} ({name})" for number, name in _VERSIONS.items())
        of_streams = "0 for that of its update streams"
        raise HelloInvalid(f"hello.version: {message.version} is not known; known are {known}, and {of_streams}")
    unknown = [number for number in message.wantedStates if number not in _STATE_NUMBERS]
    if unknown:
        known = ", ".join(f"{state.value} ({state.name})" for state in SchedulingState)
        raise HelloInvalid(f"hello.wantedStates: {unknown[0]} is not known; known are {known}")
    connect = ConnectCallbacks(
        message.rmID,
        predicates=message.predicates,
        preemption_predicates=message.preemptionPredicates,
        scheduling_states=message.schedulingStates,
        wanted_states=tuple(sorted(set(message.wantedStates))) or USUAL_STATES,
        pending_reasons=message.pendingReasons,
        holds=message.holds,
    )
    return Hello(connect, message.events, message.stateDump, message.pods, message.applicationNotices, version)


def read_result(message: callback_pb2.PredicatesResult) -> PredicateResult:
    """A refusal always has a reason, as '' means consent to the core."""
    if message.success:
        return PredicateResult(message.callID)
    return PredicateResult(message.callID, message.reason[:REASON_CHARACTERS_MAX] or "refused by the resource manager")


def read_preemption_result(message: callback_pb2.PreemptionPredicatesResult) -> PredicateResult:
    if message.response.success:
        return PredicateResult(message.callID, index=message.response.index)
    return PredicateResult(message.callID, "refused by the resource manager, even without the victims")


class CallBuilder:
    """One `CallbackCall` that is being filled."""

    def __init__(self, rm_id: str, version: InterfaceVersion) -> None:
        self._rm_id = rm_id
        self._version = version
        self._message = callback_pb2.CallbackCall()
        self._events: MutableSequence[EventMessage] = getattr(self._message, _EVENT_FIELDS[version])
        self._items = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._items >= ITEMS_MAX or self._bytes >= CALL_BYTES_MAX

    def payload(self) -> bytes:
        """The message, serialised; b'' if nothing was added."""
        return self._message.SerializeToString()

    def connected(self) -> None:
        self._message.connected.SetInParent()

    def hold(self, hold_id: str, place: Held) -> None:
        self._added(
            self._message.holds.add(
                holdID=hold_id,
                applicationID=place.application_id,
                partitionName=partition_to_wire(self._rm_id, place.partition),
                allocationKey=_member(place.allocation_key),
                taskGroupName=place.task_group,
                nodeID=place.node_id,
            )
        )

    def unhold(self, hold_id: str, taken_by: str) -> None:
        self._added(self._message.unholds.add(holdID=hold_id, takenBy=taken_by))

    def predicate_wanted(self, fact: PredicateWanted) -> None:
        key = _member(fact.allocation_key) if fact.slot_of else fact.allocation_key
        call = self._message.predicates.add(
            callID=fact.call_id,
            applicationID=fact.application_id,
            partitionName=partition_to_wire(self._rm_id, fact.partition),
            args=si_pb2.PredicatesArgs(allocationKey=key, nodeID=fact.node_id, allocate=fact.allocate),
            taskGroupName="" if key else fact.slot_of,
        )
        self._added(call)

    def preemption_predicate_wanted(self, fact: PreemptionPredicateWanted) -> None:
        key = _member(fact.allocation_key) if fact.slot_of else fact.allocation_key
        call = self._message.preemptionPredicates.add(
            callID=fact.call_id,
            applicationID=fact.application_id,
            partitionName=partition_to_wire(self._rm_id, fact.partition),
            args=si_pb2.PreemptionPredicatesArgs(
                allocationKey=key,
                nodeID=fact.node_id,
                preemptAllocationKeys=fact.victim_keys,
                startIndex=fact.start_index,
            ),
            taskGroupName="" if key else fact.slot_of,
        )
        self._added(call)

    def state_dump_wanted(self, call_id: int) -> None:
        """There is room for one in a message."""
        self._message.stateDump.callID = call_id

    def pod_wanted(self, call_id: int, namespace: str, name: str) -> None:
        self._added(self._message.pods.add(callID=call_id, namespace=namespace, name=name))

    def scheduling_state(self, fact: SchedulingStateChanged) -> None:
        """2021-02 has other numbers for the same states, so its RMs get its message."""
        if self._version is InterfaceVersion.V2021_02:
            self._added(
                self._message.schedulingStatesOf2021.add(
                    applicartionID=fact.application_id,
                    allocationKey=fact.allocation_key,
                    state=_STATES_OF_2021[fact.state],
                    reason=fact.reason,
                )
            )
        else:
            self._added(
                self._message.schedulingStates.add(
                    applicartionID=fact.application_id,
                    allocationKey=fact.allocation_key,
                    state=fact.state.value,
                    reason=fact.reason,
                )
            )

    def pending_reason(self, fact: PendingReasonChanged) -> None:
        self._added(
            self._message.pendingReasons.add(
                applicationID=fact.application_id,
                allocationKey=fact.allocation_key,
                state=_PENDING_STATES[fact.state],
                schedulingState=_NO_STATE if fact.scheduling_state is None else fact.scheduling_state.value,
                rule=_RULES[fact.rule],
                queue=fact.queue,
                resource=fact.resource,
                used=within_int64(fact.used),
                promised=within_int64(fact.promised),
                asked=within_int64(fact.asked),
                max=within_int64(fact.max),
                account=fact.account,
                isGroup=fact.is_group,
                ahead=fact.ahead,
                awaitedApplicationID=fact.awaited_application,
                inactive=fact.inactive,
                nodeID=fact.node,
                victims=fact.victims,
                gangState=fact.gang_state,
                membersWithRoom=fact.with_room,
                membersNeeded=fact.needed,
                membersAsked=fact.members_asked,
                taskGroup=fact.task_group,
            )
        )

    def queue_name_unused(self, fact: QueueNameUnused) -> None:
        self._added(
            self._message.applicationNotices.add(
                applicationID=fact.application_id,
                kind=callback_pb2.ApplicationNotice.QUEUE_NAME_UNUSED,
                queue=fact.queue,
                message=fact.reason,
            )
        )

    def event(self, record: EventMessage) -> None:
        """`record` is one of the version that the RM said; protobuf raises TypeError for another."""
        self._events.append(record)
        self._added(record)

    def _added(self, item: Message) -> None:
        self._items += 1
        self._bytes += item.ByteSize()


def _member(key: str) -> str:
    """The member that the slot with this key is for; '' if it is for any member of its task group."""
    return key[len(MEMBER_SLOT) :] if key.startswith(MEMBER_SLOT) else ""


def results_in(answer: callback_pb2.CallbackAnswer) -> Iterator[tuple[bool, list[PredicateResult]]]:
    """The results of a message in pieces of at most `ITEMS_MAX`, each with whether they are about preemption."""
    for first in range(0, len(answer.predicates), ITEMS_MAX):
        yield False, [read_result(one) for one in answer.predicates[first : first + ITEMS_MAX]]
    for first in range(0, len(answer.preemptionPredicates), ITEMS_MAX):
        pieces = answer.preemptionPredicates[first : first + ITEMS_MAX]
        yield True, [read_preemption_result(one) for one in pieces]
