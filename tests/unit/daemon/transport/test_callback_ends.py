"""How callback streams begin and end, which stream takes over, and what the scheduler hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import pytest
from structlog.testing import capture_logs

from schedulerd.core.language.commands import DisconnectCallbacks, StopCause, StopResourceManager
from schedulerd.core.language.facts.scheduling_states import SchedulingState, SchedulingStateChanged
from schedulerd.daemon.sessions.open_calls import CloseReason
from tests.unit.daemon.callback_world import CallbackCall, World, connecting, run
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.recording import registration


@pytest.mark.parametrize(
    ("send", "code", "reason"),
    [
        (
            lambda call: call.results(1),
            grpc.StatusCode.INVALID_ARGUMENT,
            "hello: is missing; the first message names the resource manager and the calls that it answers",
        ),
        (
            lambda call: call.requests.put_nowait(b"\xff\xff\xff"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "not a request of Connect: ",
        ),
        (
            lambda call: call.hello(" "),
            grpc.StatusCode.INVALID_ARGUMENT,
            "hello.rmID: is empty; a resource manager names itself by a unique id",
        ),
        (
            lambda call: call.hello("stranger"),
            grpc.StatusCode.FAILED_PRECONDITION,
            "rmID 'stranger' is not registered: call RegisterResourceManager and wait for its answer first",
        ),
        (lambda call: call.hello(version=9), grpc.StatusCode.INVALID_ARGUMENT, "hello.version: 9 is not known; "),
        (lambda call: call.half_close(), grpc.StatusCode.OK, ""),
    ],
)
def test_a_stream_that_does_not_begin_well_ends_with_the_reason(
    send: Callable[[CallbackCall], None], code: grpc.StatusCode, reason: str
) -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        send(context)
        await served
        assert context.status[0] is code
        assert context.status[1].startswith(reason)
        assert world.heard == []
        assert world.tally.streams == 0
        await world.sessions.closed(1)

    run(play)


def test_an_rm_that_was_stopped_is_told_to_resync() -> None:
    async def play(world: World) -> None:
        _, served = await world.connected(predicates=True)
        await (await world.owner.submit(StopResourceManager("rm", StopCause.RECONNECT_TIMEOUT)))
        await served
        context, refused = world.open()
        context.hello()
        await refused
        assert context.status[0] is grpc.StatusCode.ABORTED
        assert context.status[1].startswith("RESYNC")

    run(play)


def test_a_second_hello_or_garbage_later_ends_the_stream_and_nothing_else() -> None:
    async def play(world: World) -> None:
        spoils: list[Callable[[CallbackCall], None]] = [
            lambda call: call.hello(),
            lambda call: call.requests.put_nowait(b"\xff\xff\xff"),
        ]
        for spoil in spoils:
            context, served = await world.connected(predicates=True)
            spoil(context)
            await served
            assert context.status[0] is grpc.StatusCode.INVALID_ARGUMENT
            await turns()
            assert world.heard[-1] == DisconnectCallbacks("rm")
        _, served = await world.connected()
        served.cancel()

    run(play)


def test_a_newer_stream_takes_over_and_what_was_asked_on_the_older_one_is_void() -> None:
    async def play(world: World) -> None:
        older, first = await world.connected(predicates=True)
        world.want(1)
        await turns()
        newer, second = await world.connected(schedulingStates=True)
        await first
        assert older.status[0] is grpc.StatusCode.OK
        assert world.heard == [
            connecting(predicates=True),
            connecting(scheduling_states=True),
        ]
        assert world.tally.streams == 1
        world.want(2)
        newer.results(1)
        await turns()
        assert (older.asked, newer.asked, world.results) == ([1], [2], [])
        second.cancel()

    run(play)


@pytest.mark.parametrize("comes_back", [True, False])
def test_nothing_is_placed_without_its_say_if_an_rm_comes_back_at_once(comes_back: bool) -> None:
    async def play(world: World) -> None:
        world.grace_is_over = False
        _, served = await world.connected(predicates=True)
        served.cancel()
        await asyncio.wait({served})
        assert world.heard == [connecting(predicates=True)]
        if comes_back:
            _, second = await world.connected(predicates=True)
            second.cancel()
        world.end_grace()
        await turns()
        last = connecting(predicates=True) if comes_back else DisconnectCallbacks("rm")
        assert world.heard == [connecting(predicates=True), last]

    run(play)


@pytest.mark.parametrize("how", ["cancelled", "lost", "finished"])
def test_the_scheduler_hears_of_an_end_whatever_causes_it(how: str) -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        if how == "cancelled":
            served.cancel()
        elif how == "lost":
            context.write_error = grpc.aio.InternalError("connection reset")
            world.want(1)
        else:
            context.half_close()
        await asyncio.wait({served})
        await turns()
        assert world.heard == [connecting(predicates=True), DisconnectCallbacks("rm")]
        assert world.tally.streams == 0

    run(play)


def test_an_rm_that_is_only_told_things_may_have_finished_sending() -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(schedulingStates=True)
        context.half_close()
        await turns()
        assert not served.done()
        world.say(SchedulingStateChanged("rm", "default", "app", "ask", SchedulingState.FAILED, "no node"))
        await turns()
        assert [told.reason for told in context.received.schedulingStates] == ["no node"]
        served.cancel()

    run(play)


def test_a_registration_ends_the_stream_of_the_one_before() -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        await (await world.owner.submit(registration("rm")))
        await served
        assert context.status[0] is grpc.StatusCode.ABORTED
        assert "registered again" in context.status[1]
        again, serving = await world.connected(predicates=True)
        await turns()
        assert world.heard[-1] == connecting(predicates=True)
        world.want(1)
        await turns()
        assert (context.asked, again.asked) == ([], [1])
        serving.cancel()

    run(play)


def test_an_rm_that_goes_is_not_reported_as_disconnected_besides() -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        await (await world.owner.submit(StopResourceManager("rm", StopCause.UNREGISTERED)))
        await served
        await turns()
        assert context.status[0] is grpc.StatusCode.OK
        assert world.heard == [connecting(predicates=True)]

    run(play)


def test_a_shutdown_ends_callback_streams_too() -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        world.sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "draining", flush_seconds=5))
        await served
        assert context.status == (grpc.StatusCode.UNAVAILABLE, "draining")
        await world.sessions.closed(1)

    run(play)


def test_a_bug_in_serving_a_callback_stream_ends_that_stream_and_is_logged() -> None:
    async def play(world: World) -> None:
        context, served = await world.connected(predicates=True)
        context.write_error = ZeroDivisionError("a bug")
        world.want(1)
        await served
        assert context.status[0] is grpc.StatusCode.INTERNAL

    with capture_logs() as lines:
        run(play)
    line, told = lines
    assert (line["event"], line["log_level"], line["stream"]) == ("stream failed", "error", "Connect")
    assert (told["event"], told["code"]) == ("call refused", "internal")
