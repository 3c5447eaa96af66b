"""Gangs by annotations: both kinds of placeholders, from the first pod to the last."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.world import JSON, Pods, World, condition, node_of

PLACEHOLDER = "schedulerd.io/placeholder"


def gang(members: int, style: str = "Soft", timeout_s: int = 60, cpu: str = "1", **annotations: str) -> JSON:
    """Metadata of a pod of the application `gang`."""
    group = {"name": "workers", "minMember": members, "minResource": {"cpu": cpu, "memory": "64Mi"}}
    return {
        "labels": {"queue": "root.default", "applicationId": "gang"},
        "annotations": {
            "yunikorn.apache.org/task-groups": json.dumps([group]),
            "yunikorn.apache.org/task-group-name": "workers",
            "yunikorn.apache.org/schedulingPolicyParameters": (
                f"placeholderTimeoutInSeconds={timeout_s} gangSchedulingStyle={style}"
            ),
            **annotations,
        },
    }


def placeholders(pods: Pods) -> list[str]:
    return [name for name, pod in pods.items() if (pod["metadata"].get("annotations") or {}).get(PLACEHOLDER)]


def application(world: World, application_id: str = "gang") -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def look(value: object) -> None:
        if isinstance(value, dict):
            if value.get("application_id") == application_id or value.get("id") == application_id:
                found.append(value)
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    look(world.daemon.state())
    return found[0] if found else {}


@pytest.mark.parametrize("kind", ["pods", "virtual"])
async def test_a_gang_is_bound_when_all_of_it_has_room(world: World, kind: str) -> None:
    await world.node("n1", cpu="2")
    await world.start()
    names = [f"w{number}" for number in range(4)]
    for name in names:
        await world.pod(name, metadata=gang(4, **{"schedulerd.io/placeholders": kind}))
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
    made = [name for name, _ in world.history if name.startswith("tg-")]
    assert len(made) == (4 if kind == "pods" else 0)


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
    made = [name for name, _ in world.history if name.startswith("tg-")]
    assert sorted(made) == sorted(before)


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


@pytest.mark.parametrize("kind", ["pods", "virtual"])
async def test_soft_pods_go_on_without_their_gang(world: World, kind: str) -> None:
    await world.node("n", cpu="2")
    await world.start()
    for number in range(3):
        await world.pod(f"w{number}", metadata=gang(3, timeout_s=2, **{"schedulerd.io/placeholders": kind}))
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


async def test_pods_of_a_virtual_gang_without_room_are_all_unschedulable(world: World) -> None:
    await world.node("n", cpu="2")
    await world.start()
    names = [f"w{number}" for number in range(3)]
    for name in names:
        await world.pod(name, metadata=gang(3, **{"schedulerd.io/placeholders": "virtual"}))
    pods = await world.until(
        lambda pods: all(condition(pods.get(name, {}), "PodScheduled").get("reason") for name in names)
    )
    assert {condition(pods[name], "PodScheduled")["reason"] for name in names} == {"Unschedulable"}
    assert not any("nominatedNodeName" in pod["status"] for pod in pods.values())
