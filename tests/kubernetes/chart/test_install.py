"""The chart on a real API server: its containers run as processes with their command lines, volumes, tokens and probes,
and do what users want with the rights of their service account alone."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.chart import yunikorn_dashboards
from tests.kubernetes.chart.alerts import ALERTS, OF_WEBHOOKS, WITHOUT_DATA
from tests.kubernetes.chart.dashboards import ALERTS_PANEL, MAY_BE_ZERO, WEBHOOKS, queries
from tests.kubernetes.chart.installation import (
    DEPLOYMENTS,
    LIMIT_SECONDS,
    Installation,
    condition_of,
    log_events,
    node_of,
    phase,
)
from tests.kubernetes.chart.prometheus import PROMTOOL, Scrapes, bare, check_data, filled_in
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer
from tests.kubernetes.kubelet import SECONDS
from tests.kubernetes.node.container import Container

pytestmark = pytest.mark.timeout(SETUP_SECONDS_MAX)
JSON = dict[str, Any]
TAKEOVER_SECONDS_MAX = 10
"""How long a pod may wait to be bound while the leader is replaced: 3 s (docs/high-availability.md), some for whole
seconds of the clock, and for a machine that starts four processes meanwhile."""
OUTSTANDING = "schedulerd_outstanding_requests"
QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: default}
          - {name: greedy}
          - name: team
            maxapplications: 10
            resources: {guaranteed: {vcore: 2}, max: {vcore: 4}}
            properties: {preemption.delay: 1s}
"""


async def until(is_reached: Callable[[], Any]) -> None:
    """Waits for what a process does that tells nobody."""
    async with asyncio.timeout(LIMIT_SECONDS):
        while not is_reached():  # noqa: ASYNC110 - a log tells nobody that it has grown
            await asyncio.sleep(0.1)


async def test_a_pod_is_placed_and_helm_tests_it(real: RealServer) -> None:
    async with Installation(real) as world:
        await world.node("a")
        await world.install()
        await world.pod("p")
        pods = await world.until_running("p")
        assert node_of(pods["p"]) == f"{world.name}-a"
        out = await world.helm("test", world.name)
        assert "Succeeded" in out, out
        answer = await world.api.call("GET", f"/apis/policy/v1beta1/namespaces/{world.name}/poddisruptionbudgets")
        assert [one["metadata"]["name"] for one in answer.json["items"]] == [world.fullname]
        answer = await world.api.call("GET", "/apis/flowcontrol.apiserver.k8s.io/v1beta1/flowschemas")
        made = {one["metadata"]["name"] for one in answer.json["items"]}
        assert {f"{world.fullname}-leases", f"{world.fullname}-bindings"} <= made, "in the version that this server has"
        await world.uninstall()
        pods = await world.until(lambda pods: set(pods) == {"p"})
        assert phase(pods["p"]) == "Running", "what runs goes on"


async def test_a_queue_file_is_changed_without_a_restart(real: RealServer) -> None:
    async def checksums() -> set[str]:
        samples = await world.samples("daemon", "schedulerd_config_info")
        return {labels["checksum"] for labels, _ in samples}

    async def in_force() -> str:
        (checksum,) = await checksums()
        return checksum

    async with Installation(real) as world:
        await world.node("a")
        # The ConfigMap of a YuniKorn installation, whose other keys are files beside the queue file.
        data = {"queues.yaml": QUEUES, "service.clusterId": "mycluster", "log.level": "INFO"}
        config = await world.api.post(r.CONFIG_MAPS, {"metadata": {"name": "yunikorn-configs"}, "data": data})
        assert config.status == 201, config
        await world.install(queueFile={"existingConfigMap": "yunikorn-configs"})
        pod, before = await world.leader(), world.running()
        first = await in_force()
        assert (
            first == next(one for one in log_events(pod, "daemon") if one["event"] == "queue file in force")["checksum"]
        )
        await world.pod("p", metadata={"labels": {"queue": "root.new"}})
        await world.until(lambda pods: condition_of(pods["p"], "PodScheduled").get("status") == "False")

        data["queues.yaml"] = QUEUES + "          - {name: new}\n"
        await world.api.patch(r.CONFIG_MAPS, "yunikorn-configs", {"data": data})
        reloaded = "queue file reloaded"
        await until(lambda: any(one["event"] == reloaded for one in log_events(pod, "daemon")))
        second = await in_force()
        assert second != first
        assert second == next(one for one in log_events(pod, "daemon") if one["event"] == reloaded)["checksum"]

        data["queues.yaml"] = "partitions: [nonsense]"
        await world.api.patch(r.CONFIG_MAPS, "yunikorn-configs", {"data": data})
        refused = "queue file not reloaded: nothing changed"
        await until(lambda: any(one["event"] == refused for one in log_events(pod, "daemon")))
        assert await in_force() == second
        assert world.running() == before
        assert [one.restarts for pod in before for one in pod.containers.values()] == [0, 0] * 2


