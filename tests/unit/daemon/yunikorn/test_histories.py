"""What is remembered beside the state: minutes, and what ended allocations used."""

from __future__ import annotations

import asyncio

from schedulerd.core.language.commands import (
    AllocationRelease,
    NewAsk,
    NodeAction,
    NodeUpdate,
    StopCause,
    StopResourceManager,
    UpdateAllocations,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.yunikorn.history import SAMPLE_SECONDS, SAMPLES_MAX, History
from tests.rest.world import EPOCH_NS, START_NS, World
from tests.unit import virtual_loop
from tests.unit.daemon.yunikorn.cluster import RM, cluster, get

P = "/ws/v1/partition/default"


def test_a_sample_each_minute_the_oldest_first() -> None:
    world = cluster()
    assert get(world, "/ws/v1/history/apps").json == []
    world.sleep(130 * SECOND_NS)
    apps, containers = (get(world, f"/ws/v1/history/{kind}").json for kind in ("apps", "containers"))
    times = [EPOCH_NS + START_NS + minute * 60 * SECOND_NS for minute in (1, 2)]
    assert apps == [{"timestamp": at_ns, "totalApplications": "1"} for at_ns in times]
    assert containers == [{"timestamp": at_ns, "totalContainers": "1"} for at_ns in times]


def test_a_day_of_minutes_is_kept() -> None:
    world = cluster()
    for _ in range(SAMPLES_MAX + 5):
        world.history.sample()
    assert len(world.history.samples) == SAMPLES_MAX


def test_the_daemon_samples_for_ever() -> None:
    world = World()
    history = History(world.scheduler.cluster, world.clocks)

    async def main() -> int:
        task = asyncio.ensure_future(history.run())
        await asyncio.sleep(SAMPLE_SECONDS * 3.5)
        task.cancel()
        return len(history.samples)

    assert virtual_loop.run(main()) == 3


def release(world: World, key: str) -> None:
    world.step(UpdateAllocations(RM, releases=[AllocationRelease("app-1", allocation_key=key)]))


def history_of(world: World) -> object:
    return get(world, f"{P}/application/app-1").json["resourceHistory"]


def test_ended_allocations_in_amounts_times_whole_seconds() -> None:
    world = cluster()
    assert history_of(world) == {}
    world.sleep(2_900_000_000)
    release(world, "small")
    expected = {"resourceUsage": {"UNKNOWN": {"memory": 2_000, "vcore": 2_000}}}
    assert history_of(world) == expected
    labelled = {"node.kubernetes.io/instance-type": "large"}
    for name in ("node-1", "node-2"):
        world.step(UpdateNodes(RM, [NodeUpdate(name, NodeAction.UPDATE, attributes=labelled)]))
    world.step(UpdateAllocations(RM, asks=[NewAsk("app-1", "next", Resources(vcore=500))]))
    world.sleep(3 * SECOND_NS)
    release(world, "next")
    assert history_of(world) == {
        "resourceUsage": {"UNKNOWN": {"memory": 2_000, "vcore": 2_000}, "large": {"vcore": 1_500}}
    }


def test_nothing_is_kept_of_what_has_ended() -> None:
    world = cluster()
    histories = world.rest.resource_histories
    world.sleep(2 * SECOND_NS)
    release(world, "small")
    assert histories._used
    world.step(StopResourceManager(RM, StopCause.UNREGISTERED))
    assert (histories._used, histories._since) == ({}, {})
