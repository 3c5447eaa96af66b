"""Effects about volumes become patches, and what comes of these becomes events of the cluster."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.cluster.effects import BindVolume, ClaimName, PodName, SelectNode
from schedulerd.kubernetes.cluster.events import Event, VolumeResult, VolumeWritten
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey, Written
from schedulerd.kubernetes.shim.volume_writer import VolumeWriter
from tests.kubernetes.api.world import World
from tests.kubernetes.fake import Fault

POD = PodName("default", "p", "uid of p")
VOLUME, CLAIM = WriteKey(Written.VOLUME, "v"), WriteKey(Written.CLAIM, "c")
PATHS = {VOLUME: r.PERSISTENT_VOLUMES, CLAIM: r.PERSISTENT_VOLUME_CLAIMS}


class Told:
    """A writer, and the one event that it tells."""

    def __init__(self, world: World) -> None:
        self._event: asyncio.Future[VolumeWritten] = asyncio.get_running_loop().create_future()
        self.writer = VolumeWriter(world.pool(), self._handle)

    def _handle(self, events: list[Event]) -> None:
        (event,) = events
        assert isinstance(event, VolumeWritten)
        self._event.set_result(event)

    async def event(self) -> VolumeWritten:
        return await self._event


def both(world: World) -> tuple[BindVolume, SelectNode]:
    volume = world.cluster.create(r.PERSISTENT_VOLUMES, "v", spec={"capacity": {"storage": "1Gi"}})["metadata"]
    metadata = world.cluster.create(r.PERSISTENT_VOLUME_CLAIMS, "c", spec={})["metadata"]
    claim = ClaimName("default", "c", metadata["uid"], metadata["resourceVersion"])
    version = volume["resourceVersion"]
    return BindVolume(POD, 3, "v", volume["uid"], version, claim, False), SelectNode(POD, 3, claim, "n1")


async def written(world: World, key: WriteKey, effects: tuple[BindVolume, SelectNode]) -> VolumeWritten:
    told = Told(world)
    if key is VOLUME:
        told.writer.bind(effects[0])
    else:
        told.writer.select_node(effects[1])
    return await told.event()


def there(world: World, key: WriteKey) -> dict[str, Any]:
    found = world.cluster.get(PATHS[key], key.name)
    assert found is not None
    return found


async def test_a_volume_is_promised() -> None:
    async with World() as world:
        event = await written(world, VOLUME, both(world))
        volume = there(world, VOLUME)
        version = volume["metadata"]["resourceVersion"]
        assert event == VolumeWritten("uid of p", 3, VOLUME, VolumeResult.DONE, "", version)
        claim = there(world, CLAIM)["metadata"]
        assert volume["spec"]["claimRef"] == {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "c",
            "uid": claim["uid"],
            "resourceVersion": claim["resourceVersion"],
        }
        assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert volume["spec"]["capacity"] == {"storage": "1Gi"}
        assert world.metrics.writes == {("volume", "done"): 1}


async def test_a_promise_of_the_owner_of_the_volume_stays_his() -> None:
    async with World() as world:
        bind, select = both(world)
        bind = BindVolume(bind.pod, 3, "v", bind.uid, bind.resource_version, bind.claim, was_promised=True)
        await written(world, VOLUME, (bind, select))
        assert "annotations" not in there(world, VOLUME)["metadata"]


async def test_a_node_is_selected() -> None:
    async with World() as world:
        event = await written(world, CLAIM, both(world))
        metadata = there(world, CLAIM)["metadata"]
        assert event == VolumeWritten("uid of p", 3, CLAIM, VolumeResult.DONE, "", metadata["resourceVersion"])
        assert metadata["annotations"] == {"volume.kubernetes.io/selected-node": "n1"}


@pytest.mark.parametrize("key", [VOLUME, CLAIM])
async def test_what_was_changed_by_others_is_left_alone(key: WriteKey) -> None:
    async with World() as world:
        effects = both(world)
        kind = world.cluster.kind(PATHS[key])
        namespace = "default" if key is CLAIM else ""
        patch = {"metadata": {"labels": {"a": "b"}}}
        world.cluster.operations.patch(kind, namespace, key.name, patch, "", "application/merge-patch+json")
        before = there(world, key)
        event = await written(world, key, effects)
        assert event.result is VolumeResult.CHANGED
        assert there(world, key) == before


@pytest.mark.parametrize("key", [VOLUME, CLAIM])
@pytest.mark.parametrize("fault", [Fault("lose"), Fault("fail_after", code=500)])
async def test_an_answer_that_is_lost(key: WriteKey, fault: Fault) -> None:
    """The second try meets what the first has written."""
    async with World() as world:
        effects = both(world)
        world.cluster.faults.add(fault, method="PATCH")
        event = await written(world, key, effects)
        assert event.result is VolumeResult.DONE
        assert event.resource_version == there(world, key)["metadata"]["resourceVersion"]


@pytest.mark.parametrize("key", [VOLUME, CLAIM])
async def test_what_is_gone(key: WriteKey) -> None:
    async with World() as world:
        effects = both(world)
        world.cluster.delete(PATHS[key], key.name)
        assert (await written(world, key, effects)).result is VolumeResult.CHANGED


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        (Fault("refuse", code=403, message="no"), VolumeResult.FAILED),
        (Fault("refuse", code=503), VolumeResult.UNKNOWN),
        (Fault("refuse", code=429), VolumeResult.FAILED),
    ],
)
async def test_a_server_that_does_not_do_it(fault: Fault, result: VolumeResult) -> None:
    async with World() as world:
        effects = both(world)
        world.cluster.faults.add(fault, method="PATCH", times=1000)
        assert (await written(world, VOLUME, effects)).result is result


async def test_the_end_of_the_process_is_not_told() -> None:
    async with World() as world:
        effects = both(world)
        pool = world.pool()
        await pool.close()
        VolumeWriter(pool, lambda events: pytest.fail(f"told {events}")).bind(effects[0])
        await asyncio.sleep(0)
