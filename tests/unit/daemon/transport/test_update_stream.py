"""One stream with its client played by the test: order at a take-over, pacing, and ends."""

from __future__ import annotations

import asyncio
import gc

import grpc
import pytest
from structlog.testing import capture_logs

from schedulerd._generated.si.v1.si_pb2 import NodeRequest
from schedulerd.daemon.sessions.back_pressure import COMMANDS_UNDER_WAY_MAX
from schedulerd.daemon.sessions.open_calls import CloseReason
from schedulerd.daemon.sessions.resumption import RECEIVED_HEADER, SENT_HEADER
from schedulerd.daemon.transport import update_stream as module
from schedulerd.daemon.transport.update_stream import UpdateStream
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.stream_world import World, run

AT_THE_BEGINNING = ((RECEIVED_HEADER, "0"), (SENT_HEADER, "0"))


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def test_a_newer_stream_begins_where_the_older_one_ended() -> None:
    async def play(world: World) -> None:
        older, first = world.open()
        older.send(*names("older", 30))
        older.half_close()
        await turns(5)
        newer, second = world.open()
        newer.send(*names("newer", 3))
        await first
        assert older.status[0] is grpc.StatusCode.OK
        await turns()
        assert world.nodes == [*names("older", 30), *names("newer", 3)]
        assert sorted([*older.answered, *newer.answered]) == sorted(world.nodes)
        second.cancel()

    run(play)


def test_a_superseded_stream_ends_only_when_the_request_it_is_reading_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SUPERSEDED_IDLE_SECONDS", 0.001)

    async def play(world: World) -> None:
        looks, may_go_on = 0, asyncio.Event()
        looked = UpdateStream._has_read_all

        async def look(stream: UpdateStream[NodeRequest]) -> bool:
            nonlocal looks
            looks += 1
            if looks == 4:
                may_go_on.set()
            return await looked(stream)

        monkeypatch.setattr(UpdateStream, "_has_read_all", look)

        async def parse(raw: bytes) -> NodeRequest:
            request = NodeRequest.FromString(raw)
            if request.nodes[0].nodeID == "older-1":
                await may_go_on.wait()
            return request

        older, first = world.open(parse=parse)
        older.send("older-0", "older-1")
        await turns()
        newer, second = world.open()
        newer.send("newer-0")
        await first
        await turns()
        assert world.nodes == ["older-0", "older-1", "newer-0"]
        second.cancel()

    run(play)


def test_three_streams_follow_each_other() -> None:
    async def play(world: World) -> None:
        calls = [world.open() for _ in range(3)]
        for number, (context, _) in enumerate(calls):
            context.send(*names(f"stream-{number}", 4))
            context.half_close()
            await turns(3)
        await asyncio.wait({calls[0][1], calls[1][1]})
        await turns()
        assert world.nodes == [name for number in range(3) for name in names(f"stream-{number}", 4)]
        calls[2][1].cancel()

    run(play)


def test_a_stream_that_goes_while_it_waits_for_its_turn_does_not_change_the_order_of_others() -> None:
    async def play(world: World) -> None:
        older, first = world.open()
        older.send("older-0")
        await turns()
        middle, second = world.open()
        middle.send("middle-0")
        await turns()
        newer, third = world.open()
        newer.send("newer-0")
        await turns()
        second.cancel()
        older.send("older-1")
        await turns()
        assert world.nodes == ["older-0", "older-1"]
        older.half_close()
        await first
        await turns()
        assert world.nodes == ["older-0", "older-1", "newer-0"], "and what went with its stream was not taken"
        third.cancel()

    run(play)


def test_what_a_broken_stream_did_not_take_is_the_first_thing_the_next_one_gets() -> None:
    async def play(world: World) -> None:
        broken, first = world.open()
        broken.reading.clear()
        broken.send("node-0")
        await turns()
        first.cancel()
        await asyncio.wait({first})
        assert broken.answered == []
        back, second = world.open()
        back.send("node-1")
        await turns()
        assert back.answered == ["node-0", "node-1"]
        second.cancel()

    run(play)


def test_a_client_that_is_gone_while_it_is_written_to_is_no_error() -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        context.write_error = grpc.aio.InternalError("connection reset")
        context.send("node-0")
        await served
        assert world.sessions.depth == 1, "what it did not take waits"

    with capture_logs() as lines:
        run(play)
    doubt = ("connection lost while responses were on their way", "warning")
    assert [(line["event"], line["log_level"]) for line in lines] == [("stream lost", "debug"), doubt]


