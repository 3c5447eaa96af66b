"""Claims that wait for their first consumer, with a real daemon: volumes that exist, and volumes that are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.fake import Fault
from tests.kubernetes.shim.conftest import on_both
from tests.kubernetes.shim.world import World, condition, node_of
from tests.kubernetes.volume_controller import BIND_COMPLETED, HOST, SELECTED_NODE, VolumeController, volume_body

JSON = dict[str, Any]
NO_PROVISIONER = "kubernetes.io/no-provisioner"


@pytest.fixture
def daemon_flags() -> tuple[str, ...]:
    """A daemon of its own, which can be ended."""
    return ()


async def storage_class(world: World, provisioner: str = "disks.example.com") -> str:
    """Makes a class of claims that wait for their first consumer; its name."""
    name = f"{world.api.namespace}-{'local' if provisioner == NO_PROVISIONER else 'made'}"
    body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    answer = await world.api.post(r.STORAGE_CLASSES, body)
    assert answer.status == 201, answer
    return name


async def node(world: World, name: str, **allocatable: str) -> str:
    return await world.node(name, {HOST: world.node_name(name)}, **allocatable)


async def local_volume(world: World, name: str, of_class: str, at: str, size: str = "10Gi") -> str:
    full = f"{world.api.namespace}-{name}"
    answer = await world.api.post(r.PERSISTENT_VOLUMES, volume_body(full, of_class, at, size))
    assert answer.status == 201, answer
    await world.api.patch(r.PERSISTENT_VOLUMES, full, {"status": {"phase": "Available"}}, "status")
    return full


async def claim(world: World, name: str, of_class: str, size: str = "5Gi") -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of_class,
        "resources": {"requests": {"storage": size}},
    }
    answer = await world.api.post(r.PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer


def mounts(*claims: str) -> JSON:
    return {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]}


async def claim_of(world: World, volume: str) -> str:
    spec = (await world.api.get(r.PERSISTENT_VOLUMES, volume)).json["spec"]
    return str(spec.get("claimRef", {}).get("name", ""))


async def test_pods_go_to_where_their_volumes_are(world: World) -> None:
    local = await storage_class(world, NO_PROVISIONER)
    nodes = [await node(world, name) for name in "abc"]
    volumes = {await local_volume(world, f"v{at}", local, one): one for at, one in enumerate(nodes)}
    await world.start()
    async with VolumeController(world.api):
        for name in "xyz":
            await claim(world, name, local)
            await world.pod(name, **mounts(name))
        pods = await world.until_bound(*"xyz")
        there = {await claim_of(world, volume): at for volume, at in volumes.items()}
        assert there == {name: node_of(pods[name]) for name in "xyz"}
        answer = (await world.api.get(r.PERSISTENT_VOLUME_CLAIMS, "x")).json
        assert BIND_COMPLETED in answer["metadata"]["annotations"]
    await world.agrees()


async def test_pods_that_want_one_volume(world: World) -> None:
    local = await storage_class(world, NO_PROVISIONER)
    a = await node(world, "a")
    await local_volume(world, "v", local, a)
    await world.start()
    async with VolumeController(world.api):
        for name in "xy":
            await claim(world, name, local)
            await world.pod(name, **mounts(name))
        pods = await world.until(lambda pods: any(map(node_of, pods.values())))
        (late,) = [name for name, pod in pods.items() if not node_of(pod)]
        why = "didn't find available persistent volumes to bind"
        await world.until(lambda pods: why in condition(pods[late], "PodScheduled").get("message", ""))
        await local_volume(world, "w", local, a)
        await world.until_bound(late)
    await world.agrees()


@on_both
async def test_a_volume_is_made_where_the_pod_has_its_node(world: World) -> None:
    made = await storage_class(world)
    nodes = {await node(world, name) for name in "ab"}
    await world.start()
    async with VolumeController(world.api, made):
        await claim(world, "x", made)
        await world.pod("x", **mounts("x"))
        pods = await world.until_bound("x")
        assert node_of(pods["x"]) in nodes
        answer = (await world.api.get(r.PERSISTENT_VOLUME_CLAIMS, "x")).json
        assert answer["metadata"]["annotations"][SELECTED_NODE] == node_of(pods["x"])
        await world.pod("again", **mounts("x"))
        pods = await world.until_bound("again")
        assert node_of(pods["again"]) == node_of(pods["x"]), "the volume is there"
    await world.agrees()


async def test_a_node_for_which_no_volume_can_be_made(world: World) -> None:
    made = await storage_class(world)
    a = await node(world, "a", cpu="8")  # more room, so it is first
    await world.start()
    async with VolumeController(world.api, made) as controller:
        controller.full.add(a)
        await claim(world, "x", made)
        await world.pod("x", **mounts("x"))
        await world.until_told("Pod", "x", "FailedBinding")
        assert controller.given_up[0] == a
        b = await node(world, "b")
        pods = await world.until_bound("x")
        assert node_of(pods["x"]) == b
    await world.agrees()


async def test_a_shim_that_ends_while_a_volume_is_made(world: World) -> None:
    made = await storage_class(world)
    a = await node(world, "a")
    await world.start()
    await claim(world, "x", made)
    await world.pod("x", **mounts("x"))
    await world.until_told("Pod", "x", "WaitingForVolumes")
    await selected(world, "x")
    await world.stop()
    b = await node(world, "b", cpu="64")
    await world.start()
    async with VolumeController(world.api, made):
        pods = await world.until_bound("x")
    assert node_of(pods["x"]) == a != b, "its volume was asked for there"
    assert [name for name, _ in world.history] == ["x"]
    await world.agrees()


async def test_a_daemon_that_ends_while_a_volume_is_made(world: World, daemon_flags: tuple[str, ...]) -> None:
    made = await storage_class(world)
    a = await node(world, "a", cpu="1")
    await world.start()
    await claim(world, "x", made)
    await world.pod("x", **mounts("x"))
    await selected(world, "x")
    await asyncio.to_thread(world.restart_daemon)
    await world.pod("next")
    async with VolumeController(world.api, made):
        pods = await world.until_bound("x")
    assert node_of(pods["x"]) == a
    await world.agrees()
    assert not node_of(world.pods["next"]), "its room was kept"


async def test_a_pod_that_is_deleted_while_it_waits_for_its_volume(world: World) -> None:
    made = await storage_class(world)
    await node(world, "a", cpu="1")
    await world.start()
    await claim(world, "x", made)
    await world.pod("x", **mounts("x"))
    await selected(world, "x")
    await world.pod("next")
    await world.api.delete(r.PODS, "x")
    await world.until_bound("next")
    await world.agrees()


async def selected(world: World, name: str) -> None:
    """Waits until a node is selected for the claim."""
    await until(world, r.PERSISTENT_VOLUME_CLAIMS, name, lambda one: SELECTED_NODE in noted(one))


async def until(world: World, resource: r.Resource, name: str, is_reached: Callable[[JSON], bool]) -> None:
    """Waits until the object is as wanted."""
    stream = await world.api.watch(resource, "0")
    while True:
        event = await stream.next()
        assert event is not None
        if event["object"]["metadata"].get("name") == name and is_reached(event["object"]):
            stream.close()
            return


def noted(thing: JSON) -> JSON:
    return thing["metadata"].get("annotations") or {}


@pytest.mark.parametrize("fault", [Fault("lose"), Fault("refuse", code=500), Fault("refuse", code=409)])
@pytest.mark.parametrize("plural", ["persistentvolumes", "persistentvolumeclaims"])
async def test_writes_that_fail_or_whose_answers_are_lost(world: World, fault: Fault, plural: str) -> None:
    assert world.api.fake is not None
    local, made = await storage_class(world, NO_PROVISIONER), await storage_class(world)
    volume = await local_volume(world, "v", local, await node(world, "a"))
    await world.start()
    world.api.fake.faults.add(fault, method="PATCH", plural=plural, subresource="", times=1)
    await claim(world, "x", local)
    await claim(world, "y", made)
    await world.pod("p", **mounts("x", "y"))
    await until(world, r.PERSISTENT_VOLUMES, volume, lambda one: "claimRef" in one["spec"])
    await selected(world, "y")
    assert world.api.fake.faults.happened
    async with VolumeController(world.api, made):
        await world.until_bound("p")
    await world.agrees()
