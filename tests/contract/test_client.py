"""`schedulerd.client` and a real daemon: connections that break under load, daemons that forget, daemons that die."""

from __future__ import annotations

import asyncio
import signal

import pytest

from schedulerd.client import (
    ApplicationRejected,
    Client,
    NodeRejected,
    ResyncRequired,
    SchedulerUnreachable,
    Superseded,
    channel,
    connection,
)
from tests.contract.cable import Cable as StillCable
from tests.contract.client_world import (
    NODE,
    POD,
    PODS_PER_NODE,
    Diary,
    a_client,
    bounded,
    logged,
    placed,
    placed_in,
    port,
    set_up,
)
from tests.contract.daemon_process import DaemonProcess
from tests.contract.gangs.cable import Cable
from tests.contract.raw_client import QUEUES

SIGNS_OF_LIFE = {"grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms"}
APPLICATIONS = [f"app-{number}" for number in range(10)]


def ask_for_pods(client: Client, count: int, name: str = "pod") -> None:
    for number in range(count):
        client.ask(APPLICATIONS[number % len(APPLICATIONS)], f"{name}-{number}", POD)


def test_a_rejection_reaches_the_waiting_call_and_the_listener(daemon: DaemonProcess) -> None:
    async def story() -> None:
        diary = Diary()
        async with a_client(daemon.target, diary, "client-rejected") as client:
            await client.add_node("node", NODE)
            with pytest.raises(NodeRejected, match=r"'node'.*registered already"):
                await client.add_node("node", NODE)
            with pytest.raises(ApplicationRejected, match=r"root\.nowhere"):
                await client.add_application("app", "root.nowhere", user="testuser")
            assert len(diary.rejections) == 2

    bounded(story)


