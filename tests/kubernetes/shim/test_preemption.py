"""Pods of a queue above its guarantee end for pods of a queue below its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.world import World, condition, node_of

QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: greedy}
          - name: team
            resources: {guaranteed: {vcore: 2}}
            properties: {preemption.delay: 1s}
"""


@pytest.fixture
def daemon_flags(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return ("--config", str(file), "--preemption-attempt-s", "0.2")


def queue(name: str) -> dict[str, object]:
    return {"labels": {"queue": f"root.{name}", "applicationId": name}}


async def test_a_preempted_pod_is_deleted_and_its_room_used(world: World, daemon_flags: tuple[str, ...]) -> None:
    node = await world.node("n", cpu="4")
    await world.start()
    victims = [f"greedy{number}" for number in range(4)]
    for name in victims:
        await world.pod(name, metadata=queue("greedy"))
    await world.until_bound(*victims)
    await world.pod("team", metadata=queue("team"))
    pods = await world.until(lambda pods: any("deletionTimestamp" in pod["metadata"] for pod in pods.values()))
    (victim,) = [name for name, pod in pods.items() if "deletionTimestamp" in pod["metadata"]]
    assert victim in victims
    assert condition(pods[victim], "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    assert not node_of(pods["team"])
    pods = await world.until(lambda pods: "preempted" in condition(pods["team"], "PodScheduled").get("message", ""))
    said = condition(pods["team"], "PodScheduled")
    assert said["reason"] == "SchedulingSkipped", "more nodes are not what it waits for"
    assert said["message"].endswith(f"room is reserved on node {node}, where 1 preempted pod has to end first.")
    await world.finish(victim)
    await world.until_bound("team")
    assert (await world.api.get(r.PODS, victim)).status == 404
