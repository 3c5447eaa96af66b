"""What the scheduler wants of a resource manager made with `schedulerd.client`: allocations back, and results."""

from __future__ import annotations

import asyncio

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import AllocationRelease, PredicatesCall
from tests.contract.client_world import NODE, POD, Diary, a_client, bounded, logged, placed, placed_in, port
from tests.contract.daemon_process import DaemonProcess
from tests.contract.gangs.cable import Cable

PLACEHOLDER_REPLACED = si_pb2.PLACEHOLDER_REPLACED


class Careful(Diary):
    """Ends what it is asked to end when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[AllocationRelease] = []
        self.may_end = asyncio.Event()

    async def on_release_wanted(self, release: AllocationRelease) -> None:
        self.wanted.append(release)
        self.changed()
        await self.may_end.wait()


async def begin_a_swap(rm: Careful) -> None:
    """A gang of one placeholder, and the pod that is to take its room."""
    await rm.client.add_node("node", NODE)
    await rm.client.add_application(
        "gang", "root.a", user="testuser", groups=["testgroup"], placeholders=POD, gang_style="Soft"
    )
    rm.client.ask("gang", "placeholder", POD, task_group="group", placeholder=True)
    await rm.until(lambda: len(rm.allocated) == 1)
    rm.client.ask("gang", "pod", POD, task_group="group")
    await rm.until(lambda: len(rm.wanted) == 1)


def test_a_release_is_confirmed_when_it_is_done_and_not_before(daemon: DaemonProcess) -> None:
    async def story() -> None:
        rm = Careful()
        async with a_client(daemon.target, rm, "client-swap") as client:
            await begin_a_swap(rm)
            assert rm.wanted[0].terminationType == PLACEHOLDER_REPLACED
            assert await placed_in(daemon, client, ["gang"]) == placed(rm.allocated)
            rm.may_end.set()
            await rm.until(lambda: len(rm.allocated) == 2)
            assert await placed_in(daemon, client, ["gang"]) == placed(rm.allocated[1:]) == placed(client.allocations())

    bounded(story)


def test_what_was_wanted_back_by_a_scheduler_that_forgot_it_is_released_all_the_same() -> None:
    async def story() -> None:
        rm = Careful()
        with DaemonProcess("--reconnect-timeout-s", "0.2") as daemon:
            async with Cable() as cable:
                cable.port = port(daemon)
                async with a_client(cable.target, rm, "client-old-order") as client:
                    await begin_a_swap(rm)
                    cable.port = None
                    cable.disconnect()
                    await logged(daemon, client.rm_id, "stopped")
                    cable.port = port(daemon)
                    await rm.until(lambda: rm.resynced == 1)
                    before = len(rm.wanted)
                    rm.may_end.set()
                    await rm.until(lambda: len(rm.allocated) == 2)
                    assert [each.allocationKey for each in rm.allocated] == ["placeholder", "pod"]
                    assert before >= 1
                    assert await placed_in(daemon, client, ["gang"]) == placed(rm.allocated[1:])
                    assert placed(client.allocations()) == placed(rm.allocated[1:])

    bounded(story)


def test_predicate_results_go_on_over_a_connection_that_breaks(daemon: DaemonProcess) -> None:
    class Picky(Diary):
        def __init__(self) -> None:
            super().__init__()
            self.asked = 0

        async def predicates(self, call: PredicatesCall) -> str | None:
            self.asked += 1
            await asyncio.sleep(0)
            return None if call.args.nodeID == "node-1" else "not that one"

    async def story() -> None:
        rm = Picky()
        async with Cable() as cable:
            cable.port = port(daemon)
            async with a_client(cable.target, rm, "client-picky") as client:
                for number in range(3):
                    client.add_node(f"node-{number}", NODE)
                client.add_application("app", "root.a", user="testuser", groups=["testgroup"])
                await rm.until(lambda: rm.accepted == 4)
                for round_number in range(3):
                    for number in range(20):
                        client.ask("app", f"pod-{round_number}-{number}", POD)
                    if round_number < 2:
                        await rm.until(lambda: rm.asked > 0)
                        cable.disconnect()
                        await rm.until(lambda times=round_number + 1: rm.resumed >= times)  # type: ignore[misc]
                    await rm.until(lambda pods=20 * (round_number + 1): len(rm.allocated) == pods)  # type: ignore[misc]
                    rm.asked = 0
                assert client.times_resynced == 0
                assert len({each.allocationKey for each in rm.allocated}) == 60
                assert {each.nodeID for each in rm.allocated} == {"node-1"}

    bounded(story)
