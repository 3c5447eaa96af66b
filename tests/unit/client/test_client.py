"""The client over a real socket: what it sends and hands over, and how it takes refusal, loss and return."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import grpc
import pytest
import uvloop

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import (
    Client,
    NodeRejected,
    RegistrationRejected,
    ResyncRequired,
    SchedulerError,
    SchedulerUnreachable,
    SendQueueFull,
    StreamRefused,
    Superseded,
    messages,
    update_stream,
)
from tests.contract.client_world import Diary
from tests.contract.fake_scheduler import FakeScheduler, Faults, fake_scheduler

TIMEOUT_S = 20.0
NODE = {"memory": 100, "vcore": 100}
POD = {"memory": 10, "vcore": 10}

Story = Callable[[FakeScheduler, Client, Diary], Awaitable[None]]


def run(story: Story, faults: Faults | None = None, *, reconnect_timeout_s: float = 10.0, resync: bool = True) -> None:
    """Runs a story of a fake scheduler, a client of it and its resource manager, within a hard time limit."""

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S), fake_scheduler(faults) as fake:
            diary = Diary()
            client = Client(fake.target, diary, rm_id="rm", reconnect_timeout_s=reconnect_timeout_s, resync=resync)
            async with client:
                await story(fake, client, diary)

    asyncio.run(main())


async def set_up(client: Client, nodes: int = 4) -> None:
    await asyncio.gather(*(client.add_node(f"node-{number}", NODE) for number in range(nodes)))
    await client.add_application("app", "root.a", user="ann", groups=["staff"], tags={"kind": "batch"})


def ask(client: Client, *numbers: int) -> None:
    for number in numbers:
        client.ask("app", f"pod-{number}", POD)


def test_what_is_said_arrives_and_what_comes_back_is_heard() -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client)
        ask(client, *range(20))
        await diary.until(lambda: len(diary.allocated) == 20)
        assert sorted(each.allocationKey for each in client.allocations()) == sorted(fake.known_keys)
        for allocation in diary.allocated:
            client.release(allocation)
        await diary.until(lambda: len(diary.released) == 20)
        assert client.allocations() == []
        client.remove_application("app")
        assert (fake.registered, set(fake.rm_ids)) == (["rm"], {"rm"})
        assert not fake.placed

    run(story)


def test_what_is_said_at_one_time_goes_out_in_one_request_and_in_order() -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client)
        before = client.requests_sent
        ask(client, 1, 2, 3)
        client.withdraw("app", "pod-1")
        client.ask("app", "pod-1", POD)
        client.ask("app", "pod-4", POD)
        await diary.until(lambda: len(diary.allocated) >= 3)
        assert {each.allocationKey for each in diary.allocated} == {"pod-2", "pod-3", "pod-4"}
        assert client.requests_sent - before == 2, "an ask after a withdrawal needs a request of its own"

    run(story, Faults())


def test_a_request_takes_so_much_and_the_rest_goes_into_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_stream, "ITEMS_PER_REQUEST_MAX", 10)

    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client)
        before = client.requests_sent
        ask(client, *range(25))
        await diary.until(lambda: len(diary.allocated) == 25)
        assert client.requests_sent - before == 3

    run(story, Faults())


def test_the_last_words_are_sent_before_the_connection_is_closed() -> None:
    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S), fake_scheduler() as fake:
            async with Client(fake.target, Diary(), rm_id="rm") as client:
                await set_up(client)
                ask(client, *range(2_500))
                client.remove_application("app")
            assert fake.asks_seen == 2_500
            assert fake.removed_applications == ["app"]

    asyncio.run(main())


def test_a_rejection_is_the_exception_of_the_waiting_call() -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        with pytest.raises(NodeRejected, match="node 'node-1' is rejected: no nodes wanted"):
            await client.add_node("node-1", NODE)
        assert diary.rejections == ["no nodes wanted"]

    run(story, Faults(reject_nodes=True))


def test_a_node_that_is_not_awaited_cannot_be_said_twice() -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        first = client.add_node("node-1", NODE)
        with pytest.raises(ValueError, match="'node-1' was sent before"):
            client.add_node("node-1", NODE)
        await first

    run(story)


def test_an_id_that_no_scheduler_takes_is_not_said() -> None:
    longest = "x" * messages.ID_LENGTH_MAX

    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client)
        too_long = pytest.raises(ValueError, match="has 1025 characters; at most 1024 are allowed")
        with too_long:
            client.add_node(longest + "x", NODE)
        with too_long:
            client.add_application(longest + "x", "root.a", user="ann")
        with too_long:
            client.ask(longest + "x", "pod", POD)
        with too_long:
            client.ask("app", longest + "x", POD)
        client.ask("app", longest, POD)
        await diary.until(lambda: [one.allocationKey for one in diary.allocated] == [longest])

    run(story)


def test_a_registration_that_is_refused_says_why() -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        raise AssertionError("there is nothing to tell")

    with pytest.raises(RegistrationRejected, match=r"'rm'.*INVALID_ARGUMENT: no such policy group"):
        run(story, Faults(registration=(grpc.StatusCode.INVALID_ARGUMENT, "no such policy group")))


def test_a_registration_that_meets_a_scheduler_on_its_way_down_is_not_refused() -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        raise AssertionError("there is nothing to tell")

    with pytest.raises(SchedulerUnreachable, match="no answer from"):
        run(story, Faults(registration=(grpc.StatusCode.CANCELLED, "CANCELLED")))


def test_an_absent_scheduler_is_said_after_the_time_to_connect() -> None:
    async def main(target: str) -> None:
        async with Client(target, Diary(), rm_id="rm", connect_timeout_s=0.1):
            raise AssertionError("nobody is there")

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SchedulerUnreachable, match=f"no scheduler answers at {target}"):
            asyncio.run(main(target))


@pytest.mark.parametrize(
    ("code", "details", "error"),
    [
        (grpc.StatusCode.ABORTED, "RESYNC: state was dropped", ResyncRequired),
        (grpc.StatusCode.FAILED_PRECONDITION, "register first", ResyncRequired),
        (grpc.StatusCode.ABORTED, "registered again", Superseded),
        (grpc.StatusCode.INVALID_ARGUMENT, "rmID is another", StreamRefused),
        (grpc.StatusCode.INTERNAL, "an error of the scheduler", StreamRefused),
        (grpc.StatusCode.UNAVAILABLE, "going away", SchedulerUnreachable),
    ],
)
def test_without_books_any_end_of_a_stream_ends_the_block(
    code: grpc.StatusCode, details: str, error: type[SchedulerError]
) -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client)
        ask(client, 1)
        try:
            await client.serve_forever()
        finally:
            with pytest.raises(error, match=details):
                ask(client, 2)

    with pytest.raises(error, match=details):
        run(story, Faults(lose_stream_at_ask=1, loss=(code, details)), resync=False)


@pytest.mark.parametrize(
    "loss",
    [
        (grpc.StatusCode.UNAVAILABLE, "going away"),
        # This is how grpc.aio puts it if a message was being written at that moment.
        (grpc.StatusCode.INTERNAL, "Internal error from Core"),
        (grpc.StatusCode.ABORTED, "RESYNC: state was dropped"),
    ],
)
def test_a_scheduler_that_cannot_go_on_where_it_was_is_told_everything_again(
    loss: tuple[grpc.StatusCode, str],
) -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client)
        ask(client, *range(5))
        await diary.until(lambda: len(diary.allocated) == 5)
        before = {each.UUID: each.nodeID for each in diary.allocated}
        ask(client, *range(5, 10))
        await diary.until(lambda: len(diary.allocated) == 10)
        assert (fake.registered, diary.resynced, client.times_resynced) == (["rm"] * 2, 1, 1)
        assert len({each.allocationKey for each in diary.allocated}) == 10
        assert {uuid: node_id for uuid, (_, node_id) in fake.placed.items() if uuid in before} == before

    run(story, Faults(lose_stream_at_ask=6, loss=loss))


def test_without_a_limit_it_comes_back_on_uvloop_as_well() -> None:
    async def main() -> None:
        faults = Faults(lose_stream_at_ask=1)
        rm = Diary()
        async with asyncio.timeout(TIMEOUT_S), fake_scheduler(faults) as fake, Client(fake.target, rm, rm_id="rm") as c:
            await set_up(c)
            ask(c, 1)
            await rm.until(lambda: len(rm.allocated) == 1)
            assert c.times_resynced == 1

    uvloop.run(main())


def test_what_a_callback_raises_ends_the_block() -> None:
    class Clumsy(Diary):
        def on_allocated(self, allocation: si_pb2.Allocation) -> None:
            raise LookupError(f"what is {allocation.allocationKey}?")

    class ClumsyLater(Diary):
        async def on_allocated(self, allocation: si_pb2.Allocation) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            raise LookupError(f"what is {allocation.allocationKey}?")

    async def main(rm: Diary) -> None:
        async with asyncio.timeout(TIMEOUT_S), fake_scheduler() as fake, Client(fake.target, rm, rm_id="rm") as client:
            await set_up(client)
            ask(client, 7)
            await client.serve_forever()

    for rm in (Clumsy, ClumsyLater):
        with pytest.raises(LookupError, match="what is pod-7"):
            asyncio.run(main(rm()))


def test_a_call_cancelled_from_outside_stays_cancelled() -> None:
    async def main() -> None:
        async with fake_scheduler() as fake, Client(fake.target, Diary(), rm_id="rm") as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await client.serve_forever()
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0

    asyncio.run(main())


def test_more_than_the_queue_holds_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_stream, "ITEMS_QUEUED_MAX", 10)
    monkeypatch.setattr(update_stream, "DRAINED_ITEMS_MAX", 0)

    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client)
        ask(client, *range(10))
        with pytest.raises(SendQueueFull, match="10 items wait"):
            ask(client, 10)
        assert len(client.allocations()) == 0
        await client.drain()
        ask(client, *range(10, 20))
        await diary.until(lambda: len(diary.allocated) == 20)
        assert fake.asks_seen == 20

    run(story)


def test_many_asks_in_flight_are_all_answered() -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client, nodes=300)
        for first in range(0, 3_000, 500):
            ask(client, *range(first, first + 500))
            await client.drain()
        await diary.until(lambda: len(diary.allocated) == 3_000)
        assert len({each.UUID for each in diary.allocated}) == 3_000

    run(story)


def test_messages_as_they_are_are_in_the_books_too() -> None:
    async def story(fake: FakeScheduler, client: Client, diary: Diary) -> None:
        await set_up(client)
        request = si_pb2.AllocationRequest()
        for number in range(5):
            request.asks.add(applicationID="app", allocationKey=f"raw-{number}", maxAllocations=1)
        client.send(request)
        client.send(si_pb2.ApplicationRequest(new=[si_pb2.AddApplicationRequest(applicationID="raw")]))
        node = si_pb2.NodeInfo(nodeID="raw", action=si_pb2.NodeInfo.CREATE)
        client.send(si_pb2.NodeRequest(nodes=[node]))
        await diary.until(lambda: len(diary.allocated) == 5)
        release = si_pb2.AllocationRequest()
        release.releases.allocationsToRelease.add(
            applicationID="app", UUID=diary.allocated[0].UUID, terminationType=si_pb2.STOPPED_BY_RM
        )
        client.send(release)
        await diary.until(lambda: len(diary.released) == 1)
        assert len(client.allocations()) == 4

    run(story)


class Careful(Diary):
    """Ends what it is asked to end when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = asyncio.Event()

    async def on_release_wanted(self, release: si_pb2.AllocationRelease) -> None:
        await self.may_end.wait()


