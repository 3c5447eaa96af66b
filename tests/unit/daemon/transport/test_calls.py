"""What one callback stream sends and waits for: batches, bounds, late answers, and counts of all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted, SlotHeld
from schedulerd.core.language.facts.scheduling_states import (
    PendingReasonChanged,
    SchedulingState,
    SchedulingStateChanged,
)
from schedulerd.daemon.transport import calls as module
from schedulerd.daemon.transport.calls import Calls
from schedulerd.observe.callback_tally import CallbackTally, CallKind
from schedulerd.wire import callback as wire
from schedulerd.wire.callback import InterfaceVersion, NoStateDump
from tests.unit.daemon.fake_call import turns


class World:
    """Calls of one stream, with a clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now_seconds = 100.0
        self.tally = CallbackTally()
        self.calls = Calls("rm", InterfaceVersion.V2023_06, self.tally, lambda: self.now_seconds)

    def want(self, *call_ids: int) -> None:
        for call_id in call_ids:
            self.calls.want_result(PredicateWanted("rm", "default", "app", f"ask-{call_id}", "node", call_id, True))

    def want_preemption(self, call_id: int) -> None:
        self.calls.want_result(
            PreemptionPredicateWanted("rm", "default", "app", f"ask-{call_id}", "node", call_id, ("victim",), 0)
        )

    def tell(self, *keys: str) -> None:
        for key in keys:
            self.calls.tell_state(SchedulingStateChanged("rm", "default", "app", key, SchedulingState.SKIPPED, "quota"))

    def next(self) -> callback_pb2.CallbackCall:
        message = self.calls.next_message()
        assert message is not None
        return callback_pb2.CallbackCall.FromString(message)

    def asked(self) -> list[int]:
        return [call.callID for call in self.next().predicates]


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_message_says_that_the_hello_was_taken_and_no_other_does(world: World) -> None:
    assert world.next() == callback_pb2.CallbackCall(connected=callback_pb2.CallbackConnected())
    assert world.calls.next_message() is None
    world.want(1)
    assert not world.next().HasField("connected")


def test_all_that_waits_goes_in_one_message(world: World) -> None:
    world.want(1, 2)
    world.want_preemption(3)
    world.tell("a", "b")
    world.calls.tell_events([si_pb2.EventRecord(objectID="x"), si_pb2.EventRecord(objectID="y")])
    message = world.next()
    assert [call.callID for call in message.predicates] == [1, 2]
    assert [call.callID for call in message.preemptionPredicates] == [3]
    assert [told.allocationKey for told in message.schedulingStates] == ["a", "b"]
    assert [record.objectID for record in message.events] == ["x", "y"]
    assert world.calls.next_message() is None
    assert world.tally.calls == {
        CallKind.PREDICATES: 2,
        CallKind.PREEMPTION_PREDICATES: 1,
        CallKind.HOLD: 0,
        CallKind.STATE_DUMP: 0,
        CallKind.POD: 0,
        CallKind.SCHEDULING_STATE: 2,
        CallKind.EVENT: 2,
        CallKind.APPLICATION_NOTICE: 0,
    }


def test_more_than_a_message_takes_follows_in_the_next_with_what_is_answered_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "ITEMS_MAX", 3)
    world.tell("a", "b")
    world.want(1, 2, 3, 4)
    assert world.asked() == [1, 2, 3]
    last = world.next()
    assert ([call.callID for call in last.predicates], len(last.schedulingStates)) == ([4], 2)


def test_what_is_not_wanted_any_longer_is_not_sent(world: World) -> None:
    world.want(1, 2)
    world.want_preemption(3)
    world.calls.void_result(1)
    world.calls.void_result(3)
    message = world.next()
    assert ([call.callID for call in message.predicates], len(message.preemptionPredicates)) == ([2], 0)
    assert world.tally.dropped[CallKind.PREDICATES] == world.tally.dropped[CallKind.PREEMPTION_PREDICATES] == 1


