"""Facts become calls of the RM's version, and what it answers becomes results."""

from __future__ import annotations

import pytest

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
from schedulerd.core.state.pending.rules.states import PendingState
from schedulerd.core.state.quotas.rules import BlockedBy
from schedulerd.wire import callback as module
from schedulerd.wire.callback import USUAL_STATES, CallBuilder, HelloInvalid, InterfaceVersion, read_hello, results_in
from schedulerd.wire.dialect import Dialect
from tests.loops import each_row

StateOf2023 = si_pb2.UpdateContainerSchedulingStateRequest
StateOf2021 = si_2021_pb2.UpdateContainerSchedulingStateRequest


def builder(version: InterfaceVersion = InterfaceVersion.V2023_06) -> CallBuilder:
    return CallBuilder("rm", version)


def read(filled: CallBuilder) -> callback_pb2.CallbackCall:
    return callback_pb2.CallbackCall.FromString(filled.payload())


def wanted(call_id: int = 7, *, allocate: bool = True) -> PredicateWanted:
    return PredicateWanted("rm", "default", "app-1", "ask-1", "node-1", call_id, allocate)


def state(state: SchedulingState, reason: str = "") -> SchedulingStateChanged:
    return SchedulingStateChanged("rm", "default", "app-1", "ask-1", state, reason)


@pytest.mark.parametrize("allocate", [True, False])
def test_a_predicate_is_asked_with_all_that_tells_the_ask_from_others(allocate: bool) -> None:
    filled = builder()
    filled.predicate_wanted(wanted(7, allocate=allocate))
    assert read(filled) == callback_pb2.CallbackCall(
        predicates=[
            callback_pb2.PredicatesCall(
                callID=7,
                applicationID="app-1",
                partitionName="[rm]default",
                args=si_pb2.PredicatesArgs(allocationKey="ask-1", nodeID="node-1", allocate=allocate),
            )
        ]
    )


def test_a_preemption_predicate_is_asked_with_the_victims_in_order() -> None:
    filled = builder()
    victims = ("b", "a", "c")
    filled.preemption_predicate_wanted(
        PreemptionPredicateWanted("rm", "default", "app-1", "ask-1", "node-1", 8, victims, 1)
    )
    (call,) = read(filled).preemptionPredicates
    assert (call.callID, call.applicationID, call.partitionName) == (8, "app-1", "[rm]default")
    assert call.args == si_pb2.PreemptionPredicatesArgs(
        allocationKey="ask-1", nodeID="node-1", preemptAllocationKeys=victims, startIndex=1
    )


@each_row("version", [InterfaceVersion.V2022_12, InterfaceVersion.V2023_06])
@each_row("one", SchedulingState)
def test_a_scheduling_state_has_the_number_of_its_name(one: SchedulingState, version: InterfaceVersion) -> None:
    filled = builder(version)
    filled.scheduling_state(state(one, "because"))
    (told,) = read(filled).schedulingStates
    assert (told.applicartionID, told.allocationKey, told.reason) == ("app-1", "ask-1", "because")
    assert StateOf2023.SchedulingState.Name(told.state) == one.name
    assert told.state != StateOf2023.UNKNOWN_SCHEDULING_STATE


@pytest.mark.parametrize("one", SchedulingState)
def test_a_scheduling_state_of_2021_has_the_number_of_its_name_there(one: SchedulingState) -> None:
    filled = builder(InterfaceVersion.V2021_02)
    filled.scheduling_state(state(one, "because"))
    message = read(filled)
    (told,) = message.schedulingStatesOf2021
    assert not message.schedulingStates
    assert (told.applicartionID, told.allocationKey, told.reason) == ("app-1", "ask-1", "because")
    assert StateOf2021.SchedulingState.Name(told.state) == one.name


@pytest.mark.parametrize("version", InterfaceVersion)
def test_a_pending_reason_is_the_same_in_all_versions(version: InterfaceVersion) -> None:
    filled = builder(version)
    filled.pending_reason(
        PendingReasonChanged(
            "rm", "default", "app-1", "ask-1", "user_limit_blocked", SchedulingState.SKIPPED,
            rule="limit", queue="root.a", resource="vcore", used=3, promised=1, asked=2**70, max=4, account="ann",
            is_group=True, ahead=7, awaited_application="app-2", inactive="Failing", node="n", victims=2,
            gang_state="gathering", with_room=12, needed=16, members_asked=15, task_group="workers",
        )
    )  # fmt: skip
    message = read(filled)
    assert message == callback_pb2.CallbackCall(pendingReasons=message.pendingReasons), "and nothing else"
    (told,) = message.pendingReasons
    assert told == callback_pb2.PendingReason(
        applicationID="app-1",
        allocationKey="ask-1",
        state=callback_pb2.PendingReason.USER_LIMIT_BLOCKED,
        schedulingState=StateOf2023.SKIPPED,
        rule=callback_pb2.PendingReason.LIMIT,
        queue="root.a",
        resource="vcore",
        used=3,
        promised=1,
        asked=2**63 - 1,
        max=4,
        account="ann",
        isGroup=True,
        ahead=7,
        awaitedApplicationID="app-2",
        inactive="Failing",
        nodeID="n",
        victims=2,
        gangState="gathering",
        membersWithRoom=12,
        membersNeeded=16,
        membersAsked=15,
        taskGroup="workers",
    )


