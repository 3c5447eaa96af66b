"""Writes about pods that the API server refuses, or that leave together: none takes the place of another."""

from __future__ import annotations

import asyncio

import pytest

from schedulerd.kubernetes.api.writes import Patch
from schedulerd.kubernetes.cluster import conditions
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.faults import fake
from tests.kubernetes.shim.test_gangs import gang
from tests.kubernetes.shim.world import Pods, World, condition


def phases(pods: Pods, names: list[str]) -> set[str]:
    return {pods.get(name, {}).get("status", {}).get("phase", "") for name in names}


async def test_all_pods_of_a_hard_gang_fail_when_its_placeholders_are_refused(world: World) -> None:
    """More than leave at once, each with a condition of its own that waits or is under way."""
    await world.node("n")
    names = [f"w{number}" for number in range(100)]
    for name in names:
        await world.pod(name, metadata=gang(100, "Hard", timeout_s=2))
    quota = Fault("refuse", code=403, reason="Forbidden", message="exceeded quota")
    fake(world).faults.add(quota, method="POST", plural="pods", subresource="", times=10_000)
    await world.start()
    await world.until(lambda pods: phases(pods, names) == {"Failed"})


async def test_a_pod_is_failed_again_when_the_server_does_not_take_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulerd.kubernetes.cluster.failing.FAIL_AGAIN_FIRST_NS", SECOND_NS)
    await world.node("n", cpu="6")
    await world.start()
    await world.pod("busy", cpu="2")
    await world.until_bound("busy")
    names = [f"w{number}" for number in range(6)]
    for name in names:
        await world.pod(name, metadata=gang(6, "Hard", timeout_s=3, placeholders="none"))
    await world.until(lambda pods: all(condition(pods.get(name, {}), "PodScheduled") for name in names))
    busy = Fault("refuse", code=429, retry_after_s=1)
    denied = Fault("refuse", code=403, message="denied")
    fake(world).faults.add(busy, method="PATCH", plural="pods", subresource="status", times=4)
    fake(world).faults.add(denied, method="PATCH", plural="pods", subresource="status", times=4)
    await world.until(lambda pods: phases(pods, names) == {"Failed"})
    assert len(fake(world).faults.happened) == 8


async def test_a_pod_has_all_its_conditions(world: World) -> None:
    annotations = {"schedulerd.io/task-groups": "[{}]", "schedulerd.io/on-invalid-gang": "fail"}
    names = [f"w{number}" for number in range(100)]
    for name in names:
        await world.pod(name, metadata={"labels": {"queue": "root.default"}, "annotations": annotations})
    await world.start()

    def have(pods: Pods, kind: str) -> bool:
        return all(condition(pods.get(name, {}), kind).get("status") == "False" for name in names)

    await world.until(lambda pods: have(pods, "PodScheduled") and have(pods, "schedulerd.io/Gang"))


async def test_a_condition_that_the_server_did_not_take_is_written_when_it_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Patch, "seconds_max", 1.0)
    monkeypatch.setattr(conditions, "LOST_NS", SECOND_NS)
    await world.node("n", cpu="1")
    await world.start()
    fault = Fault("refuse", code=503)
    fake(world).faults.add(fault, method="PATCH", plural="pods", subresource="status", times=10_000)
    await world.pod("p", cpu="3")
    await asyncio.sleep(3)
    fake(world).faults.stop()
    await world.until(lambda pods: condition(pods.get("p", {}), "PodScheduled").get("reason") == "Unschedulable")


async def test_a_binding_withdraws_the_condition_that_says_why_the_pod_waits_and_no_other(world: World) -> None:
    """The pod has room a moment after it was told that it has none; the server takes no conditions meanwhile."""
    await world.node("n", cpu="1")
    await world.start()
    metadata = {"annotations": {"schedulerd.io/task-groups": "[{}]"}, "labels": {"queue": "root.default"}}
    busy = Fault("refuse", code=429, retry_after_s=2)
    fake(world).faults.add(busy, method="PATCH", plural="pods", subresource="status", times=1)
    await world.pod("p", metadata=metadata)
    await world.until_bound("p")
    pods = await world.until(lambda pods: bool(condition(pods["p"], "schedulerd.io/Gang")))
    assert condition(pods["p"], "PodScheduled")["status"] == "True"