def test_an_answer_counts_once_and_only_while_it_is_waited_for(world: World) -> None:
    world.want(1, 2, 3)
    assert not world.calls.answered(CallKind.PREDICATES, 1), "it has not been sent"
    world.next()
    assert world.calls.answered(CallKind.PREDICATES, 1)
    assert not world.calls.answered(CallKind.PREDICATES, 1), "it has been answered"
    assert not world.calls.answered(CallKind.PREEMPTION_PREDICATES, 2), "it is of another kind"
    assert world.calls.answered(CallKind.PREDICATES, 2)
    world.calls.void_result(3)
    assert not world.calls.answered(CallKind.PREDICATES, 3), "it is not wanted any longer"
    assert not world.calls.answered(CallKind.PREDICATES, -9), "nobody asked"
    assert world.tally.late_answers == {
        CallKind.PREDICATES: 4,
        CallKind.PREEMPTION_PREDICATES: 1,
        CallKind.STATE_DUMP: 0,
        CallKind.POD: 0,
    }


def test_what_is_void_is_forgotten_whether_it_was_sent_or_not(world: World) -> None:
    for call_id in range(1000):
        world.want(call_id)
        if call_id % 2:
            world.calls.next_message()
        world.calls.void_result(call_id)
    assert not world.calls._open
    assert not world.calls._results


def test_a_reader_that_falls_behind_gets_the_newest_states_and_events(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "UNSENT_MAX", 3)
    world.tell("a", "b", "c", "d", "e")
    world.calls.tell_events(si_pb2.EventRecord(objectID=name) for name in "vwxyz")
    message = world.next()
    assert [told.allocationKey for told in message.schedulingStates] == ["c", "d", "e"]
    assert [record.objectID for record in message.events] == ["x", "y", "z"]
    assert world.tally.dropped[CallKind.SCHEDULING_STATE] == world.tally.dropped[CallKind.EVENT] == 2


def test_of_each_ask_the_newest_reason_waits_for_a_reader_that_falls_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REASONS_UNSENT_MAX", 2)
    for key, ahead in (("a", 1), ("b", 1), ("b", 2), ("c", 1)):
        world.calls.tell_reason(PendingReasonChanged("rm", "default", "app", key, "ready", None, ahead=ahead))
    assert [(told.allocationKey, told.ahead) for told in world.next().pendingReasons] == [("b", 2), ("c", 1)]
    assert world.tally.dropped[CallKind.SCHEDULING_STATE] == 1


def test_the_sender_is_notified_of_everything_there_is_to_send(world: World) -> None:
    puts: list[Callable[[], None]] = [
        lambda: world.want(1),
        lambda: world.want_preemption(2),
        lambda: world.tell("a"),
        lambda: world.calls.tell_events([si_pb2.EventRecord()]),
    ]
    for put in puts:
        world.calls.changed.clear()
        put()
        assert world.calls.changed.is_set()


def test_the_time_from_call_to_answer_is_measured(world: World) -> None:
    world.want(1)
    world.now_seconds = 107
    world.next()
    world.now_seconds = 107.5
    world.calls.answered(CallKind.PREDICATES, 1)
    samples = {
        sample.labels["le"]: sample.value
        for metric in world.tally.families()
        for sample in metric.samples
        if sample.name == "schedulerd_callback_answer_seconds_bucket" and sample.labels["call"] == "predicates"
    }
    assert (samples["0.25"], samples["0.5"]) == (0, 1)


def test_dumps_are_asked_for_one_at_a_time_and_answered_by_call_id(world: World) -> None:
    async def play() -> None:
        first, second = (asyncio.create_task(world.calls.state_dump()) for _ in range(2))
        await turns(2)
        first_id = world.next().stateDump.callID
        assert world.calls.next_message() is None, "the second one waits"
        world.calls.dumped(first_id, "", "out of paper")
        with pytest.raises(NoStateDump, match="out of paper"):
            await first
        await turns(2)
        second_id = world.next().stateDump.callID
        world.calls.dumped(first_id, '{"first": 1}', "")
        world.calls.dumped(second_id, '{"second": 2}', "")
        assert await second == '{"second": 2}'
        assert (world.tally.calls[CallKind.STATE_DUMP], world.tally.late_answers[CallKind.STATE_DUMP]) == (2, 1)

    asyncio.run(play())