@pytest.mark.parametrize("version", InterfaceVersion)
def test_a_notice_says_that_a_queue_name_is_unused(version: InterfaceVersion) -> None:
    filled = builder(version)
    filled.queue_name_unused(QueueNameUnused("rm", "default", "root.q", "app-1", "because"))
    (told,) = read(filled).applicationNotices
    assert told == callback_pb2.ApplicationNotice(
        applicationID="app-1", kind=callback_pb2.ApplicationNotice.QUEUE_NAME_UNUSED, queue="root.q", message="because"
    )


@each_row("one", PendingState)
def test_a_pending_state_has_the_number_of_its_name(one: PendingState) -> None:
    filled = builder()
    filled.pending_reason(PendingReasonChanged("rm", "default", "app-1", "ask-1", one, None))
    (told,) = read(filled).pendingReasons
    assert callback_pb2.PendingReason.State.Name(told.state) == one.name
    assert told.schedulingState == StateOf2023.UNKNOWN_SCHEDULING_STATE


@pytest.mark.parametrize("one", BlockedBy)
def test_a_rule_has_the_number_of_its_name(one: BlockedBy) -> None:
    filled = builder()
    filled.pending_reason(PendingReasonChanged("rm", "default", "app-1", "ask-1", "ready", None, rule=one.value))
    (told,) = read(filled).pendingReasons
    assert callback_pb2.PendingReason.Rule.Name(told.rule) == one.name


def test_event_records_of_each_version_have_a_list_of_their_own() -> None:
    for version, field, record in (
        (InterfaceVersion.V2021_02, "eventsOf2021", si_2021_pb2.EventRecord(objectID="x", reason="why")),
        (InterfaceVersion.V2022_12, "eventsOf2022", event_2022_pb2.EventRecord(objectID="x", reason="why")),
        (InterfaceVersion.V2023_06, "events", si_pb2.EventRecord(objectID="x", referenceID="y")),
    ):
        filled = builder(version)
        filled.event(record)
        message = read(filled)
        assert list(getattr(message, field)) == [record]
        assert [listed.name for listed, _ in message.ListFields()] == [field]


def test_a_record_of_another_version_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError):
        builder(InterfaceVersion.V2021_02).event(si_pb2.EventRecord(objectID="x"))


def test_a_call_that_says_nothing_is_empty_but_a_greeting_is_not() -> None:
    filled = builder()
    assert filled.payload() == b""
    filled.connected()
    assert read(filled).HasField("connected")


def test_a_call_is_full_by_items_or_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ITEMS_MAX", 2)
    by_items = builder()
    fullness = []
    for _ in range(2):
        by_items.predicate_wanted(wanted())
        fullness.append(by_items.is_full)
    assert fullness == [False, True]
    long_one = state(SchedulingState.FAILED, "r" * 500)
    by_size = builder()
    by_size.scheduling_state(long_one)
    (sent,) = read(by_size).schedulingStates
    for bytes_max, is_full in ((sent.ByteSize(), True), (sent.ByteSize() + 1, False)):
        monkeypatch.setattr(module, "CALL_BYTES_MAX", bytes_max)
        assert by_size.is_full is is_full


@pytest.mark.parametrize(("count", "pieces"), [(500, [500]), (501, [500, 1])])
def test_results_of_either_kind_come_in_pieces(count: int, pieces: list[int]) -> None:
    assert module.ITEMS_MAX == 500
    answer = callback_pb2.CallbackAnswer(
        predicates=[callback_pb2.PredicatesResult(callID=number) for number in range(count)],
        preemptionPredicates=[callback_pb2.PreemptionPredicatesResult(callID=number) for number in range(count)],
    )
    found = list(results_in(answer))
    assert [(about, len(results)) for about, results in found] == [
        *((False, size) for size in pieces),
        *((True, size) for size in pieces),
    ]
    assert [result.call_id for _, results in found for result in results] == [*range(count)] * 2


def test_a_hello_says_what_is_served() -> None:
    hello = read_hello(callback_pb2.CallbackHello(rmID="rm", predicates=True, events=True), None)
    assert hello.connect == ConnectCallbacks("rm", predicates=True, wanted_states=USUAL_STATES)
    assert (hello.events, hello.state_dump, hello.version) == (True, False, InterfaceVersion.V2023_06)
    everything = callback_pb2.CallbackHello(
        rmID="rm",
        preemptionPredicates=True,
        schedulingStates=True,
        pendingReasons=True,
        stateDump=True,
        version=callback_pb2.INTERFACE_VERSION_2021_02,
    )
    hello = read_hello(everything, None)
    assert hello.connect == ConnectCallbacks(
        "rm", preemption_predicates=True, scheduling_states=True, pending_reasons=True, wanted_states=USUAL_STATES
    )
    assert (hello.events, hello.state_dump, hello.version) == (False, True, InterfaceVersion.V2021_02)


