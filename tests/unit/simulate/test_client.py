"""The client over a real socket: what it sends and hands over, and how it takes refusal, loss and return."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import grpc
import pytest

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.simulate.client import (
    RegistrationRejected,
    ResyncRequired,
    SchedulerClient,
    SchedulerError,
    SchedulerUnreachable,
    StreamRefused,
)
from schedulerd.simulate.requests import RequestBuilder, ask_template
from schedulerd.simulate.workload import SMALL, Workload
from tests.contract.fake_scheduler import FakeScheduler, Faults, fake_scheduler

TIMEOUT_S = 20.0


class Recorder:
    """Keeps what it is told and lets a test wait for it."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.applications: list[str] = []
        self.allocations: list[si_pb2.Allocation] = []
        self.releases: list[si_pb2.AllocationRelease] = []
        self.reconnects = 0
        self._changed = asyncio.Condition()
        self._notifying: set[asyncio.Task[None]] = set()

    def take_nodes(self, response: si_pb2.NodeResponse) -> None:
        self.nodes += [node.nodeID for node in response.accepted]
        self._notify()

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        self.applications += [application.applicationID for application in response.accepted]
        self._notify()

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        self.allocations += response.new
        self.releases += response.released
        self._notify()

    def reconnected(self) -> None:
        self.reconnects += 1
        self._notify()

    async def until(self, reached: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(reached)

    def _notify(self) -> None:
        async def notify() -> None:
            async with self._changed:
                self._changed.notify_all()

        task = asyncio.ensure_future(notify())
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)


def run(
    story: Callable[[FakeScheduler, SchedulerClient, Recorder], Awaitable[None]],
    faults: Faults | None = None,
    *,
    reconnect_timeout_s: float = 10.0,
) -> None:
    """Runs a story of a fake scheduler, a client of it and the client's listener, within a hard time limit."""

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S), fake_scheduler(faults) as fake:
            recorder = Recorder()
            client = SchedulerClient(fake.target, "rm", recorder, reconnect_timeout_s=reconnect_timeout_s)
            try:
                await story(fake, client, recorder)
            finally:
                await client.close()

    asyncio.run(main())


def asks(count: int, first: int = 0) -> si_pb2.AllocationRequest:
    builder = RequestBuilder()
    template = ask_template("app", SMALL)
    for number in range(first, first + count):
        builder.ask(template, f"key-{number}")
    (request,) = builder.take().allocations
    return request


async def bring_up(client: SchedulerClient, recorder: Recorder, nodes: int = 4) -> None:
    await client.register()
    await client.open()
    request = si_pb2.NodeRequest()
    for node in Workload(nodes, 1.0, seed=1).nodes():
        info = request.nodes.add(nodeID=node.node_id, action=si_pb2.NodeInfo.CREATE)
        info.schedulableResource.resources["memory"].value = node.memory_bytes
        info.schedulableResource.resources["vcore"].value = node.vcore_milli
    await client.send_nodes(request)
    await recorder.until(lambda: len(recorder.nodes) == nodes)


def test_everything_sent_arrives_and_everything_received_is_handed_over_and_counted() -> None:
    async def story(fake: FakeScheduler, client: SchedulerClient, recorder: Recorder) -> None:
        await bring_up(client, recorder)
        applications = si_pb2.ApplicationRequest(new=[si_pb2.AddApplicationRequest(applicationID="app")])
        await client.send_applications(applications)
        await recorder.until(lambda: recorder.applications == ["app"])
        await client.send_allocations(asks(50))
        await recorder.until(lambda: len(recorder.allocations) == 50)
        builder = RequestBuilder()
        for allocation in recorder.allocations:
            builder.release("app", allocation.UUID, allocation.allocationKey, si_pb2.STOPPED_BY_RM)
        (releases,) = builder.take().allocations
        await client.send_allocations(releases)
        await recorder.until(lambda: len(recorder.releases) == 50)
        traffic = client.traffic
        assert (traffic.nodes_sent, traffic.nodes_accepted) == (4, 4)
        assert (traffic.applications_sent, traffic.applications_accepted) == (1, 1)
        assert (traffic.asks_sent, traffic.allocations_received) == (50, 50)
        assert (traffic.releases_sent, traffic.releases_received) == (50, 50)
        assert (traffic.messages_sent, traffic.messages_received) == (4, 4)
        assert set(fake.rm_ids) == {"rm"}
        await client.unregister()
        assert fake.unregistered == ["rm"]

    run(story)


