"""How long an update stream waits for its client, to the very moment, on a clock of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import grpc
import pytest
from structlog.testing import capture_logs

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.daemon.sessions.open_calls import CloseReason
from schedulerd.daemon.transport.update_stream import (
    FINISH_SECONDS,
    IN_DOUBT_SECONDS,
    SUPERSEDED_IDLE_SECONDS,
    SUPERSEDED_SECONDS_MAX,
    SUPERSEDED_WRITE_SECONDS,
)
from tests.unit import virtual_loop
from tests.unit.daemon import stream_world
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.stream_world import NodeCall, World

FROM_THE_BEGINNING = (("schedulerd-received", "0"), ("schedulerd-sent", "0"))
MOMENT_SECONDS = 0.001


def run(play: Callable[[World], Coroutine[None, None, None]]) -> None:
    stream_world.run(play, on=virtual_loop.run)


def seconds() -> float:
    return asyncio.get_running_loop().time()


async def taking_nothing(
    world: World, headers: tuple[tuple[str, str], ...] = ()
) -> tuple[NodeCall, asyncio.Task[None]]:
    """A stream with an answer under way to a client that reads nothing."""
    context, served = world.open(headers)
    context.reading.clear()
    context.hello()
    context.send("node-0")
    await turns()
    return context, served


async def overtaken(world: World) -> tuple[NodeCall, asyncio.Task[None], asyncio.Task[None]]:
    """A stream, how it is served, and how the newer one is that waits for its end."""
    older, first = world.open()
    older.send("older-0")
    await turns()
    newer, second = world.open()
    newer.send("newer-0")
    return older, first, second


def test_a_superseded_stream_ends_when_its_client_has_been_silent_for_so_long() -> None:
    async def play(world: World) -> None:
        _, first, second = await overtaken(world)
        await first
        assert seconds() == SUPERSEDED_IDLE_SECONDS
        await turns()
        assert world.nodes == ["older-0", "newer-0"]
        second.cancel()

    run(play)


def test_a_superseded_stream_ends_after_so_long_although_its_client_goes_on() -> None:
    async def play(world: World) -> None:
        older, first, second = await overtaken(world)
        while not first.done():
            older.send("older-again")
            await asyncio.wait({first}, timeout=SUPERSEDED_IDLE_SECONDS / 3)
        assert seconds() == pytest.approx(SUPERSEDED_SECONDS_MAX)
        await turns()
        assert world.nodes[-1] == "newer-0"
        second.cancel()

    run(play)


def test_a_request_that_was_read_is_taken_to_its_end_however_long_that_is() -> None:
    async def parse(raw: bytes) -> si_pb2.NodeRequest:
        request = si_pb2.NodeRequest.FromString(raw)
        if request.nodes[0].nodeID == "older-1":
            await asyncio.sleep(2 * SUPERSEDED_SECONDS_MAX)
        return request

    async def play(world: World) -> None:
        older, first = world.open(parse=parse)
        older.send("older-0", "older-1", "older-2")
        older.half_close()
        await turns()
        newer, second = world.open()
        newer.send("newer-0")
        await first
        assert seconds() == 2 * SUPERSEDED_SECONDS_MAX
        await turns()
        assert world.nodes == ["older-0", "older-1", "newer-0"], "of what came later nothing is begun"
        second.cancel()

    run(play)


def test_a_drain_goes_on_on_the_superseded_stream() -> None:
    async def play(world: World) -> None:
        older, first = await taking_nothing(world)
        older.send("node-1")
        await turns()
        newer, second = world.open()
        newer.hello()
        await turns()
        world.sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "draining", flush_seconds=9))
        await asyncio.sleep(8)
        older.reading.set()
        await asyncio.gather(first, second)
        assert (older.answered, newer.answered) == (["node-0", "node-1"], [])
        assert older.status == newer.status == (grpc.StatusCode.UNAVAILABLE, "draining")

    run(play)


@pytest.mark.parametrize(
    ("reads_after_seconds", "comes_again"),
    [(SUPERSEDED_WRITE_SECONDS - MOMENT_SECONDS, False), (SUPERSEDED_WRITE_SECONDS + MOMENT_SECONDS, True)],
)
def test_what_a_superseded_stream_is_writing_has_so_long_to_get_there(
    reads_after_seconds: float, comes_again: bool
) -> None:
    async def play(world: World) -> None:
        older, first = await taking_nothing(world)
        older.send("node-1")
        older.half_close()
        newer, second = world.open()
        newer.hello()
        await asyncio.wait({first}, timeout=reads_after_seconds)
        older.reading.set()
        await first
        await turns()
        assert seconds() == pytest.approx(min(reads_after_seconds, SUPERSEDED_WRITE_SECONDS))
        assert older.status == (grpc.StatusCode.OK, "")
        assert older.answered == ([] if comes_again else ["node-0"])
        assert newer.answered == (["node-0", "node-1"] if comes_again else ["node-1"])
        second.cancel()

    run(play)


def test_a_client_that_has_finished_has_so_long_to_read() -> None:
    async def play(world: World) -> None:
        context, served = await taking_nothing(world, FROM_THE_BEGINNING)
        context.half_close()
        await served
        assert (seconds(), context.answered) == (FINISH_SECONDS, [])

    run(play)


def test_a_drain_waits_as_long_as_it_was_told_to() -> None:
    async def play(world: World) -> None:
        context, served = await taking_nothing(world)
        world.sessions.close(CloseReason(grpc.StatusCode.UNAVAILABLE, "draining", flush_seconds=9))
        await served
        assert (seconds(), context.status) == (9, (grpc.StatusCode.UNAVAILABLE, "draining"))
        assert context.answered == []

    run(play)


@pytest.mark.parametrize(
    ("after_seconds", "told"), [(IN_DOUBT_SECONDS - MOMENT_SECONDS, True), (IN_DOUBT_SECONDS, False)]
)
def test_what_was_written_so_long_before_a_loss_counts_as_read(after_seconds: float, told: bool) -> None:
    async def play(world: World) -> None:
        context, served = world.open()
        context.hello()
        context.send("node-0")
        await turns()
        assert context.answered == ["node-0"]
        await asyncio.sleep(after_seconds)
        served.cancel()
        await asyncio.wait({served})

    with capture_logs() as lines:
        run(play)
    assert ("connection lost while responses were on their way" in [line["event"] for line in lines]) is told
