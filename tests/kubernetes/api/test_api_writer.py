"""A pod is deleted after the condition that says why, but not much later."""

from __future__ import annotations

import asyncio

from schedulerd.kubernetes.api import Recorder
from schedulerd.kubernetes.api.resources import PODS
from schedulerd.kubernetes.cluster.effects import DeletePod, PatchPodCondition, PodName
from schedulerd.kubernetes.cluster.events import DeleteEnded, Event
from schedulerd.kubernetes.shim.api_writer import CONDITION_SECONDS_MAX, ApiWriter
from tests.kubernetes.api.world import World, pause
from tests.kubernetes.fake import Fault


async def preempted(world: World) -> tuple[float, int]:
    """After how many seconds the pod was gone, and how often that was told."""
    uid = world.cluster.create(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}]})["metadata"]["uid"]
    told: list[Event] = []
    ended = asyncio.Event()

    def handle(events: list[Event]) -> None:
        told.extend(events)
        ended.set()

    pool, pod = world.pool(), PodName("default", "p", uid)
    writer = ApiWriter(pool, Recorder(pool, "schedulerd", "test"), handle)
    began_s = asyncio.get_running_loop().time()
    for effect in (
        PatchPodCondition(pod, "DisruptionTarget", True, "PreemptionByScheduler", "room", True),
        DeletePod(pod),
    ):
        writer.performers[type(effect)](effect)
    await ended.wait()
    ended_s = asyncio.get_running_loop().time()
    await pause(200)
    assert told[0] == DeleteEnded(uid, True)
    return ended_s - began_s, told.count(DeleteEnded(uid, True))


async def test_the_condition_leaves_first() -> None:
    async with World() as world:
        seconds, told = await preempted(world)
        methods = [method for method, path in world.cluster.server.requests if "/pods/p" in path]
    assert (methods, told) == (["PATCH", "DELETE"], 1)
    assert seconds < 0.1


async def test_a_condition_that_is_pushed_back_does_not_hold_up_the_deletion() -> None:
    async with World() as world:
        world.cluster.faults.add(Fault("refuse", 429, 60), method="PATCH", times=1_000)
        seconds, told = await preempted(world)
        assert world.requests("DELETE", "/pods/p") != []
    assert told == 1
    assert CONDITION_SECONDS_MAX <= seconds < CONDITION_SECONDS_MAX + 0.1
