"""Pods of a queue above its guarantee end for pods of a queue below its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from schedulerd.kubernetes.api import Resource, knows
from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.contract.api import MERGE
from tests.kubernetes.fake.kinds import Kind
from tests.kubernetes.shim.conftest import on_both
from tests.kubernetes.shim.world import LIMIT_SECONDS, World, condition, node_of

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
    assert said["message"].endswith(f"{node} is kept for it, where 1 preempted allocation has to end first.")
    await world.finish(victim)
    await world.until_bound("team")
    assert (await world.api.get(r.PODS, victim)).status == 404


class Budget:
    """A PodDisruptionBudget for the pods of an application, and the controller of its status where none runs."""

    def __init__(self, world: World, resource: Resource) -> None:
        self._world = world
        self._resource = resource

    @classmethod
    async def create(cls, world: World, application: str, pods: int) -> Budget:
        """All of these pods are to be there."""
        transport = world.api.transport()
        is_new = await knows(transport, r.POD_DISRUPTION_BUDGETS)
        await transport.close()
        budget = cls(world, r.POD_DISRUPTION_BUDGETS if is_new else r.BETA_POD_DISRUPTION_BUDGETS)
        spec = {"minAvailable": pods, "selector": {"matchLabels": {"applicationId": application}}}
        answer = await world.api.post(budget._resource, {"metadata": {"name": "budget"}, "spec": spec})
        assert answer.status == 201, answer
        await budget.say(pods, pods, pods)
        return budget

    async def say(self, pods: int, healthy: int, wanted: int) -> None:
        """Sets how many pods are to be there, and waits until the status says what follows from that."""
        api = self._world.api
        allowed = max(0, healthy - wanted)
        await api.patch(self._resource, "budget", {"spec": {"minAvailable": wanted}}, content_type=MERGE)
        if not (api.is_real and api.real.has_controllers):
            counts = {"expectedPods": pods, "currentHealthy": healthy, "desiredHealthy": wanted}
            status = {"disruptionsAllowed": allowed, "observedGeneration": 1, **counts}
            answer = await api.patch(self._resource, "budget", {"status": status}, "status", content_type=MERGE)
            assert answer.status == 200, answer
        async with asyncio.timeout(LIMIT_SECONDS):
            while (await self._status()).get("disruptionsAllowed") != allowed:  # noqa: ASYNC110 - a controller says it
                await asyncio.sleep(0.1)

    async def _status(self) -> dict[str, int]:
        return dict((await self._world.api.get(self._resource, "budget")).json.get("status", {}))


async def ready(world: World, *names: str) -> None:
    for name in names:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        answer = await world.api.patch(r.PODS, name, {"status": status}, "status")
        assert answer.status == 200, answer


async def until_refused(world: World, name: str) -> None:
    """Until the shim has refused victims for the pod."""
    assert world.shim is not None
    uid = world.pods[name]["metadata"]["uid"]
    async with asyncio.timeout(LIMIT_SECONDS):
        while uid not in world.shim.cluster.model.cache.refused:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.05)


@on_both
async def test_a_budget_keeps_pods_and_lets_as_many_go_as_it_allows(
    world: World, daemon_flags: tuple[str, ...]
) -> None:
    await world.node("n", cpu="4")
    await world.start()
    victims = [f"greedy{number}" for number in range(4)]
    for name in victims:
        await world.pod(name, metadata=queue("greedy"))
    await world.until_bound(*victims)
    await ready(world, *victims)
    budget = await Budget.create(world, "greedy", 4)
    for name in ("team1", "team2"):
        await world.pod(name, metadata=queue("team"))
    await world.until(lambda pods: {"team1", "team2"} <= set(pods))
    await until_refused(world, "team1")
    assert not any("deletionTimestamp" in pod["metadata"] for pod in world.pods.values())
    await budget.say(4, 4, 3)
    pods = await world.until(lambda pods: any("deletionTimestamp" in pod["metadata"] for pod in pods.values()))
    (victim,) = [name for name, pod in pods.items() if "deletionTimestamp" in pod["metadata"]]
    await budget.say(3, 3, 3)
    await world.finish(victim)
    pods = await world.until(lambda pods: any(node_of(pods[name]) for name in ("team1", "team2")))
    (late,) = [name for name in ("team1", "team2") if not node_of(pods[name])]
    await until_refused(world, late)
    assert not any("deletionTimestamp" in pod["metadata"] for pod in world.pods.values()), "one went, and no other"
    await world.agrees()


async def test_budgets_can_be_ignored(world: World, daemon_flags: tuple[str, ...]) -> None:
    await world.node("n", cpu="1")
    await world.start(respects_budgets=False)
    await world.pod("greedy", metadata=queue("greedy"))
    await world.until_bound("greedy")
    await ready(world, "greedy")
    await Budget.create(world, "greedy", 1)
    await world.pod("team", metadata=queue("team"))
    await world.until(lambda pods: "deletionTimestamp" in pods["greedy"]["metadata"])
    await world.finish("greedy")
    await world.until_bound("team")


async def test_a_server_with_budgets_of_an_older_version(world: World, daemon_flags: tuple[str, ...]) -> None:
    assert world.api.fake is not None
    (newer,) = [kind for kind in world.api.fake.server.kinds if kind.resource == r.POD_DISRUPTION_BUDGETS]
    world.api.fake.server.kinds.remove(newer)
    world.api.fake.server.kinds.append(Kind(r.BETA_POD_DISRUPTION_BUDGETS, has_status=True))
    await test_a_budget_keeps_pods_and_lets_as_many_go_as_it_allows(world, daemon_flags)