def preempted(forgotten: bool) -> FakeScheduler:
    """What a scheduler has seen that wanted an allocation back, and perhaps forgot that before it was confirmed."""
    loss = (grpc.StatusCode.ABORTED, "RESYNC: state was dropped")
    faults = Faults(want_back=True, lose_stream_at_ask=2 if forgotten else None, loss=loss)

    async def main() -> FakeScheduler:
        rm = Careful()
        async with asyncio.timeout(TIMEOUT_S), fake_scheduler(faults) as fake:
            async with Client(fake.target, rm, rm_id="rm") as client:
                await set_up(client)
                ask(client, 1)
                await rm.until(lambda: len(rm.allocated) == 1)
                if forgotten:
                    faults.want_back = False
                    ask(client, 2)
                    await rm.until(lambda: rm.resynced == 1 and len(rm.allocated) == 2)
                assert fake.releases == []
                rm.may_end.set()
                await fake.told_of_release.wait()
            return fake

    return asyncio.run(main())


def test_what_the_scheduler_wants_back_is_confirmed_with_its_type_when_it_has_ended() -> None:
    fake = preempted(forgotten=False)
    assert [each.terminationType for each in fake.releases] == [si_pb2.PREEMPTED_BY_SCHEDULER]
    assert not fake.placed


def test_to_a_scheduler_that_knows_nothing_of_its_order_any_longer_it_is_a_release_of_our_own() -> None:
    fake = preempted(forgotten=True)
    assert [each.terminationType for each in fake.releases] == [si_pb2.STOPPED_BY_RM]
    assert [ask.allocationKey for ask, _ in fake.placed.values()] == ["pod-2"]