@pytest.mark.parametrize(
    ("bytes_max", "cuts"), [(2_500, 8), pytest.param(9_000, 8, marks=pytest.mark.nightly), (70_000, 4)]
)
def test_a_connection_that_breaks_under_load_goes_on_with_nothing_lost_or_doubled(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch, bytes_max: int, cuts: int
) -> None:
    """Every cut comes at an exact byte, in the middle of whatever is on its way; both ways at the same time."""
    monkeypatch.setattr(connection, "BACKOFF_MOST_S", 0.1)
    pods, left = 4_000, iter(range(cuts))

    async def story() -> None:
        diary = Diary()

        def cut_again() -> None:
            if next(left, None) is not None:
                cable.after(bytes_max, cut)

        def cut() -> None:
            cable.disconnect()
            cut_again()

        async with Cable() as cable:
            cable.port = port(daemon)
            async with a_client(cable.target, diary, f"client-cut-{bytes_max}") as client:
                await set_up(client, APPLICATIONS, nodes=pods // PODS_PER_NODE)
                cut_again()
                ask_for_pods(client, pods)
                await diary.until(lambda: len(diary.allocated) >= pods // 2)
                ended = diary.allocated[: pods // 2]
                for allocation in ended:
                    client.release(allocation)
                await diary.until(lambda: len(diary.allocated) >= pods and len(diary.released) >= len(ended))
                assert next(left, None) is None, "not all cuts were made"
                assert client.times_resumed > 0
                assert diary.resumed == client.times_resumed == len(diary.lost)
                assert client.times_resynced == 0
                assert diary.rejections == []
                assert len({each.allocationKey for each in diary.allocated}) == len(diary.allocated) == pods
                assert sorted(diary.released) == sorted(each.UUID for each in ended)
                there = placed(client.allocations())
                assert there == placed(diary.allocated) - placed(ended)
                assert await placed_in(daemon, client, APPLICATIONS) == there

    bounded(story)


def test_away_for_too_long_it_reports_everything_again() -> None:
    async def story() -> None:
        with DaemonProcess("--reconnect-timeout-s", "0.2") as daemon:
            diary = Diary()
            async with Cable() as cable:
                cable.port = port(daemon)
                async with a_client(cable.target, diary, "client-away") as client:
                    await set_up(client, APPLICATIONS)
                    ask_for_pods(client, PODS_PER_NODE + 10)
                    await diary.until(lambda: len(diary.allocated) == PODS_PER_NODE)
                    before = placed(diary.allocated)
                    cable.port = None
                    cable.disconnect()
                    await logged(daemon, client.rm_id, "stopped")
                    ended = [each for each in diary.allocated if each.applicationID == "app-0"][:3]
                    for allocation in ended:
                        client.release(allocation)
                    cable.port = port(daemon)
                    await diary.until(lambda: diary.resynced == 1 and len(diary.released) == 3)
                    await diary.until(lambda: len(diary.allocated) == PODS_PER_NODE + 3)
                    still = before - placed(ended) | placed(diary.allocated[PODS_PER_NODE:])
                    assert placed(client.allocations()) == still
                    assert await placed_in(daemon, client, APPLICATIONS) == still

    bounded(story)


def test_a_scheduler_that_shows_no_sign_of_life_is_lost_even_if_the_connection_stays(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 times as fast as in earnest."""
    times = {name: value // 40 for name, value in channel.OPTIONS if name in SIGNS_OF_LIFE}
    monkeypatch.setattr(channel, "OPTIONS", tuple({**dict(channel.OPTIONS), **times}.items()))

    async def story() -> None:
        with StillCable(daemon.target) as cable:
            client = Client(cable.target, Diary(), rm_id="client-alone", config=QUEUES, reconnect_timeout_s=0)

            async def serve() -> None:
                async with client:
                    await set_up(client, APPLICATIONS)
                    cable.pull()
                    await asyncio.Event().wait()

            with pytest.raises(SchedulerUnreachable, match="ping timeout"):
                await serve()

    bounded(story)


def test_a_daemon_that_was_killed_and_started_again_has_exactly_the_same_allocations() -> None:
    async def story() -> None:
        diary = Diary()
        async with Cable() as cable:
            with DaemonProcess() as first:
                cable.port = port(first)
                client = a_client(cable.target, diary, "client-killed")
                await client.__aenter__()
                await set_up(client, APPLICATIONS, nodes=3)
                client.drain_node("node-002")
                # Nodes and asks go different ways, and asks may be there first.
                await asyncio.to_thread(first.wait_for_event, "node changed", lambda line: line["state"] == "draining")
                ask_for_pods(client, 2 * PODS_PER_NODE + 7)
                await diary.until(lambda: len(diary.allocated) == 2 * PODS_PER_NODE)
                before = await placed_in(first, client, APPLICATIONS)
                first.signal(signal.SIGKILL)
                cable.port = None
            with DaemonProcess() as second:
                cable.port = port(second)
                await diary.until(lambda: diary.resynced == 1)
                assert (diary.resumed, client.times_resumed) == (0, 0), "nothing goes on where it was"
                assert len(diary.lost) == 1, "however often the client tries"
                assert diary.lost[0].startswith("lost the scheduler at ")
                assert await placed_in(second, client, APPLICATIONS) == before == placed(client.allocations())
                assert len(diary.allocated) == 2 * PODS_PER_NODE
                client.undrain_node("node-002")
                await diary.until(lambda: len(diary.allocated) == 2 * PODS_PER_NODE + 7)
                assert {each.nodeID for each in diary.allocated[2 * PODS_PER_NODE :]} == {"node-002"}
                await client.__aexit__(None, None, None)

    bounded(story)


def test_a_client_replaced_by_another_of_the_same_name_does_not_replace_it_in_turn(daemon: DaemonProcess) -> None:
    async def story() -> None:
        async with a_client(daemon.target, Diary(), "client-twice") as first:
            await first.add_node("node", NODE)
            async with a_client(daemon.target, Diary(), "client-twice") as second:
                await second.add_node("node", NODE)
                await first.serve_forever()

    with pytest.raises(Superseded, match="registered again"):
        bounded(story)


def test_without_books_it_fails_where_it_would_have_to_report_again(daemon: DaemonProcess) -> None:
    async def story() -> None:
        async with Client(daemon.target, Diary(), rm_id="client-bookless", resync=False) as client:
            async with Client(daemon.target, Diary(), rm_id="client-bookless", resync=False) as other:
                await other.unregister()
            await client.serve_forever()

    with pytest.raises((ResyncRequired, Superseded)):
        bounded(story)


def test_what_was_said_last_arrives_before_the_connection_is_closed(daemon: DaemonProcess) -> None:
    async def story() -> None:
        diary = Diary()
        async with a_client(daemon.target, diary, "client-last-words") as client:
            await set_up(client, APPLICATIONS, nodes=10)
            ask_for_pods(client, 1_000)
        assert len(diary.allocated) == 1_000

    bounded(story)