@pytest.mark.parametrize(
    ("headers", "seconds_before", "told"),
    [((), 0.0, True), ((), 2 * module.IN_DOUBT_SECONDS, False), (AT_THE_BEGINNING, 0.0, False)],
    ids=["just now", "long ago", "says how far it has come"],
)
def test_the_operator_is_told_of_a_client_that_may_not_have_got_all(
    monkeypatch: pytest.MonkeyPatch, headers: tuple[tuple[str, str], ...], seconds_before: float, told: bool
) -> None:
    async def play(world: World) -> None:
        context, served = world.open(headers)
        context.hello()
        context.send("node-0")
        await turns()
        assert context.answered == ["node-0"]
        now = asyncio.get_running_loop().time()
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now + seconds_before)
        served.cancel()
        await asyncio.wait({served})

    with capture_logs() as lines:
        run(play)
    assert ("connection lost while responses were on their way" in [line["event"] for line in lines]) is told


def test_a_bug_in_serving_a_stream_ends_that_stream_and_is_logged() -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        context.write_error = ZeroDivisionError("a bug")
        context.send("node-0")
        await served
        assert context.status[0] is grpc.StatusCode.INTERNAL
        other, serving = world.open()
        other.send("node-1")
        await turns()
        assert other.answered == ["node-0", "node-1"]
        serving.cancel()

    with capture_logs() as lines:
        run(play)
    line, told, _ = lines
    assert (line["event"], line["log_level"]) == ("stream failed", "error")
    assert (told["event"], told["code"]) == ("call refused", "internal")


def test_only_a_few_commands_of_a_stream_wait_in_the_inbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.daemon.runtime.owner.TURN_SECONDS", -1.0)
    depths = []

    async def play(world: World) -> None:
        context, served = world.open()
        context.send(*names("node", 40))
        while len(world.nodes) < 40:
            depths.append(world.owner.depth)
            await turns(1)
        served.cancel()

    run(play)
    assert max(depths) == COMMANDS_UNDER_WAY_MAX


def test_requests_wait_while_the_client_does_not_read() -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        context.reading.clear()
        context.send(*names("n" * 100, 30))
        await turns(200)
        unread = context.requests.qsize()
        assert unread > 0
        assert len(world.nodes) < 30
        context.reading.set()
        await turns(200)
        assert context.answered == names("n" * 100, 30)
        served.cancel()

    run(play, World(outbox_bytes_max=2000))


def test_a_superseded_stream_reads_on_even_if_its_client_does_not_read() -> None:
    async def play(world: World) -> None:
        older, first = world.open()
        older.reading.clear()
        older.send(*names("n" * 100, 16))
        older.half_close()
        await turns(200)
        assert len(world.nodes) < 16
        newer, second = world.open()
        newer.send("newer")
        await first
        await turns(200)
        assert world.nodes == [*names("n" * 100, 16), "newer"]
        assert newer.answered == world.nodes
        second.cancel()

    run(play, World(outbox_bytes_max=2000))


def test_a_drain_lets_the_reader_have_what_waits_first() -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        context.reading.clear()
        context.send("node-0")
        await turns()
        world.sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "draining", flush_seconds=5))
        await turns()
        assert not served.done()
        context.reading.set()
        await served
        assert context.answered == ["node-0"]
        assert context.status == (grpc.StatusCode.UNAVAILABLE, "draining")
        await world.sessions.closed(1)

    run(play)


def test_a_stream_that_opens_while_the_daemon_shuts_down_is_told_so_and_leaves_nothing_undone() -> None:
    async def play(world: World) -> None:
        world.sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "draining"))
        context, served = world.open()
        await served
        assert context.status == (grpc.StatusCode.UNAVAILABLE, "draining")
        await world.sessions.closed(1)

    run(play)
    gc.collect()  # what was never awaited is complained of when it is collected


@pytest.mark.parametrize("turns_between", range(4))
def test_a_call_cancelled_while_it_ends_by_itself_still_leaves(turns_between: int) -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        context.send("node-0")
        await turns()
        context.send("node-1", rm_id="another")
        while context.requests.qsize():
            await turns(1)
        await turns(turns_between)
        served.cancel()
        await asyncio.wait({served})
        newer, second = world.open()
        newer.send("node-2")
        await turns()
        assert world.nodes == ["node-0", "node-2"]
        second.cancel()

    run(play)
