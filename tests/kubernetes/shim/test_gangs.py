"""Gangs with placeholder pods and without, from the first pod to the last."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.gangs.placeholder_pods import name as placeholder_name
from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.fake.kinds import Kind
from tests.kubernetes.shim.conftest import on_both
from tests.kubernetes.shim.world import JSON, Pods, World, condition, node_of

PLACEHOLDER = "schedulerd.io/placeholder"
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
    """Tests with it have a daemon of their own."""
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return ("--config", str(file))


def gang(
    members: int, style: str = "Soft", timeout_s: int = 60, placeholders: str = "always", **annotations: Any
) -> JSON:
    """Metadata of a pod of the application `gang`."""
    group = {"name": "workers", "minMember": members, "minResource": {"cpu": "1", "memory": "64Mi"}}
    return {
        "labels": {"queue": "root.default", "applicationId": "gang"},
        "annotations": {
            "yunikorn.apache.org/task-groups": json.dumps([group]),
            "yunikorn.apache.org/task-group-name": "workers",
            "yunikorn.apache.org/schedulingPolicyParameters": (
                f"placeholderTimeoutInSeconds={timeout_s} gangSchedulingStyle={style}"
            ),
            "schedulerd.io/placeholders": placeholders,
            **annotations,
        },
    }


def placeholders(pods: Pods) -> list[str]:
    return [name for name, pod in pods.items() if (pod["metadata"].get("annotations") or {}).get(PLACEHOLDER)]


@on_both
async def test_a_gang_is_bound_when_all_of_it_has_room(world: World) -> None:
    await world.node("n1", cpu="2")
    await world.start()
    names = [f"w{number}" for number in range(4)]
    for name in names:
        await world.pod(name, metadata=gang(4))
    await world.pod("other", cpu="0")
    await world.until_bound("other")
    await asyncio.sleep(1)
    assert not any(name in names for name, _ in world.history), "half of a gang runs"
    await world.node("n2", cpu="2")
    await world.until_bound(*names)
    pods = await world.until(lambda pods: not placeholders(pods))
    bound = [name for name, _ in world.history if name in names]
    assert sorted(bound) == names
    assert {node_of(pods[name]) for name in names} == {world.node_name("n1"), world.node_name("n2")}
    made = [name for name in world.seen.values() if name.startswith("tg-")]
    assert len(made) == 4
    about = [pods[name]["metadata"] for name in names]
    assert all(one["annotations"]["schedulerd.io/placed"] == one["uid"] for one in about)


@pytest.mark.smoke
async def test_an_application_that_ends_leaves_no_placeholder(world: World) -> None:
    await world.node("n", cpu="8")
    await world.start()
    await world.pod("driver", metadata=gang(3))
    await world.until_bound("driver")
    await world.until(lambda pods: len(placeholders(pods)) == 2)
    await world.end("driver")
    pods = await world.until(lambda pods: not placeholders(pods))
    assert set(pods) <= {"driver"}


async def test_a_shim_that_starts_anew_adopts_its_placeholders(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    for number in range(3):
        await world.pod(f"w{number}", metadata=gang(3))
    pods = await world.until(lambda pods: sum(bool(node_of(pods[name])) for name in placeholders(pods)) == 2)
    before = {name: pods[name]["metadata"]["uid"] for name in placeholders(pods)}
    assert len(before) == 3
    await world.stop()
    await world.start()
    await world.node("n2", cpu="1")
    await world.until_bound("w0", "w1", "w2")
    await world.until(lambda pods: not placeholders(pods))
    made = {uid for uid, name in world.seen.items() if name.startswith("tg-")}
    assert made == set(before.values())


async def test_placeholders_of_an_application_that_is_gone_are_deleted_at_the_start(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    await world.pod("w0", metadata=gang(3))
    await world.until(lambda pods: sum(bool(node_of(pods[name])) for name in placeholders(pods)) == 2)
    await world.stop()
    await world.api.delete(r.PODS, "w0")
    await world.start()
    await world.until(lambda pods: not pods)
    await world.pod("large", cpu="2")
    await world.until_bound("large")


async def test_soft_pods_go_on_without_their_gang(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    for number in range(3):
        await world.pod(f"w{number}", metadata=gang(3, timeout_s=2))
    await world.until(lambda pods: sum(bool(node_of(pod)) for name, pod in pods.items() if name[0] == "w") == 2)
    await world.until(lambda pods: not placeholders(pods))


async def test_hard_pods_fail_once(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    for number in range(3):
        await world.pod(f"w{number}", metadata=gang(3, "Hard", timeout_s=2))
    failed = await world.until(
        lambda pods: all(pods.get(f"w{n}", {}).get("status", {}).get("phase") == "Failed" for n in range(3))
    )
    assert failed["w0"]["status"]["reason"] == "ResourceReservationTimeout"
    await world.until(lambda pods: not placeholders(pods))
    await world.pod("successor", metadata=gang(3, "Hard", timeout_s=2))
    await world.pod("other", cpu="2")
    await world.until_bound("other")
    assert not placeholders(world.pods)


async def test_requeued_pods_stay_pending(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    for number in range(3):
        await world.pod(f"w{number}", metadata=gang(3, "Requeue", timeout_s=2))
    await world.until(lambda pods: len(placeholders(pods)) == 3)
    await world.until(lambda pods: not placeholders(pods))
    await world.pod("other", cpu="2")
    await world.until_bound("other")
    assert not any(node_of(world.pods[f"w{number}"]) for number in range(3))


async def test_pods_of_a_gang_without_placeholders_and_without_room_are_all_unschedulable(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    names = [f"w{number}" for number in range(3)]
    for name in names:
        await world.pod(name, metadata=gang(3, placeholders="none"))
    pods = await until_all_told(world, names, "Unschedulable")
    said = {condition(pods[name], "PodScheduled")["message"] for name in names}
    assert len(said) == 1
    assert "0/1 nodes are available" in said.pop()
    assert not any("nominatedNodeName" in pod["status"] for pod in pods.values())
    await world.pod("late", metadata=gang(3, placeholders="none"))
    await until_all_told(world, ["late"], "Unschedulable")
    await world.node("n2", cpu="2")
    pods = await world.until_bound(*names, "late")
    assert {condition(pods[name], "PodScheduled")["status"] for name in names} == {"True"}


async def test_pods_of_a_gang_without_placeholders_that_is_held_by_quota_are_all_skipped(
    world: World, daemon_flags: tuple[str, ...]
) -> None:
    await world.node("n", cpu="8")
    await world.start()
    await world.pod("other", metadata={"labels": {"queue": "root.small"}})
    await world.until_bound("other")
    names = [f"w{number}" for number in range(3)]
    metadata = gang(3, placeholders="none")
    metadata["labels"]["queue"] = "root.small"
    for name in names:
        await world.pod(name, metadata=metadata)
    pods = await until_all_told(world, names, "SchedulingSkipped", "Queue root.small ")
    assert len({condition(pods[name], "PodScheduled")["message"] for name in names}) == 1
    assert not any(node_of(pods[name]) for name in names)
    await world.end("other")
    await world.until_bound(*names)


async def until_all_told(world: World, names: list[str], reason: str, words: str = "") -> Pods:
    """Waits until the conditions of all these pods say so."""

    def is_told(pod: JSON) -> bool:
        found = condition(pod, "PodScheduled")
        return found.get("reason") == reason and words in found["message"]

    return await world.until(lambda pods: all(is_told(pods.get(name, {})) for name in names))


def pod_group(members: int, **spec: Any) -> JSON:
    return {"metadata": {"name": "pg"}, "spec": {"minMember": members, **spec}}


GROUPED: JSON = {"labels": {"queue": "root.default", "scheduling.x-k8s.io/pod-group": "pg"}}


async def test_a_refused_placeholder_shows_what_the_server_says(world: World) -> None:
    fake = world.api.fake
    assert fake is not None
    await world.node("n", cpu="4")
    for number in range(2):
        await world.pod(f"w{number}", metadata=gang(2, timeout_s=5))
    refused = Fault("refuse", 403, reason="Forbidden", message="exceeded quota: compute, pods=1")
    fake.faults.add(refused, method="POST", plural="pods", subresource="", times=1000)
    await world.start()
    pods = await world.until(lambda pods: bool(condition(pods.get("w0", {}), "PodScheduled")))
    shown = condition(pods["w0"], "PodScheduled")
    assert shown["reason"] == "SchedulingSkipped"
    assert "exceeded quota: compute" in shown["message"]
    assert not node_of(pods["w0"])
    await world.until_bound("w0", "w1")
    assert not placeholders(world.pods)


async def test_a_placeholder_that_is_evicted_is_made_again(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    for number in range(3):
        await world.pod(f"w{number}", metadata=gang(3))
    pods = await world.until(lambda pods: sum(bool(node_of(pods[name])) for name in placeholders(pods)) == 2)
    victim = next(name for name in placeholders(pods) if node_of(pods[name]))
    before = pods[victim]["metadata"]["uid"]
    await world.api.delete(r.PODS, victim, gracePeriodSeconds=0)
    await world.until(lambda pods: victim in pods and pods[victim]["metadata"]["uid"] != before)
    await world.until(lambda pods: sum(bool(node_of(pods[name])) for name in placeholders(pods)) == 2)
    ended = next(name for name in placeholders(world.pods) if node_of(world.pods[name]))
    before = world.pods[ended]["metadata"]["uid"]
    await world.end(ended, "Failed")  # the pod that is there has to go first
    await world.until(lambda pods: ended in pods and pods[ended]["metadata"]["uid"] != before)
    await world.node("n2", cpu="1")
    await world.until_bound("w0", "w1", "w2")
    await world.until(lambda pods: not placeholders(pods))


async def test_a_pod_of_somebody_else_with_the_name_of_a_placeholder_is_waited_for(world: World) -> None:
    await world.node("n", cpu="4")
    owner = await world.pod("w0", metadata=gang(1))
    name = placeholder_name(owner["metadata"]["uid"], "gang", "workers", 0)
    await world.pod(name, schedulerName="somebody-else")
    await world.start()
    await until_all_told(world, ["w0"], "SchedulingSkipped", "is none of this gang")
    await world.api.delete(r.PODS, name)
    await world.until(lambda pods: name in placeholders(pods))
    await world.until_bound("w0")


@pytest.mark.parametrize("kind", ["always", "none"])
async def test_a_gang_survives_the_end_of_its_daemon(world: World, daemon_flags: tuple[str, ...], kind: str) -> None:
    await world.node("n", cpu="2")
    await world.start()
    names = [f"w{number}" for number in range(3)]
    for name in names:
        await world.pod(name, metadata=gang(3, placeholders=kind))
    if kind == "always":
        await world.until(lambda pods: sum(bool(node_of(pods[name])) for name in placeholders(pods)) == 2)
    else:
        await world.until(lambda pods: all(condition(pods.get(name, {}), "PodScheduled") for name in names))
    await asyncio.to_thread(world.restart_daemon)
    await world.node("n2", cpu="1")
    await world.until_bound(*names)
    await world.until(lambda pods: not placeholders(pods))
    bound = [name for name, _ in world.history]
    assert len(bound) == len(set(bound)), "bound twice"


async def test_no_room_is_held_for_a_member_that_was_created_with_its_node(world: World) -> None:
    await world.node("n", cpu="2")
    elsewhere = await world.node("elsewhere", cpu="100m")
    await world.start()
    names = ["w0", "w1"]
    for name in names:
        await world.pod(name, metadata=gang(3, timeout_s=600))
    await world.until(lambda pods: sum(bool(node_of(pods[name])) for name in placeholders(pods)) == 2)
    await world.pod("w2", metadata=gang(3, timeout_s=600), nodeName=elsewhere)
    await world.until_bound(*names)
    await world.until(lambda pods: not placeholders(pods))


async def test_a_gang_of_which_somebody_else_has_bound_a_member_waits_after_a_restart(world: World) -> None:
    """A placeholder is deleted while no shim looks."""
    await world.node("n", cpu="1")
    elsewhere = await world.node("elsewhere", cpu="100m")
    await world.start()
    await world.pod("w2", metadata=gang(3, timeout_s=600), nodeName=elsewhere)
    for name in ("w0", "w1"):
        await world.pod(name, metadata=gang(3, timeout_s=600))
    pods = await world.until(
        lambda pods: sorted(bool(node_of(pods[name])) for name in placeholders(pods)) == [False, True]
    )
    await world.stop()
    (missing,) = [name for name in placeholders(pods) if not node_of(pods[name])]
    await world.api.delete(r.PODS, missing)
    await world.start()
    await world.until(lambda pods: missing in pods)
    await until_all_told(world, [missing], "Unschedulable")
    assert not {"w0", "w1"} & {name for name, _ in world.history}, "a part of the gang runs"
    await world.node("n2", cpu="1")
    await world.until_bound("w0", "w1")
    await world.until(lambda pods: not placeholders(pods))


async def test_the_pod_that_declares_the_task_groups_may_come_last(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    metadata = gang(3, placeholders="none")
    said = {"yunikorn.apache.org/task-group-name": "workers"}
    names = ["w0", "w1"]
    for name in names:
        await world.pod(name, metadata={**metadata, "annotations": said})
    await world.until_told("Pod", "w0", "GangForming")
    await world.pod("driver", metadata=metadata)
    await until_all_told(world, [*names, "driver"], "Unschedulable")
    assert world.history == [], "a part of the gang runs"
    await world.node("n2", cpu="1")
    await world.until_bound(*names, "driver")


async def test_unusable_task_groups_are_told_and_the_pods_run(world: World) -> None:
    await world.node("n", cpu="4")
    await world.start()
    unusable = gang(1)
    unusable["annotations"]["yunikorn.apache.org/task-groups"] = '[{"name": "workers", "minMember": -1}]'
    waits = {"labels": {"queue": "root.default"}, "annotations": {**unusable["annotations"]}}
    waits["annotations"]["schedulerd.io/on-invalid-gang"] = "fail"
    await world.pod("runs", metadata=unusable)
    await world.pod("waits", metadata=waits)
    pods = await world.until_bound("runs")
    pods = await world.until(lambda pods: all(condition(pods[name], "schedulerd.io/Gang") for name in pods))
    assert "minMember" in condition(pods["runs"], "schedulerd.io/Gang")["message"]
    pods = await world.until(lambda pods: bool(condition(pods["waits"], "PodScheduled")))
    assert condition(pods["waits"], "PodScheduled")["reason"] == "SchedulingSkipped"
    assert not node_of(pods["waits"])


async def test_pods_of_a_pod_group_are_a_gang(world: World) -> None:
    await world.api.install_pod_groups()
    await world.node("n1", cpu="2")
    await world.start()
    names = [f"w{number}" for number in range(4)]
    for name in names[:2]:
        await world.pod(name, metadata=GROUPED)
    assert (await world.api.post(r.POD_GROUPS, pod_group(3))).status == 201
    await world.pod("other", cpu="0")
    await world.until_bound("other")
    for name in names[2:]:
        await world.pod(name, metadata=GROUPED)
    await asyncio.sleep(0.5)
    assert [name for name, _ in world.history] == ["other"]
    await world.node("n2", cpu="2")
    await world.until_bound(*names)
    assert not placeholders(world.pods)


async def test_pods_of_a_scheduling_group_are_a_gang_if_that_is_set(world: World) -> None:
    fake = world.api.fake
    assert fake is not None
    groups = r.Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
    fake.install(Kind(groups, has_status=True))
    body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    assert (await world.api.post(groups, body)).status == 201
    await world.node("n", cpu="1")
    await world.pod("w0", schedulingGroup={"podGroupName": "g"})
    await world.start(gang_sources=frozenset({GangSource.KUBERNETES}))
    await world.pod("other", cpu="0")
    await world.until_bound("other")
    await world.pod("w1", schedulingGroup={"podGroupName": "g"})
    await asyncio.sleep(0.5)
    assert [name for name, _ in world.history] == ["other"]
    await world.node("n2", cpu="1")
    await world.until_bound("w0", "w1")
    async with asyncio.timeout(10):
        while not (said := condition((await world.api.get(groups, "g")).json, "PodGroupScheduled")):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (said["status"], said["reason"]) == ("True", "Scheduled")


async def test_requeued_pods_of_a_pod_group_that_is_installed_later(world: World) -> None:
    await world.node("n", cpu="1")
    await world.start(discover_s=0.2)
    await world.api.install_pod_groups()
    await asyncio.sleep(0.6)
    assert (await world.api.post(r.POD_GROUPS, pod_group(2, scheduleTimeoutSeconds=2))).status == 201
    for number in range(2):
        await world.pod(f"w{number}", metadata=GROUPED)
    await world.until(lambda pods: all(condition(pods.get(f"w{n}", {}), "PodScheduled") for n in range(2)))
    await asyncio.sleep(3)
    await world.pod("other")
    await world.until_bound("other")  # the room was given back
    assert not any(node_of(world.pods[f"w{number}"]) for number in range(2))


async def test_a_gang_comes_through_lost_answers_and_restarts(world: World) -> None:
    fake = world.api.fake
    assert fake is not None
    await world.node("n1", cpu="4")
    names = [f"w{number}" for number in range(8)]
    for name in names:
        await world.pod(name, metadata=gang(8))
    fake.faults.draw(random.Random(1), {"lose": 0.15, "cut": 0.1, "fail_after": 0.1})
    for seconds in (0.3, 0.6):
        await world.start()
        await asyncio.sleep(seconds)
        await world.stop()
    await world.start()
    fake.faults.stop()
    await world.until(lambda pods: len(placeholders(pods)) == 8)
    assert not any(name in names for name, _ in world.history), "a part of the gang runs"
    await world.node("n2", cpu="4")
    await world.until_bound(*names)
    await world.until(lambda pods: not placeholders(pods))
    real = [name for name, _ in world.history if name in names]
    assert sorted(real) == names
    assert {fault for fault, _, _ in fake.faults.happened} >= {"lose"}