def test_what_an_rm_says_in_place_of_a_dump_is_cut(world: World) -> None:
    async def play() -> None:
        asked = asyncio.create_task(world.calls.state_dump())
        await turns(2)
        world.calls.dumped(world.next().stateDump.callID, "", "x" * 5_000_000)
        with pytest.raises(NoStateDump) as given:
            await asked
        assert str(given.value) == f"the resource manager says: {'x' * 200}... (5000000 characters)"

    asyncio.run(play())


def test_a_dump_that_is_not_waited_for_any_longer_is_not_asked_for_and_leaves_nothing(world: World) -> None:
    async def play() -> None:
        task = asyncio.create_task(world.calls.state_dump())
        await turns(2)
        task.cancel()
        await asyncio.wait({task})
        assert not world.next().HasField("stateDump")
        assert (world.tally.calls[CallKind.STATE_DUMP], world.tally.dropped[CallKind.STATE_DUMP]) == (0, 1)

    asyncio.run(play())


def test_an_answer_to_a_dump_that_was_given_up_is_late_also_while_the_next_one_waits(world: World) -> None:
    async def play() -> None:
        given_up = asyncio.create_task(world.calls.state_dump())
        await turns(2)
        old_id = world.next().stateDump.callID
        given_up.cancel()
        waits = asyncio.create_task(world.calls.state_dump())
        await turns(2)
        world.calls.dumped(old_id, '{"old": true}', "")
        world.calls.dumped(world.next().stateDump.callID, "{}", "")
        assert await waits == "{}"

    asyncio.run(play())


def test_dumps_end_with_the_stream_those_that_wait_for_their_turn_too(world: World) -> None:
    async def play() -> None:
        waiting = [asyncio.create_task(world.calls.state_dump()) for _ in range(3)]
        await turns(2)
        world.calls.close()
        for task in waiting:
            with pytest.raises(NoStateDump, match="its callback stream has ended"):
                await task

    asyncio.run(play())


def held(key: str, node: str = "n") -> SlotHeld:
    return SlotHeld("rm", "default", "app", key, f"id of {key}", node, "w")


def tell_held(world: World, *slots: SlotHeld) -> None:
    for one in slots:
        world.calls.tell_hold(one.uuid, one)


def test_holds_are_told_with_member_or_task_group_before_questions(world: World) -> None:
    tell_held(world, held("slot of a"), held("slots of w", "m"))
    world.calls.want_result(PredicateWanted("rm", "default", "app", "slots of w", "n", 1, True, "w"))
    message = world.next()
    assert [(one.holdID, one.allocationKey, one.taskGroupName, one.nodeID) for one in message.holds] == [
        ("id of slot of a", "a", "w", "n"),
        ("id of slots of w", "", "w", "m"),
    ]
    (question,) = message.predicates
    assert (question.args.allocationKey, question.taskGroupName) == ("", "w")


def test_a_hold_that_ends_is_told_once_with_what_took_its_room(world: World) -> None:
    tell_held(world, held("slot of a"), held("slot of b"))
    world.calls.tell_unhold("id of slot of b")
    assert [one.allocationKey for one in world.next().holds] == ["a"], "the other one was never told"
    world.calls.tell_unhold("id of slot of a", "a")
    world.calls.tell_unhold("id of slot of a")
    world.calls.tell_unhold("unknown")
    assert [(one.holdID, one.takenBy) for one in world.next().unholds] == [("id of slot of a", "a")]
    assert world.calls.next_message() is None
