"""What goes over a callback stream: hello, calls, answers, and what a slow or a strange client costs."""

from __future__ import annotations

import asyncio

import pytest

from schedulerd._generated.schedulerd.v1 import callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.facts.predicates import PredicateNotWanted
from schedulerd.core.language.facts.queues import QueueNameUnused
from schedulerd.core.language.facts.scheduling_states import SchedulingState, SchedulingStateChanged
from schedulerd.daemon.admin.state_service import DUMP_TIMEOUT_SECONDS
from schedulerd.daemon.sessions.back_pressure import COMMANDS_UNDER_WAY_MAX
from schedulerd.daemon.transport import callback_stream
from schedulerd.daemon.transport import calls as calls_module
from schedulerd.daemon.transport.calls import PODS_ASKED_MAX
from schedulerd.instant import Instant
from schedulerd.observe.callback_tally import CallKind
from schedulerd.wire import callback as wire
from schedulerd.wire.callback import InterfaceVersion, NoPodAnswer, NoStateDump
from tests.unit import virtual_loop
from tests.unit.daemon.callback_world import World, connecting, run
from tests.unit.daemon.fake_call import turns


def test_an_rm_is_asked_and_its_answers_reach_the_scheduler() -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        assert world.heard == [connecting(predicates=True)]
        assert world.tally.streams == 1
        world.want(1, 2, 3)
        world.want(9, rm_id="other")
        await turns()
        assert context.asked == [1, 2, 3]
        context.results(2, 1)
        context.results(3)
        await turns()
        assert world.results == [2, 1, 3]
        served.cancel()

    run(play)


def test_facts_of_one_turn_make_one_message() -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        world.want(*range(100))
        await turns()
        assert len(context.responses) == 2
        served.cancel()

    run(play)


def test_nothing_is_sent_before_the_scheduler_has_taken_the_hello() -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        context.hello(predicates=True)
        await asyncio.sleep(0)
        while not world.heard:
            assert not context.responses
            await asyncio.sleep(0)
        await turns()
        assert context.received.HasField("connected")
        served.cancel()

    run(play)


def test_answers_to_no_call_are_counted_and_go_no_further() -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        world.want(1, 2)
        await turns()
        world.say(PredicateNotWanted("rm", 2))
        context.results(1, 1, 2, 77)
        context.answer(callback_pb2.CallbackAnswer(stateDump=callback_pb2.StateDumpAnswer(callID=1, dump="{}")))
        await turns()
        assert world.results == [1]
        assert world.tally.late_answers[CallKind.PREDICATES] == 3
        assert world.tally.late_answers[CallKind.STATE_DUMP] == 1
        assert not served.done()
        served.cancel()

    run(play)


def test_a_client_that_does_not_read_costs_what_is_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "UNSENT_MAX", 10)

    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True, schedulingStates=True, events=True)
        context.reading.clear()
        for number in range(100):
            world.want(number)
            world.say(SchedulingStateChanged("rm", "default", "app", str(number), SchedulingState.SKIPPED, ""))
            world.callbacks.send_events("rm", [si_pb2.EventRecord(objectID=str(number))])
            await turns(3)
            world.say(PredicateNotWanted("rm", number))
        context.reading.set()
        await turns()
        assert [told.allocationKey for told in context.received.schedulingStates][-10:] == list(
            map(str, range(90, 100))
        )
        assert [record.objectID for record in context.received.events][-10:] == list(map(str, range(90, 100)))
        assert len(context.received.schedulingStates) == 100 - world.tally.dropped[CallKind.SCHEDULING_STATE] < 100
        assert len(context.asked) == 100 - world.tally.dropped[CallKind.PREDICATES] < 100
        served.cancel()

    run(play)


def test_answers_wait_while_the_inbox_has_enough_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.daemon.runtime.owner.TURN_SECONDS", -1.0)
    monkeypatch.setattr(wire, "ITEMS_MAX", 1)
    depths = []

    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        world.want(*range(40))
        await turns(200)
        context.results(*range(40))
        while len(world.results) < 40:
            depths.append(world.owner.depth)
            await turns(1)
        served.cancel()

    run(play)
    assert max(depths) == COMMANDS_UNDER_WAY_MAX


def test_the_loop_turns_while_a_message_full_of_rubbish_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "ITEMS_MAX", 10)

    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        context.results(*range(1000))
        passed = 0
        while world.tally.late_answers[CallKind.PREDICATES] < 1000:
            passed += 1
            await asyncio.sleep(0)
        assert passed >= 100
        served.cancel()

    run(play)


def test_events_go_to_the_streams_that_want_them_in_their_version() -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        context.hello(version=callback_pb2.INTERFACE_VERSION_2023_06, events=True)
        other, serving = await world.connected("other", predicates=True)
        await turns()
        assert world.callbacks.event_listeners() == {"rm": InterfaceVersion.V2023_06}
        assert world.callbacks.listeners_changed.is_set()
        for rm_id in ("rm", "other", "stranger"):
            world.callbacks.send_events(rm_id, [si_pb2.EventRecord(objectID="node-1")])
        await turns()
        assert [record.objectID for record in context.received.events] == ["node-1"]
        assert not other.received.events
        world.callbacks.listeners_changed.clear()
        served.cancel()
        await asyncio.wait({served})
        assert world.callbacks.listeners_changed.is_set()
        assert world.callbacks.event_listeners() == {}
        serving.cancel()

    run(play)


