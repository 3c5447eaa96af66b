"""One story uses every right that the cluster role grants: none can be taken away, and none is too many."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.rights import AGENT, Right, granted
from tests.kubernetes.shim.test_gangs import gang, placeholders
from tests.kubernetes.shim.test_preemption import QUEUES, queue
from tests.kubernetes.shim.test_volumes import NO_PROVISIONER, claim, local_volume, mounts, node, storage_class
from tests.kubernetes.shim.world import LIMIT_SECONDS, World, condition
from tests.kubernetes.volume_controller import VolumeController


@pytest.fixture
def daemon_flags(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES + "          - {name: default}\n")
    return ("--config", str(file), "--preemption-attempt-s", "0.2")


def used(world: World) -> set[Right]:
    assert world.api.fake is not None
    accesses = world.api.fake.server.accesses
    return {(verb, group, resource) for agent, verb, group, resource, _ in accesses if agent.startswith(AGENT)}


async def test_a_story_uses_every_right_that_is_granted(
    world: World, daemon_flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "REPEAT_NS", SECOND_NS)  # so that an event becomes a series
    fake = world.api.fake
    assert fake is not None
    await world.api.install_pod_groups()
    await world.node("n", cpu="4")
    await world.start()
    # A gang: placeholders are created, replaced and deleted. The answer to a binding is lost, and looked up.
    fake.faults.add(Fault("lose"), method="POST", subresource="binding")
    for name in ("w0", "w1"):
        await world.pod(name, metadata=gang(2))
    await world.until_bound("w0", "w1")
    await world.until(lambda pods: not placeholders(pods))
    # Preemption: a pod is deleted, with a condition that says so.
    victims = ["greedy0", "greedy1"]
    for name in victims:
        await world.pod(name, metadata=queue("greedy"))
    await world.until_bound(*victims)
    await world.pod("team", metadata=queue("team"))
    await world.until(lambda pods: any("deletionTimestamp" in pods[name]["metadata"] for name in victims))
    # Volumes: one that exists, and one that is made. The answers to both writes are lost, and looked up.
    local, made = await storage_class(world, NO_PROVISIONER), await storage_class(world)
    volume = await local_volume(world, "v", local, await node(world, "m"))
    fake.faults.add(Fault("lose"), method="PATCH", plural="persistentvolumes", name=volume)
    fake.faults.add(Fault("lose"), method="PATCH", plural="persistentvolumeclaims", name="y")
    for name, of_class in (("x", local), ("y", made)):
        await claim(world, name, of_class)
        await world.pod(name, **mounts(name))
    async with VolumeController(world.api, made):
        await world.until_bound("x", "y")
    # A pod that finds no room: a condition, an event, and its repetition.
    await world.pod("large", cpu="64")
    await world.until(lambda pods: condition(pods.get("large", {}), "PodScheduled").get("reason") == "Unschedulable")
    async with asyncio.timeout(LIMIT_SECONDS):
        while ("patch", "events.k8s.io", "events") not in used(world):  # noqa: ASYNC110 - the fake tells nobody
            await asyncio.sleep(0.05)
    assert used(world) == granted("ClusterRole")
