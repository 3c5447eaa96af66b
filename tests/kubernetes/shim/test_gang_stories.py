"""Stories of large gangs, on both servers: fifty pods at once, a time that is over, a cluster that grows for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.shim.autoscaling import LOOK_SECONDS, autoscaling
from tests.kubernetes.shim.test_gangs import gang, placeholders
from tests.kubernetes.shim.world import JSON, Pods, World, condition, node_of

GANG = 50
KINDS = ["always", "none"]
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: default
          - name: small
            resources: {max: {vcore: 3}}
"""


@pytest.fixture
def daemon_flags(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return ("--config", str(file))


async def members(world: World, count: int, **how: Any) -> list[str]:
    names = [f"w{number}" for number in range(count)]
    metadata = gang(count, **how)
    for name in names:
        await world.pod(name, metadata=metadata)
    return names


@pytest.mark.parametrize("kind", KINDS)
async def test_a_gang_of_fifty(world: World, kind: str) -> None:
    for number in range(4):
        await world.node(f"n{number}", cpu="12")
    await world.start()
    names = await members(world, GANG, placeholders=kind)
    await world.pod("other", cpu="0")
    await world.until_bound("other")
    assert not any(name in names for name, _ in world.history), "48 of 50 have room"
    await world.node("last", cpu="12")
    await world.until_bound(*names)
    await world.until(lambda pods: not placeholders(pods))
    bound = [name for name, _ in world.history if name in names]
    assert sorted(bound) == sorted(names), "each once"
    await world.agrees()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_gang_that_is_not_complete_in_time(world: World, kind: str) -> None:
    await world.node("n", cpu="6")
    await world.start()
    await world.pod("busy", cpu="2")
    await world.until_bound("busy")
    names = await members(world, 6, style="Hard", timeout_s=2, placeholders=kind)

    def have_failed(pods: Pods) -> bool:
        return all(pods.get(name, {}).get("status", {}).get("phase") == "Failed" for name in names)

    pods = await world.until(have_failed)
    assert "4 of 6 " in pods["w0"]["status"]["message"]
    assert not any(node_of(pods[name]) for name in names)
    await world.until(lambda pods: not placeholders(pods))
    await world.pod("other", cpu="4")
    await world.until_bound("other")  # the room was given back


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cluster_grows_for_a_gang_twice_its_size_and_shrinks_again(world: World, kind: str) -> None:
    await world.node("n", cpu="4")
    await world.start()
    async with autoscaling(world) as autoscaler:
        names = await members(world, 8, placeholders=kind)
        await world.until_bound(*names)
        await world.until(lambda pods: not placeholders(pods))
        if kind == "always":
            assert autoscaler.grown == 2, "for as many placeholders as lacked room"
        else:
            assert 2 <= autoscaler.grown <= 4, "all real pods are unschedulable, and the room that is held looks free"
        for name in names:
            await world.end(name)
        async with asyncio.timeout(20):
            while autoscaler.added:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)
        await world.agrees()


async def test_a_cluster_does_not_grow_for_a_quota(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.node("n", cpu="1")
    await world.start()
    small = {"labels": {"queue": "root.small"}}
    async with autoscaling(world) as autoscaler:
        for number in range(5):
            await world.pod(f"p{number}", metadata=small)

        def is_skipped(pod: JSON) -> bool:
            return condition(pod, "PodScheduled").get("reason") == "SchedulingSkipped"

        await world.until(lambda pods: sum(bool(node_of(pod)) for pod in pods.values()) == 3)
        await world.until(lambda pods: sum(map(is_skipped, pods.values())) == 2)
        assert autoscaler.grown == 1, "a node of two processors, for the third that the quota allows"
