"""Applications belong to their namespace: pods of others can neither use nor take their ids."""

from __future__ import annotations

import asyncio

import pytest

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from tests.kubernetes.shim.test_gangs import gang, placeholders
from tests.kubernetes.shim.world import JSON, LIMIT_SECONDS, World, node_of

IDS = [
    pytest.param(one, marks=() if one is ApplicationIds.NAMESPACED else pytest.mark.nightly) for one in ApplicationIds
]


async def stranger(world: World, name: str, application: str) -> None:
    """Makes a pod of another namespace that names the application, and waits until the shim knows it."""
    namespace = f"{world.api.namespace}-evil"
    await world.api.post(r.NAMESPACES, {"metadata": {"name": namespace}})
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"queue": "root.default", "schedulerd.io/app-id": application}},
        "spec": {"schedulerName": world.scheduler, "containers": [container], "nodeSelector": {"world": "none"}},
    }
    answer = await world.api.call("POST", r.PODS.path(namespace), body)
    assert answer.status == 201, answer
    assert world.shim is not None
    uid = answer.json["metadata"]["uid"]
    async with asyncio.timeout(LIMIT_SECONDS):
        while True:
            if uid in world.shim.cluster.model.pods:
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("ids", IDS)
async def test_a_stranger_that_takes_a_guessable_id_stops_nobody(world: World, ids: ApplicationIds) -> None:
    await world.node("n")
    await world.start(application_ids=ids)
    await stranger(world, "squatter", f"yunikorn-{world.api.namespace}-autogen")
    for number in range(3):
        await world.pod(f"p{number}")
    await world.until_bound("p0", "p1", "p2")
    await world.agrees()


async def test_an_id_that_two_namespaces_use_is_two_applications(world: World) -> None:
    await world.node("n")
    await world.start()
    await stranger(world, "other", "web")
    await world.pod("p", metadata={"labels": {"queue": "root.default", "applicationId": "web"}})
    await world.until_bound("p")
    await world.agrees()


@pytest.mark.parametrize("first", IDS)
async def test_shims_with_other_ids_take_over_a_gang_that_waits_for_half_of_its_room(
    world: World, first: ApplicationIds
) -> None:
    """And back: the same placeholder pods, and none twice."""
    others = [ids for ids in ApplicationIds if ids is not first]
    await world.node("n", cpu="2")
    await world.start(application_ids=first)
    for number in range(4):
        await world.pod(f"w{number}", metadata=gang(4))
    pods = await world.until(lambda pods: sum(bool(node_of(pods[name])) for name in placeholders(pods)) == 2)
    before = {name: pods[name]["metadata"]["uid"] for name in placeholders(pods)}
    assert len(before) == 4
    for ids in (*others, first):
        await world.stop()
        await world.start(application_ids=ids)
        await world.agrees()
    await world.node("n2", cpu="2")
    await world.until_bound("w0", "w1", "w2", "w3")
    await world.until(lambda pods: not placeholders(pods))
    made = {uid for uid, name in world.seen.items() if name.startswith("tg-")}
    assert made == set(before.values())
    await world.agrees()