def test_nobody_there() -> None:
    async def main() -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            target = f"127.0.0.1:{closed.getsockname()[1]}"
            client = SchedulerClient(target, "rm", Recorder())
            with pytest.raises(SchedulerUnreachable, match=f"nobody answers at {target}"):
                await client.register(timeout_s=0.3)
            await client.close()

    asyncio.run(main())


def test_registration_rejected() -> None:
    async def story(fake: FakeScheduler, client: SchedulerClient, recorder: Recorder) -> None:
        with pytest.raises(RegistrationRejected, match=r"'rm'.*INVALID_ARGUMENT: no such policy group"):
            await client.register()

    run(story, Faults(registration=(grpc.StatusCode.INVALID_ARGUMENT, "no such policy group")))


@pytest.mark.parametrize(
    ("code", "details", "error"),
    [
        (grpc.StatusCode.ABORTED, "RESYNC: state was dropped", ResyncRequired),
        (grpc.StatusCode.FAILED_PRECONDITION, "register first", ResyncRequired),
        (grpc.StatusCode.INVALID_ARGUMENT, "rmID is another", StreamRefused),
        (grpc.StatusCode.INTERNAL, "an error of the scheduler", StreamRefused),
    ],
)
def test_a_stream_ended_for_a_reason_is_not_opened_again(
    code: grpc.StatusCode, details: str, error: type[SchedulerError]
) -> None:
    async def story(fake: FakeScheduler, client: SchedulerClient, recorder: Recorder) -> None:
        await bring_up(client, recorder)
        await client.send_allocations(asks(1))
        with pytest.raises(error, match=details):
            await client.wait_lost()
        with pytest.raises(error, match=details):
            await client.send_allocations(asks(1))
        assert client.traffic.reconnects == 0

    run(story, Faults(lose_stream_at_ask=1, loss=(code, details)))


@pytest.mark.parametrize(
    "loss",
    [
        (grpc.StatusCode.UNAVAILABLE, "going away"),
        # This is how grpc.aio puts it if a message was being written at that moment.
        (grpc.StatusCode.INTERNAL, "Internal error from Core"),
    ],
)
def test_a_lost_stream_is_opened_again_and_the_listener_can_repeat_what_was_lost(
    loss: tuple[grpc.StatusCode, str],
) -> None:
    async def story(fake: FakeScheduler, client: SchedulerClient, recorder: Recorder) -> None:
        await bring_up(client, recorder)
        await client.send_allocations(asks(5))
        await recorder.until(lambda: len(recorder.allocations) == 5)
        await client.send_allocations(asks(5, first=5))
        await recorder.until(lambda: recorder.reconnects == 1)
        assert len(recorder.allocations) == 5
        await client.send_allocations(asks(5, first=5))
        await recorder.until(lambda: len(recorder.allocations) == 10)
        assert len({each.allocationKey for each in recorder.allocations}) == 10
        assert fake.registered == ["rm"]

    run(story, Faults(lose_stream_at_ask=6, loss=loss))


def test_a_client_that_must_not_reconnect_says_what_it_lost() -> None:
    async def story(fake: FakeScheduler, client: SchedulerClient, recorder: Recorder) -> None:
        await bring_up(client, recorder)
        await client.send_allocations(asks(1))
        with pytest.raises(SchedulerUnreachable, match=r"lost the scheduler at .*UNAVAILABLE: going away"):
            await client.wait_lost()

    run(story, Faults(lose_stream_at_ask=1), reconnect_timeout_s=0)


def test_many_asks_in_flight_are_all_answered() -> None:
    async def story(fake: FakeScheduler, client: SchedulerClient, recorder: Recorder) -> None:
        await bring_up(client, recorder, nodes=400)
        for batch in range(10):
            await client.send_allocations(asks(1_000, first=1_000 * batch))
        await recorder.until(lambda: len(recorder.allocations) == 10_000)
        assert len({each.UUID for each in recorder.allocations}) == 10_000

    run(story)
