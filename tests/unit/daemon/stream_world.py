"""A running owner with its sessions, and calls of update streams whose client is played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import cast

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.commands import UpdateNodes
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.request_limits import RequestLimits
from schedulerd.daemon.transport.stream_call import Parse, ServicerContext
from schedulerd.daemon.transport.update_stream import UpdateMethod, UpdateStream
from schedulerd.wire.decode import RequestDecoder
from schedulerd.wire.dialect import Stream
from schedulerd.wire.encode import ResponseEncoder
from tests.instants import at
from tests.unit.daemon.fake_call import FakeContext, until_over
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, registration

LIMITS = RequestLimits(items_max=1_000, resource_managers_max=1)
PARSE_NODES = LIMITS.parser(si_pb2.NodeRequest)


class NodeCall(FakeContext):
    """A call of UpdateNode."""

    def send(self, *node_ids: str, rm_id: str = "rm") -> None:
        for node_id in node_ids:
            nodes = [si_pb2.NodeInfo(nodeID=node_id, action=si_pb2.NodeInfo.CREATE)]
            self.requests.put_nowait(si_pb2.NodeRequest(rmID=rm_id, nodes=nodes).SerializeToString())

    def hello(self) -> None:
        self.requests.put_nowait(si_pb2.NodeRequest(rmID="rm").SerializeToString())

    @property
    def answered(self) -> list[str]:
        """Ids of the nodes that were answered, either way."""
        response = si_pb2.NodeResponse.FromString(b"".join(self.responses))
        return [*(node.nodeID for node in response.rejected), *(node.nodeID for node in response.accepted)]


class World:
    """A running owner with its sessions, and calls that are served."""

    def __init__(self, outbox_bytes_max: int = 1_000_000, in_doubt_seconds: float | None = None) -> None:
        self.scheduler = RecordingScheduler()
        self.sessions = RmSessions(
            ResponseEncoder(),
            lambda command: self.owner.post(command),
            outbox_bytes_max=outbox_bytes_max,
            in_doubt_seconds=in_doubt_seconds,
        )
        self.owner = Owner(
            self.scheduler,
            [self.sessions.deliver],
            NoStopwatch(),
            inbox_max=100,
            placements_max=10,
            clocks=lambda: at(SECOND_NS),
        )

    def open(
        self,
        headers: tuple[tuple[str, str], ...] = (),
        parse: Parse[si_pb2.NodeRequest] = PARSE_NODES,
        client: str = "ipv4:10.0.0.1:1000",
    ) -> tuple[NodeCall, asyncio.Task[None]]:
        context = NodeCall()
        context.client = client
        context.request_headers = headers
        update = UpdateMethod(Stream.NODE, parse, RequestDecoder().nodes)
        stream = UpdateStream(update, GrpcAccess(), self.sessions, self.owner, cast(ServicerContext, context))
        return context, asyncio.create_task(until_over(stream))

    @property
    def nodes(self) -> list[str]:
        """Ids of the nodes in the order in which the scheduler was told of them."""
        updates = [command for _, command in self.scheduler.stepped if isinstance(command, UpdateNodes)]
        return [node.node_id for update in updates for node in update.nodes]


def run(
    play: Callable[[World], Coroutine[None, None, None]],
    world: World | None = None,
    on: Callable[[Coroutine[None, None, None]], None] = asyncio.run,
) -> None:
    """Plays for up to 10 s on the clock of the loop that `on` makes."""

    async def all_of_it() -> None:
        played = world or World()
        owner = asyncio.create_task(played.owner.run())
        async with asyncio.timeout(10):
            await (await played.owner.submit(registration()))
            await play(played)
        owner.cancel()
        await asyncio.wait({owner})

    on(all_of_it())