def test_notices_go_to_the_streams_that_want_them() -> None:
    async def play(world: World) -> None:
        told, serving = await world.connected(applicationNotices=True)
        other, serving_other = await world.connected("other", predicates=True)
        facts = [QueueNameUnused(rm_id, "default", "root.q", "app", "because") for rm_id in ("rm", "other", "stranger")]
        world.callbacks.deliver(facts, Instant(0, 0))
        await turns()
        assert [(one.applicationID, one.message) for one in told.received.applicationNotices] == [("app", "because")]
        assert not other.received.applicationNotices
        serving.cancel()
        serving_other.cancel()

    run(play)


def test_an_rm_gives_its_state_dump_or_there_is_a_reason_why_not() -> None:
    async def play(world: World) -> None:
        with pytest.raises(NoStateDump, match="has no callback stream"):
            await world.callbacks.state_dump("rm", 1)
        _, serving = await world.connected("other")
        with pytest.raises(NoStateDump, match="does not serve state dumps"):
            await world.callbacks.state_dump("other", 1)
        context, served = await world.connected(stateDump=True)
        wanted = asyncio.create_task(world.callbacks.state_dump("rm", 5))
        await turns()
        call_id = context.received.stateDump.callID
        context.answer(callback_pb2.CallbackAnswer(stateDump=callback_pb2.StateDumpAnswer(callID=call_id, dump="{}")))
        assert await wanted == "{}"
        wanted = asyncio.create_task(world.callbacks.state_dump("rm", 5))
        await turns()
        why_not = callback_pb2.StateDumpAnswer(callID=context.received.stateDump.callID, error="out of paper")
        context.answer(callback_pb2.CallbackAnswer(stateDump=why_not))
        with pytest.raises(NoStateDump, match="out of paper"):
            await wanted
        served.cancel()
        serving.cancel()

    run(play)


def test_an_rm_is_asked_about_a_pod_and_one_that_says_nothing_does_not_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(callback_stream, "POD_SECONDS", 0.2)

    async def play(world: World) -> None:
        with pytest.raises(NoPodAnswer, match=r"^it has no callback stream$"):
            await world.callbacks.pod_said("rm", "ns", "p")
        _, serving = await world.connected("other")
        with pytest.raises(NoPodAnswer, match=r"^it does not answer questions about pods$"):
            await world.callbacks.pod_said("other", "ns", "p")
        context, served = await world.connected(pods=True)

        async def ask(*names: str) -> tuple[list[asyncio.Task[str]], list[callback_pb2.PodCall]]:
            wanted = [asyncio.create_task(world.callbacks.pod_said("rm", "ns", name)) for name in names]
            await turns()
            return wanted, list(context.received.pods)

        wanted, calls = await ask("a", "b")
        assert [(call.namespace, call.name) for call in calls] == [("ns", "a"), ("ns", "b")]
        answers = [callback_pb2.PodAnswer(callID=call.callID, said=call.name * 100_000) for call in calls]
        context.answer(callback_pb2.CallbackAnswer(pods=[*reversed(answers), *answers]))
        assert [(said[:2], len(said) < 3_000) for said in await asyncio.gather(*wanted)] == [("aa", True), ("bb", True)]
        assert world.tally.late_answers[CallKind.POD] == 2
        (unknown,), (*_, call) = await ask("u")
        assert call.name == "u"
        context.answer(callback_pb2.CallbackAnswer(pods=[callback_pb2.PodAnswer(callID=call.callID)]))
        assert await unknown == ""
        (silent,), _ = await ask("c")
        with pytest.raises(NoPodAnswer, match=r"^it gave no answer within 0.2 s; try again$"):
            await silent
        wanted, _ = await ask(*map(str, range(PODS_ASKED_MAX + 1)))
        assert [one.done() for one in wanted] == [False] * PODS_ASKED_MAX + [True]
        served.cancel()
        *ended, one_more = await asyncio.gather(*wanted, return_exceptions=True)
        assert {str(one) for one in ended} == {"its callback stream has ended"}
        assert str(one_more) == "50 answers about pods are waited for already; try again"
        serving.cancel()

    run(play)


@pytest.mark.parametrize(("late", "dump"), [(False, "{}"), (True, "no answer of the resource manager within 5 s")])
def test_an_rm_has_so_long_to_give_its_state_dump(late: bool, dump: str) -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(stateDump=True)
        wanted = asyncio.create_task(world.callbacks.state_dump("rm", DUMP_TIMEOUT_SECONDS))
        await asyncio.sleep(DUMP_TIMEOUT_SECONDS + (0.001 if late else -0.001))
        call_id = context.received.stateDump.callID
        context.answer(callback_pb2.CallbackAnswer(stateDump=callback_pb2.StateDumpAnswer(callID=call_id, dump="{}")))
        (given,) = await asyncio.gather(wanted, return_exceptions=True)
        assert str(given) == dump
        assert isinstance(given, NoStateDump) is late
        served.cancel()

    run(play, on=virtual_loop.run)