async def started_again(container: Container) -> None:
    """Kills it."""
    before = container.restarts
    container.signal(signal.SIGKILL)
    await until(lambda: container.restarts == before + 1)


@pytest.mark.nightly
async def test_containers_that_end_are_started_again_and_go_on(real: RealServer) -> None:
    async with Installation(real) as world:
        await world.node("a")
        await world.install()
        pod = await world.leader()
        for number, name in enumerate(("daemon", "shim")):
            await started_again((await world.leader()).containers[name])
            await world.pod(f"after-{number}")
            await world.until_running(f"after-{number}")
        assert await world.leader() is not pod, "the other replica was faster than the kubelet"
        # A stopped process answers no probe.
        pod.containers["daemon"].signal(signal.SIGSTOP)
        await world.until(lambda pods: condition_of(pods[pod.name], "Ready")["status"] == "False")
        pod.containers["daemon"].signal(signal.SIGCONT)
        await world.until(lambda pods: condition_of(pods[pod.name], "Ready")["status"] == "True")


@pytest.mark.nightly
async def test_the_service_of_the_leader_follows_it(real: RealServer) -> None:
    async def selected() -> list[str]:
        """Names of the pods that the Service reaches."""
        path = f"/api/v1/namespaces/{world.name}/services/{world.fullname}-leader"
        selector = (await world.api.call("GET", path)).json["spec"]["selector"]
        wanted = ",".join(f"{key}={value}" for key, value in selector.items())
        pods = (await world.api.get(r.PODS, labelSelector=wanted)).json["items"]
        return [one["metadata"]["name"] for one in pods if condition_of(one, "Ready").get("status") == "True"]

    async with Installation(real) as world:
        await world.install()
        first = await world.leader()
        async with asyncio.timeout(LIMIT_SECONDS):
            while await selected() != [first.name]:  # noqa: ASYNC110 - the label comes a moment after the lease
                await asyncio.sleep(0.1)
        await world.api.delete(r.PODS, first.name)
        await until(first.is_leaving.is_set)
        second = await world.leader()
        assert second is not first
        async with asyncio.timeout(LIMIT_SECONDS):
            while await selected() != [second.name]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def test_gangs_and_preemption_with_the_rights_of_the_chart(real: RealServer, tmp_path: Path) -> None:
    """And every panel of the dashboards shows something of it, and every alert has something to judge."""

    def gang(name: str, members: int = 2, kind: str = "none") -> JSON:
        group = {"name": "workers", "minMember": members, "minResource": {"cpu": "1"}}
        return {
            "labels": {"queue": "root.default", "applicationId": f"gang-{name}"},
            "annotations": {
                "schedulerd.io/task-groups": json.dumps([group]),
                "schedulerd.io/task-group-name": "workers",
                "schedulerd.io/placeholders": kind,
            },
        }

    scrapes = Scrapes()
    async with Installation(real) as world:
        await world.node("a")
        await world.install(
            queueFile={"text": QUEUES}, daemon={"extraArgs": ["--preemption-attempt-s=0.2", "--yunikorn-metrics"]}
        )
        await world.scrape(scrapes)
        for kind in ("always", "none"):
            for number in range(2):
                await world.pod(f"{kind}-{number}", metadata=gang(kind, kind=kind))
                await world.until_running(f"{kind}-{number}")
                await world.scrape(scrapes)  # while room is held for the other member
        await world.until(lambda pods: not any(name.startswith("tg-") for name in pods))
        for name in ("always-0", "always-1", "none-0", "none-1"):
            await world.api.delete(r.PODS, name)
        greedy = [f"greedy-{number}" for number in range(4)]
        for name in greedy:
            await world.pod(name, metadata={"labels": {"queue": "root.greedy", "applicationId": "greedy"}})
        await world.until_running(*greedy)
        await world.pod("large", metadata=gang("large", members=3, kind="always"))
        await world.pod("wide", metadata=gang("wide", members=3))
        async with asyncio.timeout(LIMIT_SECONDS):
            while not sum(count for _, count in await world.samples("daemon", OUTSTANDING)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await world.scrape(scrapes)
        requests = {"cpu": "1", "memory": "64Mi"}
        container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
        labels = {"queue": "root.team", "applicationId": "team"}
        for number in range(2):
            await world.pod(f"team-{number}", metadata={"labels": labels}, containers=[container])
            pods = await world.until_running(f"team-{number}")
            assert len(set(greedy) & set(pods)) == 3 - number
            await world.scrape(scrapes)
        asked = await world.samples("shim", "schedulerd_kubernetes_requests_total")
        assert not [labels for labels, count in asked if count and labels["code"] in ("401", "403")]
    if PROMTOOL is None:
        pytest.skip("pods are placed; without promtool nobody knows what dashboards and alerts show of it")
    shown = [name for name in queries() if name != ALERTS_PANEL and not name.startswith(WEBHOOKS)]
    check_panels(shown, scrapes, world.name, tmp_path)
    left_out = {*WITHOUT_DATA, *OF_WEBHOOKS}
    check_data([bare(rule["expr"]) for name, rule in ALERTS.items() if name not in left_out], scrapes, tmp_path)
    check_data([*yunikorn_dashboards.QUERIES, *yunikorn_dashboards.queries_of("team")], scrapes, tmp_path)


def check_panels(names: Collection[str], scrapes: Scrapes, namespace: str, folder: Path) -> None:
    """Fails if one of these queries has shown nothing."""
    queried = {name: bare(filled_in(query, namespace)) for name, query in queries().items() if name in names}
    check_data([query for name, query in queried.items() if name not in MAY_BE_ZERO], scrapes, folder, above_zero=True)
    check_data([query for name, query in queried.items() if name in MAY_BE_ZERO], scrapes, folder)


@pytest.mark.nightly
async def test_without_the_right_to_create_pods_placeholders_are_refused_and_said_to_be(real: RealServer) -> None:
    group = {"name": "workers", "minMember": 1, "minResource": {"cpu": "1"}}
    annotations = {"schedulerd.io/task-groups": json.dumps([group]), "schedulerd.io/task-group-name": "workers"}
    async with Installation(real) as world:
        await world.node("a")
        await world.install(gangs={"placeholders": "none"})
        await world.pod("held", metadata={"annotations": annotations, "labels": {"applicationId": "held"}})
        await world.until_running("held")
        asked = {**annotations, "schedulerd.io/placeholders": "pods"}
        await world.pod("pods", metadata={"annotations": asked, "labels": {"applicationId": "pods"}})
        pods = await world.until(
            lambda pods: "forbidden" in condition_of(pods["pods"], "PodScheduled").get("message", "")
        )
        assert not node_of(pods["pods"])


async def test_pods_are_placed_during_an_upgrade_and_a_rollback(real: RealServer) -> None:
    async def submit() -> None:
        """A pod now and then, each of which ends soon."""
        for number in itertools.count():
            await world.pod(f"p-{number}", cpu="10m", metadata={"annotations": {SECONDS: "0.5"}})
            names.append(f"p-{number}")
            await asyncio.sleep(0.2)

    async with Installation(real) as world:
        await world.node("a")
        await world.install()
        old, names = world.running(), list[str]()
        async with asyncio.TaskGroup() as group:
            submitting = group.create_task(submit())
            await world.upgrade(shim={"extraArgs": ["--writes-per-s=500"]}, podLabels={"new": "label"})
            new = world.running()
            await world.helm("rollback", world.name, "--wait", f"--timeout={LIMIT_SECONDS:g}s")
            submitting.cancel()
        assert not {one.name for one in old} & {one.name for one in new}
        for pod in old:
            assert {name: one.exit_codes for name, one in pod.containers.items()} == {"daemon": [0], "shim": [0]}
        deployment = await world.api.call("GET", DEPLOYMENTS.format(world.name, world.fullname))
        assert "new" not in deployment.json["spec"]["template"]["metadata"]["labels"]
        assert len(names) > 5
        pods = await world.until(lambda pods: all(map(node_of, map(pods.__getitem__, names))))
        waits = {name: seconds_to_binding(pods[name]) for name in names}
        assert max(waits.values()) <= TAKEOVER_SECONDS_MAX, waits


def seconds_to_binding(pod: JSON) -> float:
    """By the API server's clock, in whole seconds."""
    created, bound = pod["metadata"]["creationTimestamp"], condition_of(pod, "PodScheduled")["lastTransitionTime"]
    return (datetime.fromisoformat(bound) - datetime.fromisoformat(created)).total_seconds()


@pytest.mark.nightly
async def test_one_replica_without_leader_election(real: RealServer) -> None:
    async with Installation(real) as world:
        await world.node("a")
        await world.install(replicas=1, leaderElection={"enabled": False})
        await world.pod("p")
        await world.until_running("p")
        (pod,) = world.running()
        assert (await world.get("shim", "/readyz", pod))[0] == 200
