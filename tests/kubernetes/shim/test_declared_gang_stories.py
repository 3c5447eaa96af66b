"""Stories of gangs without placeholder pods, on both servers: racks, host ports, lost nodes, preemption as a whole."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.autoscaling import autoscaling
from tests.kubernetes.shim.conftest import on_both
from tests.kubernetes.shim.world import JSON, Pods, World, condition, node_of

QUEUES = """
partitions:
  - name: default
    topology:
      - {name: rack, attribute: example.com/rack}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: default}
          - {name: low, properties: {preemption.delay: 1s}}
          - {name: high, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s}}
"""
RACK = "example.com/rack"
GROUPED = {"scheduling.x-k8s.io/pod-group": "pg", "queue": "root.default"}


@pytest.fixture
def daemon_flags(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return ("--config", str(file))


async def pod_group(world: World, members: int, name: str = "pg", **annotations: str) -> None:
    body = {"metadata": {"name": name, "annotations": annotations}, "spec": {"minMember": members}}
    assert (await world.api.post(r.POD_GROUPS, body)).status == 201


async def members(world: World, count: int, group: str = "pg", prefix: str = "w", **spec: Any) -> list[str]:
    names = [f"{prefix}{number}" for number in range(count)]
    labels = {**GROUPED, "scheduling.x-k8s.io/pod-group": group}
    for name in names:
        await world.pod(name, metadata={"labels": labels}, **spec)
    return names


def all_wait(pods: Pods, names: list[str], text: str) -> bool:
    """Each of them is unschedulable, so that an autoscaler sees the whole gang, and says this."""
    said = [condition(pods.get(name, {}), "PodScheduled") for name in names]
    return all(one.get("reason") == "Unschedulable" and text in one["message"] for one in said)


@on_both
async def test_a_pod_group_of_64_goes_to_one_rack(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.api.install_pod_groups()
    for rack, nodes in (("r1", 7), ("r2", 8)):
        for number in range(nodes):
            await world.node(f"{rack}-{number}", labels={RACK: rack}, cpu="8")
    await world.start()
    await world.pod("busy", nodeSelector={RACK: "r2"})
    await world.until_bound("busy")
    await pod_group(world, 64, **{"schedulerd.io/topology-required": "rack"})
    names = await members(world, 64)
    await world.until(lambda pods: all_wait(pods, names, ""))
    await asyncio.sleep(1)
    assert [name for name, _ in world.history] == ["busy"], "119 processors are free, and 63 in the largest rack"
    await world.end("busy")
    pods = await world.until_bound(*names)
    assert {node_of(pods[name]).removeprefix(world.node_name(""))[:2] for name in names} == {"r2"}
    await world.agrees()


PORT = [
    {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": "1"}},
        "ports": [{"hostPort": 7777, "containerPort": 7777}],
    }
]


@on_both
async def test_members_that_exclude_each_other_by_host_port_start_together(
    world: World, daemon_flags: tuple[str, ...]
) -> None:
    await world.api.install_pod_groups()
    for number in range(2):
        await world.node(f"n{number}")
    await world.start()
    await pod_group(world, 3)
    names = await members(world, 3, containers=PORT)
    await world.until(lambda pods: all_wait(pods, names, "free ports"))
    assert world.history == []
    await world.node("n2")
    pods = await world.until_bound(*names)
    assert len({node_of(pods[name]) for name in names}) == 3
    await world.agrees()


@on_both
async def test_of_two_gangs_with_room_for_one_the_first_runs_whole_and_the_second_after_it(
    world: World, daemon_flags: tuple[str, ...]
) -> None:
    await world.api.install_pod_groups()
    for number in range(2):
        await world.node(f"n{number}")
    await world.start()
    for name in ("first", "second"):
        await pod_group(world, 8, name)
    first = await members(world, 8, "first", "a")
    await world.until_bound(*first)
    second = await members(world, 8, "second", "b")
    await world.until(lambda pods: all_wait(pods, second, ""))
    assert {name for name, _ in world.history} == set(first)
    for name in first:
        await world.end(name)
    await world.until_bound(*second)
    await world.agrees()


def elastic(**annotations: str) -> JSON:
    group = {"name": "w", "minMember": 2, "maxMember": 3, "minResource": {"cpu": "2"}}
    said = {"task-groups": json.dumps([group]), "task-group-name": "w", "placeholders": "none", **annotations}
    return {
        "labels": {"queue": "root.default", "applicationId": "elastic"},
        "annotations": {f"schedulerd.io/{key}": text for key, text in said.items()},
    }


@on_both
async def test_an_elastic_gang_that_loses_a_node_is_repaired_before_others(
    world: World, daemon_flags: tuple[str, ...]
) -> None:
    lost = await world.node("n0", cpu="2")
    await world.node("n1", cpu="4")
    await world.start()
    for number in range(4):
        await world.pod(f"w{number}", cpu="2", metadata=elastic())
    pods = await world.until(lambda pods: sum(bool(node_of(pod)) for pod in pods.values()) == 3)
    waiting = next(name for name in pods if not node_of(pods[name]))
    for number in range(2):
        await world.pod(f"other{number}", cpu="2")
    gone = next(name for name, pod in pods.items() if node_of(pod) == lost)
    left = [name for name in pods if name not in (gone, waiting) and name.startswith("w")]
    await world.finish(gone)
    assert (await world.api.delete(r.NODES, lost)).status == 200
    await world.finish(left[0])  # the gang has one of two members now
    await world.until_bound(waiting)
    assert not any(node_of(pods.get(f"other{number}")) for number in range(2)), "a short gang comes first"
    await world.agrees()


@on_both
async def test_a_gang_is_preempted_whole(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.api.install_pod_groups()
    await world.node("n", cpu="4")
    await world.start()
    await pod_group(world, 4, **{"schedulerd.io/disruption": "gang"})
    names = [f"w{number}" for number in range(4)]
    for name in names:
        await world.pod(name, metadata={"labels": {**GROUPED, "queue": "root.low"}})
    await world.until_bound(*names)
    await world.pod("entitled", cpu="2", metadata={"labels": {"queue": "root.high"}})

    def are_leaving(pods: Pods) -> bool:
        return all("deletionTimestamp" in pods[name]["metadata"] for name in names if name in pods)

    await world.until(are_leaving)
    for name in names:
        await world.finish(name)
    await world.until_bound("entitled")
    await world.agrees()


@on_both
async def test_an_autoscaler_grows_the_cluster_for_a_whole_gang(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.api.install_pod_groups()
    await world.node("n", cpu="4")
    await world.start()
    await pod_group(world, 8)
    names = await members(world, 8)
    await world.until(lambda pods: all_wait(pods, names, "4 of 8 have room"))
    told = await world.until_told("Pod", names[-1], "FailedScheduling")
    assert "Its gang: 4 of 8 have room" in told["note"], "as kubectl describe shows it"
    assert world.history == [], "room for four is free"
    async with autoscaling(world) as autoscaler:
        await world.until_bound(*names)
        assert autoscaler.looks_that_added == 1, "it saw all of the gang at once"
        assert autoscaler.grown == 2, "eight processors, of which four were there"
    await world.agrees()


async def test_a_gang_that_lost_a_pod_is_given_up_when_its_time_is_over(
    world: World, daemon_flags: tuple[str, ...]
) -> None:
    """Nobody makes the third one again; the others are placed one by one then, as its style is Soft."""
    await world.api.install_pod_groups()
    await world.node("n", cpu="2")
    await world.start()
    await world.pod("busy", cpu="2")
    await world.until_bound("busy")
    await pod_group(world, 3)
    parameters = "placeholderTimeoutInSeconds=3 gangSchedulingStyle=Soft"
    annotations = {"schedulerd.io/schedulingPolicyParameters": parameters}
    names = ["w0", "w1", "w2"]
    for name in names:
        await world.pod(name, metadata={"labels": GROUPED, "annotations": annotations})
    await world.until(lambda pods: all_wait(pods, names, "0 of 3 have room"))
    await world.finish("w2")
    await world.end("busy")
    await world.until_bound(*names[:2])
    await world.agrees()