def test_a_hello_says_which_scheduling_states_are_wanted() -> None:
    State = si_pb2.UpdateContainerSchedulingStateRequest
    hello = callback_pb2.CallbackHello(rmID="rm", schedulingStates=True)
    assert read_hello(hello, None).connect.wanted_states == (State.SKIPPED, State.FAILED), "as the peer sends them"
    hello.wantedStates.extend([State.RESERVED, State.SCHEDULED, State.RESERVED])
    assert read_hello(hello, None).connect.wanted_states == (State.SCHEDULED, State.RESERVED)


@pytest.mark.parametrize("number", [0, 5, -1])
def test_a_scheduling_state_that_is_not_known_is_refused(number: int) -> None:
    message = callback_pb2.CallbackHello.FromString(callback_pb2.CallbackHello(rmID="rm").SerializeToString())
    message.wantedStates.append(number)  # type: ignore[arg-type]  # as another language might send it
    with pytest.raises(HelloInvalid, match=rf"hello.wantedStates: {number} is not known; known are 1 \(SKIPPED\), "):
        read_hello(message, None)


def test_only_what_is_answered_needs_an_rm_that_can_still_send() -> None:
    for name, answers in (
        ("predicates", True),
        ("preemptionPredicates", True),
        ("stateDump", True),
        ("events", False),
        ("schedulingStates", False),
        ("pendingReasons", False),
    ):
        message = callback_pb2.CallbackHello(rmID="rm")
        setattr(message, name, True)
        assert read_hello(message, None).answers is answers, name


@pytest.mark.parametrize(
    ("spoken", "version"),
    [
        (None, InterfaceVersion.V2023_06),
        (Dialect.V2023_06, InterfaceVersion.V2023_06),
        (Dialect.V2021_02, InterfaceVersion.V2021_02),
    ],
)
def test_without_a_version_it_is_that_of_the_update_streams(spoken: Dialect | None, version: InterfaceVersion) -> None:
    assert read_hello(callback_pb2.CallbackHello(rmID="rm"), spoken).version is version
    said = callback_pb2.CallbackHello(rmID="rm", version=callback_pb2.INTERFACE_VERSION_2022_12)
    assert read_hello(said, spoken).version is InterfaceVersion.V2022_12, "what it says counts"


def test_an_unknown_version_is_refused_with_those_that_are_known() -> None:
    message = callback_pb2.CallbackHello.FromString(b"\x38\x09")  # field 7, which is the version, with 9
    with pytest.raises(HelloInvalid) as refused:
        read_hello(message, None)
    assert str(refused.value) == (
        "hello.version: 9 is not known; known are 1 (2021-02), 2 (2022-12), 3 (2023-06), "
        "and 0 for that of its update streams"
    )


def test_answers_become_results_and_a_refusal_always_has_a_reason() -> None:
    answer = callback_pb2.CallbackAnswer(
        predicates=[
            callback_pb2.PredicatesResult(callID=1, success=True, reason="ignored"),
            callback_pb2.PredicatesResult(callID=2, reason="taint"),
            callback_pb2.PredicatesResult(callID=3),
            callback_pb2.PredicatesResult(callID=4, reason="r" * 10_000),
        ],
        preemptionPredicates=[
            callback_pb2.PreemptionPredicatesResult(
                callID=5, response=si_pb2.PreemptionPredicatesResponse(success=True, index=2)
            ),
            callback_pb2.PreemptionPredicatesResult(callID=6, response=si_pb2.PreemptionPredicatesResponse(index=2)),
            callback_pb2.PreemptionPredicatesResult(callID=7),
        ],
    )
    (about_preemption, results), (really, others) = results_in(answer)
    assert (about_preemption, really) == (False, True)
    assert results == [
        PredicateResult(1),
        PredicateResult(2, "taint"),
        PredicateResult(3, "refused by the resource manager"),
        PredicateResult(4, "r" * module.REASON_CHARACTERS_MAX),
    ]
    refusal = "refused by the resource manager, even without the victims"
    assert others == [PredicateResult(5, index=2), PredicateResult(6, refusal), PredicateResult(7, refusal)]


def test_a_long_answer_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ITEMS_MAX", 2)
    answer = callback_pb2.CallbackAnswer(
        predicates=[callback_pb2.PredicatesResult(callID=number, success=True) for number in range(5)],
        preemptionPredicates=[callback_pb2.PreemptionPredicatesResult(callID=number) for number in range(5, 8)],
    )
    pieces = [(about, [one.call_id for one in results]) for about, results in results_in(answer)]
    assert pieces == [(False, [0, 1]), (False, [2, 3]), (False, [4]), (True, [5, 6]), (True, [7])]
