"""How a stream of 2021-02 is told to resynchronise: by a response, and by the status if the client takes none."""

from __future__ import annotations

import asyncio
from typing import cast

import grpc
import pytest

from schedulerd._generated.si.v2021_02 import si_pb2
from schedulerd.core.language.commands import StopCause, StopResourceManager
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.transport import update_stream as module
from schedulerd.daemon.transport.stream_call import ServicerContext
from schedulerd.daemon.transport.update_stream import UpdateMethod, UpdateStream
from schedulerd.wire.decode_2021 import UpdateDecoder
from schedulerd.wire.dialect import Stream
from schedulerd.wire.response_builder_2021 import RESYNC_RESPONSE
from schedulerd.wire.shared_resources import SharedResources
from tests.unit import virtual_loop
from tests.unit.daemon.fake_call import FakeContext, turns, until_over
from tests.unit.daemon.stream_world import LIMITS, World, run

STOP = StopResourceManager("rm", StopCause.RECONNECT_TIMEOUT)
OK = (grpc.StatusCode.OK, "")


def opened(world: World) -> tuple[FakeContext, asyncio.Task[None]]:
    """A call of Update whose client has said who it is."""
    context = FakeContext()
    decoder = UpdateDecoder(SharedResources(), {})
    parse = LIMITS.parser(si_pb2.UpdateRequest)
    update = UpdateMethod(Stream.UPDATE, parse, decoder.commands, resync=RESYNC_RESPONSE)
    stream = UpdateStream(update, GrpcAccess(), world.sessions, world.owner, cast(ServicerContext, context))
    context.requests.put_nowait(si_pb2.UpdateRequest(rmID="rm").SerializeToString())
    return context, asyncio.create_task(until_over(stream))


def add_node(context: FakeContext) -> None:
    request = si_pb2.UpdateRequest(rmID="rm", newSchedulableNodes=[si_pb2.NewNodeInfo(nodeID="n1")])
    context.requests.put_nowait(request.SerializeToString())


def test_an_open_stream_is_told_and_ends_with_ok() -> None:
    async def play(world: World) -> None:
        context, served = opened(world)
        add_node(context)
        await turns()
        await (await world.owner.submit(STOP))
        await served
        assert len(context.responses) == 2, "what was taken before, and this"
        assert (context.responses[-1], context.status) == (RESYNC_RESPONSE, OK)

    run(play)


def test_a_stopped_rm_is_told_on_the_stream_it_opens() -> None:
    async def play(world: World) -> None:
        await (await world.owner.submit(STOP))
        context, served = opened(world)
        await served
        assert (context.responses, context.status) == ([RESYNC_RESPONSE], OK)

    run(play)


def test_a_stopped_rm_that_comes_back_in_the_other_dialect_is_told_in_that_one() -> None:
    async def play(world: World) -> None:
        first, served = opened(world)
        await turns()
        await (await world.owner.submit(STOP))
        await served
        context, served = world.open()
        context.send("node-0")
        await served
        assert first.responses == [RESYNC_RESPONSE]
        assert (context.responses, context.status[0]) == ([], grpc.StatusCode.ABORTED)
        assert context.status[1].startswith("RESYNC")

    run(play)


def test_what_is_under_way_is_taken_first_and_what_waits_is_void() -> None:
    async def play(world: World) -> None:
        context, served = opened(world)
        await turns()
        context.reading.clear()
        add_node(context)
        await turns()
        add_node(context)
        await turns()
        await (await world.owner.submit(STOP))
        await turns()
        assert not served.done()
        context.reading.set()
        await served
        under_way, told = context.responses
        assert len(si_pb2.UpdateResponse.FromString(under_way).acceptedNodes) == 1
        assert (told, context.status) == (RESYNC_RESPONSE, OK)

    run(play)


def test_a_client_that_takes_nothing_gets_the_status() -> None:
    async def play(world: World) -> None:
        context, served = opened(world)
        await turns()
        context.reading.clear()
        add_node(context)
        await turns()
        await (await world.owner.submit(STOP))
        await served
        assert asyncio.get_running_loop().time() == module.RESYNC_SECONDS
        assert context.responses == []
        assert context.status[0] is grpc.StatusCode.ABORTED
        assert context.status[1].startswith("RESYNC")

    run(play, on=virtual_loop.run)


@pytest.mark.parametrize("lost", [True, False])
def test_a_client_that_cannot_be_told_gets_the_status(monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    monkeypatch.setattr(module, "RESYNC_SECONDS", 0.001)

    async def play(world: World) -> None:
        context, served = opened(world)
        await turns()
        if lost:
            context.write_error = grpc.aio.InternalError("connection reset")
        else:
            context.reading.clear()
        await (await world.owner.submit(STOP))
        await served
        assert (context.responses, context.status[0]) == ([], grpc.StatusCode.ABORTED)

    run(play)


def test_an_rm_that_unregisters_or_registers_again_is_not_told_to_resync() -> None:
    async def play(world: World) -> None:
        context, served = opened(world)
        await turns()
        await (await world.owner.submit(StopResourceManager("rm", StopCause.UNREGISTERED)))
        await served
        assert (context.responses, context.status) == ([], OK)

    run(play)
