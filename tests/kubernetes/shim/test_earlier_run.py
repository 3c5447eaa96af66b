"""Gangs that come while their application id is still in use, with a real daemon."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.test_gangs import gang, placeholders
from tests.kubernetes.shim.world import Pods, World, condition, node_of


def waits_for(pods: Pods, name: str, text: str) -> bool:
    return text in condition(pods.get(name, {}), "PodScheduled").get("message", "")


@pytest.mark.parametrize("kind", ["always", "none"])
async def test_a_job_that_is_made_again_with_room_for_a_part_of_it_runs_as_a_whole_or_not_at_all(
    world: World, kind: str
) -> None:
    await world.node("n", cpu="3")
    await world.start()
    old, new = ["old0", "old1"], ["new0", "new1"]
    for name in old:
        await world.pod(name, metadata=gang(2, placeholders=kind))
    await world.until_bound(*old)
    await world.until(lambda pods: not placeholders(pods))
    for name in old:
        answer = await world.api.delete(r.PODS, name, gracePeriodSeconds=60)
        assert answer.status == 200, answer
    for name in new:
        await world.pod(name, metadata=gang(2, placeholders=kind))
    await world.until(lambda pods: all(waits_for(pods, name, "2 pods have ended") for name in new))
    await world.finish("old0")
    await world.until(lambda pods: all(waits_for(pods, name, "1 pod has ended: old1") for name in new))
    await world.pod("other", cpu="1")
    await world.until_bound("other")
    assert not any(name in new for name, _ in world.history)
    await world.finish("old1")
    await world.until_bound(*new)
    await world.until(lambda pods: not placeholders(pods))
    await world.agrees()


async def test_a_copied_id_does_not_place_a_part_of_another_gang(world: World) -> None:
    await world.node("n", cpu="3")
    await world.start()
    for name in ("a0", "a1"):
        await world.pod(name, metadata=gang(2, placeholders="none"))
    await world.until_bound("a0", "a1")
    for name in ("b0", "b1", "b2"):
        await world.pod(name, metadata=gang(3, placeholders="none"))
    await world.until(lambda pods: waits_for(pods, "b2", "has other task groups"))
    assert not any(node_of(world.pods[name]) for name in ("b0", "b1", "b2"))
    for name in ("a0", "a1"):
        await world.finish(name)
    await world.until_bound("b0", "b1", "b2")
    await world.agrees()
