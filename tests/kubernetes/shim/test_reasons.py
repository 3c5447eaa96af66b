"""What `kubectl describe` shows of pods that wait: the whole way, from a real daemon to the API server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.shim.conftest import on_both, on_real
from tests.kubernetes.shim.world import Pods, World, condition, node_of

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: small
            resources: {max: {vcore: 1500m}}
          - name: single
            maxapplications: 1
          - name: large
"""


@pytest.fixture
def daemon_flags(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return ("--config", str(file))


def queue(name: str, application: str = "") -> dict[str, Any]:
    return {"labels": {"queue": f"root.{name}", "applicationId": application or name}}


def told(pods: Pods, name: str) -> tuple[str, str]:
    found = condition(pods.get(name, {}), "PodScheduled")
    return ("", "") if found.get("status") != "False" else (found["reason"], found["message"])


async def until_told(world: World, name: str, reason: str, words: str) -> str:
    pods = await world.until(lambda pods: told(pods, name)[0] == reason and words in told(pods, name)[1])
    return told(pods, name)[1]


async def until_event(world: World, name: str, reason: str) -> str:
    """The note of an event about the pod."""

    def note(one: dict[str, Any]) -> str:
        is_it = one["regarding"]["name"] == name and one["reason"] == reason
        return str(one["note"]) if is_it else ""

    listed = (await world.api.get(r.EVENTS)).json
    found = next(filter(None, map(note, listed["items"])), "")
    stream = None if found else await world.api.watch(r.EVENTS, listed["metadata"]["resourceVersion"])
    while stream is not None and not found:
        event = await stream.next()
        assert event is not None, "the watch has ended"
        found = note(event["object"])
    if stream is not None:
        stream.close()
    return found


@on_both
async def test_each_pod_reads_why_it_waits(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.node("a", cpu="2")
    answer = await world.api.patch(
        r.NODES,
        await world.node("b", cpu="8"),
        {"spec": {"taints": [{"key": "gpu", "value": "x", "effect": "NoSchedule"}]}},
    )
    assert answer.status == 200
    await world.start()
    await world.pod("fits", metadata=queue("small"))
    await world.until_bound("fits")
    await world.pod("quota", metadata=queue("small"))
    await world.pod("room", cpu="3", metadata=queue("large"))
    await world.pod("group", metadata=queue("large"), nodeSelector={"group": world.api.namespace})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    await world.pod("claim", metadata=queue("large"), volumes=volumes)
    await world.pod("nowhere", metadata=queue("missing"))
    text = await until_told(world, "quota", "SchedulingSkipped", "quota")
    assert (
        text == "Queue root.small would be above its quota: 1 of 1500m cpu used, 1 more asked. Nodes are not the cause."
    )
    assert await until_event(world, "quota", "SchedulingSkipped") == text
    text = await until_told(world, "room", "Unschedulable", "Insufficient")
    assert "1 Insufficient cpu" in text
    assert "1 node(s) had untolerated taint(s)" in text
    assert await until_event(world, "room", "FailedScheduling") == text
    await until_told(world, "group", "Unschedulable", "didn't match Pod's node affinity/selector")
    await until_told(world, "claim", "SchedulingSkipped", 'persistentvolumeclaim "data" not found')
    await until_told(world, "nowhere", "SchedulingSkipped", "root.missing")
    await until_event(world, "nowhere", "ApplicationRejected")
    await world.end("fits")
    pods = await world.until_bound("quota")
    assert condition(pods["quota"], "PodScheduled")["status"] == "True"
    note = await until_event(world, "quota", "Scheduled")
    assert note == f"Successfully assigned {world.api.namespace}/quota to {node_of(pods['quota'])}"


async def test_an_application_that_may_not_start_says_so(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.node("a", cpu="4")
    await world.start()
    await world.pod("first", metadata=queue("single", "one"))
    await world.until_bound("first")
    await world.pod("second", metadata=queue("single", "two"))
    text = await until_told(world, "second", "SchedulingSkipped", "applications")
    assert text == "Queue root.single runs 1 of at most 1 applications. Nodes are not the cause."


@pytest.mark.nightly
async def test_nodes_that_change_change_the_sentence(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.node("a", cpu="1")
    await world.start()
    await world.pod("p", cpu="2", metadata=queue("large"))
    await until_told(world, "p", "Unschedulable", "No node can ever fit 2 cpu; the largest has 1.")
    await world.node("b", cpu="1500m")
    await until_told(world, "p", "Unschedulable", "the largest has 1500m.")
    await world.node("c", cpu="2")
    await world.until_bound("p")


@on_real
async def test_kubectl_describes_why(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.node("a", cpu="1")
    await world.start()
    await world.pod("p", cpu="2", metadata=queue("large"))
    note = await until_event(world, "p", "FailedScheduling")
    kubectl = Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl"
    way = ("--server", world.api.url, "--insecure-skip-tls-verify", "--namespace", world.api.namespace)
    token = world.api.headers["Authorization"].removeprefix("Bearer ")
    process = await asyncio.create_subprocess_exec(
        kubectl, *way, "--token", token, "describe", "pod", "p", stdout=asyncio.subprocess.PIPE
    )
    text = (await process.communicate())[0].decode()
    (line,) = [line for line in text.splitlines() if "FailedScheduling" in line]
    assert line.split()[0] == "Warning"
    assert line.endswith(note)


class TestOnTheFake:
    """What a real server cannot be told to do, or does not count."""

    async def test_writes_are_bounded_and_survive_faults(self, world: World, daemon_flags: tuple[str, ...]) -> None:
        fake = world.api.fake
        assert fake is not None
        await world.node("a", cpu="1")
        await world.start()
        fake.faults.add(Fault("refuse", code=429, retry_after_s=1), method="PATCH", subresource="status", times=3)
        fake.faults.add(Fault("lose"), method="PATCH", subresource="status", times=3)
        fake.faults.add(Fault("refuse", code=409), method="PATCH", subresource="status", times=2)
        names = [f"p{number}" for number in range(60)]
        for name in names:
            await world.pod(name, cpu="2", metadata=queue("large"))
        await world.until(lambda pods: all(told(pods, name)[0] == "Unschedulable" for name in names))
        for name in names:
            await until_event(world, name, "FailedScheduling")
        patches = [path for method, path in fake.server.requests if method == "PATCH" and path.endswith("/status")]
        posts = [path for method, path in fake.server.requests if method == "POST" and path.endswith("/events")]
        assert len(patches) <= 2 * len(names) + 8, "one or two conditions of each, and the faults"
        assert len(posts) <= 2 * len(names)
        assert not [method for method, _ in fake.server.requests if method == "PUT"]

    async def test_a_condition_that_is_late_does_not_undo_a_binding(
        self, world: World, daemon_flags: tuple[str, ...]
    ) -> None:
        fake = world.api.fake
        assert fake is not None
        await world.node("a", cpu="1")
        await world.start()
        fake.faults.add(Fault("refuse", code=429, retry_after_s=2), method="PATCH", subresource="status", name="p")
        await world.pod("p", cpu="2", metadata=queue("large"))
        await until_event(world, "p", "FailedScheduling")  # leaves after the condition
        assert fake.faults.happened
        await world.node("b", cpu="2")
        pods = await world.until_bound("p")
        assert condition(pods["p"], "PodScheduled").get("status") == "True"

    async def test_claims_on_devices_are_refused(self, world: World, daemon_flags: tuple[str, ...]) -> None:
        await world.node("a", cpu="1")
        await world.start()
        await world.pod("p", metadata=queue("large"), resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
        await until_told(world, "p", "SchedulingSkipped", "resource claims, which schedulerd does not support")
        await until_event(world, "p", "FailedScheduling")
