"""Stories of a cluster, told with kubectl on a real API server with its controllers; the shim has only the rights of
`config/kubernetes/rbac.yaml`. Nodes and kubelets are those of the test."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.election import Leadership, LeaseName, LeaseTimes, identity
from tests.kubernetes.contract.api import Api
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer, assets
from tests.kubernetes.kubelet import SECONDS
from tests.kubernetes.rights import manifests
from tests.kubernetes.shim.kubectl_story import RBAC, RestrictedApi, container, running, story, waiting
from tests.kubernetes.shim.test_preemption import until_refused
from tests.kubernetes.shim.world import JSON, LIMIT_SECONDS, World, node_of
from tests.kubernetes.volume_controller import HOST, VolumeController, volume_body

pytestmark = pytest.mark.timeout(SETUP_SECONDS_MAX)
QUEUES = """
partitions:
  - name: default
    preemption: {enabled: true}
    placementrules:
      - {name: provided, create: false}
      - {name: tag, value: namespace, create: true, parent: {name: fixed, value: root.spaces}}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: default}
          - {name: spaces, parent: true}
          - {name: greedy}
          - name: team
            resources: {guaranteed: {vcore: 2}}
            properties: {preemption.delay: 1s}
"""


@pytest.fixture
def api(servers: dict[str, RealServer]) -> Api:
    if assets() is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    real = servers["real"]
    real.start_controllers()
    return RestrictedApi(real)


@pytest.fixture
def daemon_flags(tmp_path: Path) -> tuple[str, ...]:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    return ("--config", str(file), "--preemption-attempt-s", "0.2")


async def test_a_job_runs_to_its_end_and_daemon_pods_are_everywhere(
    world: World, daemon_flags: tuple[str, ...]
) -> None:
    async with story(world, "a", "b") as told:
        job = told.workload("Job", "build", {"completions": 12, "parallelism": 6}, {"annotations": {SECONDS: "0.5"}})
        agent = told.workload("DaemonSet", "agent", {}, containers=[container("100m")])
        await told.kubectl.apply(job, agent)
        await told.kubectl("wait", "--for=condition=complete", "job/build", f"--timeout={LIMIT_SECONDS:g}s")
        agents = await told.until_running("agent", 2)
        assert {node_of(pod) for pod in agents} == {world.node_name("a"), world.node_name("b")}
        line = await told.until_described(agents[0], "Scheduled", "Successfully assigned")
        assert line.split()[0] == "Normal"
        await told.until("build", lambda pods: [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 12)
        ended = [name for name, _ in world.history if name.startswith("build-")]
        assert len(ended) == len(set(ended)) == 12
        late = await world.node("late")
        agents = await told.until_running("agent", 3)
        assert late in {node_of(pod) for pod in agents}


async def test_the_manifests_are_taken(world: World, daemon_flags: tuple[str, ...]) -> None:
    async with story(world) as told:  # which applies those of the rights
        out = await told.kubectl("apply", "--dry-run=server", "-f", str(RBAC.with_name("schedulerd.yaml")))
        assert len(out.splitlines()) == len(manifests("schedulerd.yaml")), out


async def test_host_ports_zones_and_anti_affinity(world: World, daemon_flags: tuple[str, ...]) -> None:
    def zone(name: str) -> dict[str, str]:
        return {"topology.kubernetes.io/zone": f"{world.api.namespace}-{name[0]}", "kubernetes.io/hostname": name}

    async with story(world, "a1", "a2", "b1", labels=zone) as told:
        own = {"matchLabels": {"app": "web"}}
        spread = {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
        port = [{"containerPort": 80, "hostPort": 8080}]
        await told.kubectl.apply(
            told.workload(
                "Deployment", "web", {"replicas": 4}, topologySpreadConstraints=[{**spread, "labelSelector": own}]
            ),
            told.workload(
                "Deployment",
                "db",
                {"replicas": 4},
                affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
            ),
            told.workload("Deployment", "proxy", {"replicas": 4}, containers=[container("100m", ports=port)]),
        )
        web = await told.until_running("web", 4)
        on_b = [pod for pod in web if node_of(pod) == world.node_name("b1")]
        assert len(on_b) == 2, "as many as in the zone with two nodes"
        for app, words in (("db", "anti-affinity rules"), ("proxy", "didn't have free ports")):
            pods = await told.until(app, lambda pods: len(running(pods)) == 3 and len(waiting(pods)) == 1)
            assert len({node_of(pod) for pod in running(pods)}) == 3
            line = await told.until_described(waiting(pods)[0], "FailedScheduling", words)
            assert line.split()[0] == "Warning"
        await world.node("b2", zone("b2"))
        await told.until_running("db", 4)
        await told.until_running("proxy", 4)


async def test_a_quota_of_a_namespace_lowered_and_raised(world: World, daemon_flags: tuple[str, ...]) -> None:
    async def quota(cpu: int) -> None:
        text = json.dumps({"cpu": str(cpu)})
        await told.kubectl("annotate", "namespace", name, f"schedulerd.io/namespace.quota={text}", "--overwrite")

    name = world.api.namespace
    async with story(world, "a") as told:
        await quota(3)
        await told.kubectl.apply(told.workload("Deployment", "web", {"replicas": 2}, {"labels": {"queue": ""}}))
        await told.until_running("web", 2)
        await quota(2)
        await told.kubectl("scale", "deployment/web", "--replicas=3")
        pods = await told.until("web", lambda pods: len(waiting(pods)) == 1)
        assert len(running(pods)) == 2, "a quota that is lowered ends nothing"
        line = await told.until_described(waiting(pods)[0], "Queue root.spaces.", "2 of 2 cpu used, 1 more asked")
        assert "SchedulingSkipped" in line
        await quota(3)
        await told.until_running("web", 3)


async def test_a_node_is_drained(world: World, daemon_flags: tuple[str, ...]) -> None:
    async with story(world, "a", "b") as told:
        await told.kubectl.apply(told.workload("Deployment", "web", {"replicas": 3}))
        await told.until_running("web", 3)
        drained, kept = world.node_name("a"), world.node_name("b")
        await told.kubectl("drain", drained, "--timeout", f"{LIMIT_SECONDS:g}s")
        await told.until("web", lambda pods: len(running(pods)) == 3 and {node_of(pod) for pod in pods} == {kept})
        await told.kubectl("scale", "deployment/web", "--replicas=5")
        pods = await told.until("web", lambda pods: len(waiting(pods)) == 1)
        await told.until_described(waiting(pods)[0], "1 Insufficient cpu", "1 node(s) were unschedulable")
        await told.kubectl("uncordon", drained)
        await told.until_running("web", 5)
        await world.agrees()


async def test_a_node_is_lost(world: World, daemon_flags: tuple[str, ...]) -> None:
    async with story(world, "a", "b") as told:
        at_once = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
            for key in ("unreachable", "not-ready")
        ]
        for name in ("a", "b"):
            await ready(world, name, "True")
        await told.kubectl.apply(told.workload("Deployment", "web", {"replicas": 3}, tolerations=at_once))
        pods = await told.until_running("web", 3)
        lost = node_of(pods[0])
        there = [pod["metadata"]["name"] for pod in pods if node_of(pod) == lost]
        told.kubelet.lost.add(lost)
        await ready(world, lost.rpartition("-")[2], "Unknown")
        await told.until("web", lambda pods: len(running(pods)) == 3 and lost not in map(node_of, pods))
        await world.agrees()
        # They are said to end, and nobody can say that they have: their room is not free before the node is gone.
        assert all("deletionTimestamp" in world.pods[name]["metadata"] for name in there)
        await told.kubectl("delete", "node", lost)
        await told.kubectl("delete", "pod", "--force", "--grace-period=0", *there)
        await world.agrees()


async def ready(world: World, name: str, status: str) -> None:
    """The kubelet says so, or nobody has heard of it."""
    said = {"type": "Ready", "status": status, "reason": "Test"}
    answer = await world.api.patch(r.NODES, world.node_name(name), {"status": {"conditions": [said]}}, "status")
    assert answer.status == 200, answer


async def test_a_queue_gets_its_guarantee_by_preemption(world: World, daemon_flags: tuple[str, ...]) -> None:
    async with story(world, "a") as told:
        greedy = {"labels": {"queue": "root.greedy"}}
        await told.kubectl.apply(told.workload("Deployment", "greedy", {"replicas": 4}, greedy))
        await told.until_running("greedy", 4)
        await told.kubectl.apply(
            told.workload("Deployment", "team", {"replicas": 2}, {"labels": {"queue": "root.team"}})
        )
        await told.until_running("team", 2)
        events = await told.kubectl("get", "events", "--field-selector", "reason=Preempted")
        assert len(events.strip().splitlines()) == 1 + 2, events
        pods = await told.until("greedy", lambda pods: len(running(pods)) == 2 == len(waiting(pods)))
        await told.until_described(waiting(pods)[0], "FailedScheduling", "1 Insufficient cpu")
        await world.agrees()


async def test_a_budget_lets_one_pod_go_at_a_time(world: World, daemon_flags: tuple[str, ...]) -> None:
    async with story(world, "a") as told:
        greedy = {"labels": {"queue": "root.greedy"}}
        await told.kubectl.apply(told.workload("Deployment", "greedy", {"replicas": 4}, greedy))
        await told.until_running("greedy", 4)
        spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "greedy"}}}
        budget = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "greedy"}}
        await told.kubectl.apply({**budget, "spec": spec})
        await told.kubectl("wait", "pdb/greedy", "--for=jsonpath={.status.disruptionsAllowed}=1", "--timeout=30s")
        team = {"labels": {"queue": "root.team"}}
        await told.kubectl.apply(told.workload("Deployment", "team", {"replicas": 2}, team))
        pods = await told.until("team", lambda pods: len(running(pods)) == 1 == len(waiting(pods)))
        await until_refused(world, waiting(pods)[0]["metadata"]["name"])
        assert len(running(list(told.of("greedy").values()))) == 3
        await told.kubectl("delete", "pdb", "greedy")
        await told.until_running("team", 2)
        await world.agrees()


async def test_claims_get_their_volumes_where_their_pods_run(world: World, daemon_flags: tuple[str, ...]) -> None:
    def labels(name: str) -> dict[str, str]:
        return {HOST: world.node_name(name)}

    async with story(world, "a", "b", labels=labels) as told:
        local, made = (f"{world.api.namespace}-{name}" for name in ("local", "made"))
        classes = [(local, "kubernetes.io/no-provisioner"), (made, "disks.example.com")]
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "volumeBindingMode": "WaitForFirstConsumer"}
        await told.kubectl.apply(*({**head, "metadata": {"name": name}, "provisioner": one} for name, one in classes))
        volumes = [volume_body(f"{local}-{at}", local, world.node_name(at)) for at in "ab"]
        await told.kubectl.apply(*({"apiVersion": "v1", "kind": "PersistentVolume", **one} for one in volumes))
        size = {"requests": {"storage": "5Gi"}}
        templates = [
            {
                "metadata": {"name": name},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": of_class, "resources": size},
            }
            for name, of_class in (("data", local), ("log", made))
        ]
        spec = {
            "replicas": 2,
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "volumeClaimTemplates": templates,
        }
        await told.kubectl.apply(told.workload("StatefulSet", "db", spec))
        pods = await told.until("db", lambda pods: len(pods) == 2)
        await told.until_described(pods[0], "WaitingForVolumes", "data-db-", "log-db-")
        async with VolumeController(
            world.api, made
        ):  # the provisioner; the rest is done by the controllers of the server
            pods = await told.until_running("db", 2)
        assert {node_of(pod) for pod in pods} == {world.node_name("a"), world.node_name("b")}
        phases = await told.kubectl("get", "pvc", "-o", "jsonpath={.items[*].status.phase}")
        assert phases.split() == ["Bound"] * 4
        await world.agrees()


async def test_the_rights_are_enough_to_lead_and_for_no_other_lease(
    world: World, daemon_flags: tuple[str, ...]
) -> None:
    times = LeaseTimes(15, 10.0, 0.5)
    async with story(world, "a") as told:
        name = LeaseName("schedulerd", "schedulerd")
        async with Leadership(world.api.transport, name, identity("me"), times) as leadership:
            leadership.may_lead(True)
            async with asyncio.timeout(LIMIT_SECONDS):
                await leadership.elected()
            held = await told.kubectl("get", "lease", "-n", name.namespace, name.name)
            assert leadership.identity in held
            await asyncio.sleep(2 * times.retry_s)
            assert leadership.renewals["done"] >= 2
        async with Leadership(
            world.api.transport, LeaseName("schedulerd", "other"), identity("me"), times
        ) as leadership:
            leadership.may_lead(True)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3.0):
                    await leadership.elected()
            assert not leadership.is_leader


def gang(members: int, **parameters: Any) -> JSON:
    """Metadata of the pods of a gang whose members ask for one processor."""
    said = " ".join(f"{name}={value}" for name, value in parameters.items())
    group = {"name": "workers", "minMember": members, "minResource": {"cpu": "1"}}
    return {
        "annotations": {
            SECONDS: "1",
            "schedulerd.io/task-groups": json.dumps([group]),
            "schedulerd.io/task-group-name": "workers",
            "schedulerd.io/schedulingPolicyParameters": said,
        }
    }


@pytest.mark.parametrize("kind", ["always", "none"])
async def test_a_job_that_is_a_gang_of_fifty(world: World, daemon_flags: tuple[str, ...], kind: str) -> None:
    async with story(world, "a") as told:
        metadata = gang(50)
        metadata["annotations"]["schedulerd.io/placeholders"] = kind
        job = told.workload("Job", "train", {"completions": 50, "parallelism": 50}, metadata)
        await told.kubectl.apply(job)
        await told.until("train", lambda pods: len(pods) == 50)
        if kind == "none":
            pods = await told.until("train", lambda pods: len(waiting(pods)) == 50)
            await told.until_described(pods[0], "FailedScheduling", "0/1 nodes are available")
        else:
            await world.until(lambda pods: sum(name.startswith("tg-") for name in pods) == 50)
        assert not any(name.startswith("train-") for name, _ in world.history), "a part of the gang runs"
        for number in range(12):
            await world.node(f"more{number}")
        await told.kubectl("wait", "--for=condition=complete", "job/train", f"--timeout={LIMIT_SECONDS:g}s")
        await told.until("train", lambda pods: [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 50)
        ended = [name for name, _ in world.history if name.startswith("train-")]
        assert len(ended) == len(set(ended)) == 50
        await world.until(lambda pods: not any(name.startswith("tg-") for name in pods))
        await world.agrees()


async def test_a_job_whose_gang_is_not_complete_in_time(world: World, daemon_flags: tuple[str, ...]) -> None:
    async with story(world, "a") as told:
        metadata = gang(6, placeholderTimeoutInSeconds=2, gangSchedulingStyle="Hard")
        job = told.workload("Job", "train", {"completions": 6, "parallelism": 6, "backoffLimit": 0}, metadata)
        await told.kubectl.apply(job)
        await told.kubectl("wait", "--for=condition=failed", "job/train", f"--timeout={LIMIT_SECONDS:g}s")
        await world.until(lambda pods: not any(name.startswith("tg-") for name in pods))
        assert not any(name.startswith("train-") for name, _ in world.history)
        events = await told.kubectl("get", "events", "--field-selector", "reason=ApplicationFailed")
        assert "4 of 6 placeholders" in events, events
        # The room is free again.
        await told.kubectl.apply(told.workload("Deployment", "web", {"replicas": 4}))
        await told.until_running("web", 4)
