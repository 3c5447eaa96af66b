"""The story of the demonstration: two teams share a cluster of 12 processors. Every pod asks for one."""

from __future__ import annotations

import json
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.demo.cluster import JSON, NODES, SCHEDULER, Cluster
from tests.kubernetes.demo.controllers import ENDED, Workload
from tests.kubernetes.demo.narrator import Narrator
from tests.kubernetes.kubelet import SECONDS
from tests.kubernetes.shim.world import condition

EXECUTORS = 4
PLACEHOLDER = "schedulerd.io/placeholder"
POD_GROUP = "scheduling.x-k8s.io/pod-group"


def template(
    queue: str, application: str, annotations: dict[str, str] | None = None, *, seconds: float | None = None
) -> JSON:
    """Of pods of one processor, which end by themselves after so many seconds."""
    annotations = dict(annotations or {})
    if seconds is not None:
        annotations[SECONDS] = str(seconds)
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}
    spec: JSON = {"schedulerName": SCHEDULER, "containers": [container], "terminationGracePeriodSeconds": 1}
    if seconds is not None:
        spec["restartPolicy"] = "Never"
    labels = {"schedulerd.io/queue": f"root.{queue}", "schedulerd.io/app-id": application}
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


class Story:
    def __init__(self, cluster: Cluster, narrator: Narrator) -> None:
        self.cluster = cluster
        self.tell = narrator

    async def play(self) -> None:
        await self._job()
        await self._quota()
        await self._gang()
        await self._pod_group()
        await self._preemption_and_drain()
        await self._agreement()

    async def _job(self) -> None:
        self.tell.chapter(
            "A Job",
            """Team red starts a Job of six pods, with schedulerName: schedulerd and a label for the queue root.red.
            Each runs for two seconds.""",
        )
        job = Workload("red", "build", 6, template("red", "build", seconds=2), is_job=True)
        await self.cluster.controllers.create(job)
        await self.tell.expect("all six pods are on nodes", lambda: len(self._placed("build")) == 6)
        await self.tell.expect("all six pods have ended well", lambda: len(self._ended("build")) == 6)
        await self._remove(job)

    async def _quota(self) -> None:
        self.tell.chapter(
            "A quota",
            "The queue root.small may use two processors. Team blue wants three pods there, in an empty cluster.",
        )
        small = Workload("blue", "small", 3, template("small", "small"))
        await self.cluster.controllers.create(small)
        await self.tell.expect("two pods run", lambda: len(self._placed("small")) == 2)
        words = "Queue root.small is at its quota"
        await self.tell.expect("the third one says why it waits", lambda: words in self._why(small.name))
        self._quote(small.name)
        victim = self._placed("small")[0]["metadata"]
        self.tell.say(f"One of the two is deleted: {victim['name']}.")
        known = {pod["metadata"]["uid"] for pod in self._placed("small")}
        await self.cluster.delete(r.PODS.path("blue", victim["name"]))
        await self.tell.expect(
            "another one takes its place",
            lambda: any(pod["metadata"]["uid"] not in known for pod in self._placed("small")),
        )
        await self._remove(small)

    async def _gang(self) -> None:
        self.tell.chapter(
            "A gang",
            f"""A driver, as of Spark, says by an annotation that it will need {EXECUTORS} executors. Placeholder pods
            hold their room before the driver runs, and every executor takes the room of one.""",
        )
        group = {"name": "executors", "minMember": EXECUTORS, "minResource": {"cpu": "1", "memory": "64Mi"}}
        told = {
            "schedulerd.io/task-groups": json.dumps([group]),
            "schedulerd.io/schedulingPolicyParameters": "placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard",
        }
        await self._pod("blue", "driver", template("blue", "spark", told))
        await self.tell.expect(
            f"{EXECUTORS} placeholder pods hold room, and the driver runs",
            lambda: len(self._placeholders()) == EXECUTORS and len(self._placed("driver")) == 1,
        )
        for number in range(EXECUTORS):
            executor = template("blue", "spark", {"schedulerd.io/task-group-name": "executors"}, seconds=2)
            await self._pod("blue", f"executor-{number}", executor, app="executor")
        await self.tell.expect(
            "the executors run in the place of the placeholders",
            lambda: len(self._placed("executor")) == EXECUTORS and not self._placeholders(),
        )
        await self.tell.expect("the executors have ended", lambda: len(self._ended("executor")) == EXECUTORS)
        await self._clear("blue")

    async def _pod_group(self) -> None:
        self.tell.chapter(
            "A PodGroup",
            """Eleven processors are in use when four pods come that are useful only together: their PodGroup has
            minMember: 4.""",
        )
        load = Workload("red", "load", 11, template("red", "load"))
        await self.cluster.controllers.create(load)
        await self.tell.expect("eleven pods run", lambda: len(self._placed("load")) == 11)
        path = r.POD_GROUPS.path("blue")
        body = {"apiVersion": r.POD_GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": "group"}}
        await self.cluster.create(path, {**body, "spec": {"minMember": 4}})
        for number in range(4):
            made = template("small", "")
            made["metadata"]["labels"] = {"schedulerd.io/queue": "root.red", POD_GROUP: "group"}
            await self._pod("blue", f"member-{number}", made, app="member")
        await self.tell.expect(
            "one processor is free, no member uses it, and all four say why",
            lambda: self._reasons("member") == ["Unschedulable"] * 4 and not self._placed("member"),
        )
        self._quote("member")
        self.tell.say("The load goes.")
        await self.cluster.controllers.delete(load)
        await self.tell.expect("all four members run", lambda: len(self._placed("member")) == 4)
        await self._clear("red")
        await self._clear("blue")

    async def _preemption_and_drain(self) -> None:
        self.tell.chapter(
            "Preemption",
            """Team red fills the cluster: its queue is guaranteed two processors, and may use what others leave. Then
            team blue, whose queue is guaranteed six, wants six.""",
        )
        batch = Workload("red", "batch", 12, template("red", "batch"))
        web = Workload("blue", "web", 6, template("blue", "web"))
        await self.cluster.controllers.create(batch)
        await self.tell.expect("twelve pods of red run", lambda: len(self._placed("batch")) == 12)
        await self.cluster.controllers.create(web)
        await self.tell.expect(
            "six pods of red were preempted, and six of blue run",
            lambda: len(self._placed("web")) == 6 and len(self._placed("batch")) == 6,
        )
        await self.tell.expect("those of red wait, and say why", lambda: "Insufficient cpu" in self._why("batch"))
        self._quote("batch")
        drained = NODES[0]
        self.tell.chapter(
            "A node is drained",
            f"""{drained} is cordoned and its pods are evicted. Their controllers make new ones, for which there is room
            only on the other nodes: eight processors, of which blue is still guaranteed six, and red two.""",
        )
        await self.cluster.patch(r.NODES.path("", drained), {"spec": {"unschedulable": True}})
        for pod in self._on(drained):
            await self.cluster.evict(pod["metadata"]["namespace"], pod["metadata"]["name"])
        await self.tell.expect("no pod is left there", lambda: not self._on(drained))
        await self.tell.expect(
            "blue has its six pods, and red two",
            lambda: len(self._placed("web")) == 6 and len(self._placed("batch")) == 2,
        )
        self.tell.say("The node comes back.")
        await self.cluster.patch(r.NODES.path("", drained), {"spec": {"unschedulable": None}})
        await self.tell.expect("red has six pods again", lambda: len(self._placed("batch")) == 6)

    async def _agreement(self) -> None:
        self.tell.chapter("At the end", "API server and daemon are asked about every pod and every node.")
        found: list[str] = []
        for _ in range(20):
            found = await self.cluster.agrees()
            if not found:
                break
            await self.cluster.until(lambda: False, 0.2)
        await self.tell.expect(f"they agree {'; '.join(found)}".strip(), lambda: not found, 0)
        values = {
            sample.name: sample.value
            for family in text_string_to_metric_families(await self.cluster.shim_metrics())
            for sample in family.samples
        }
        name = "schedulerd_kubernetes_pod_bound_seconds"
        bound, total_s = values[f"{name}_count"], values[f"{name}_sum"]
        self.tell.say(f"{bound:g} pods were bound; the mean wait, for quota and room too, was {total_s / bound:.1f} s.")

    async def _pod(self, namespace: str, name: str, made: JSON, app: str = "") -> None:
        metadata = {**made["metadata"], "name": name}
        metadata["labels"] = {**metadata["labels"], "app": app or name}
        await self.cluster.create(r.PODS.path(namespace), {"kind": "Pod", "metadata": metadata, "spec": made["spec"]})

    async def _remove(self, workload: Workload) -> None:
        await self.cluster.controllers.delete(workload)
        await self._until_empty(lambda: not self._named(workload.name))

    async def _clear(self, namespace: str) -> None:
        for pod in list(self.cluster.pods.values()):
            if pod["metadata"]["namespace"] == namespace:
                await self.cluster.delete(r.PODS.path(namespace, pod["metadata"]["name"]))
        await self._until_empty(lambda: not any(key.startswith(f"{namespace}/") for key in self.cluster.pods))

    async def _until_empty(self, is_empty: Callable[[], bool]) -> None:
        if not await self.cluster.until(is_empty, 20):
            await self.tell.expect("the pods of this chapter are gone", is_empty, 0)

    def _quote(self, app: str) -> None:
        """As `kubectl describe pod` shows it."""
        if not self._waiting(app):
            return
        said = condition(self._waiting(app)[0], "PodScheduled")
        self.tell.say(f"`kubectl describe pod` says: {said['reason']}: {said['message']}")

    def _why(self, app: str) -> str:
        waiting = self._waiting(app)
        return str(condition(waiting[0], "PodScheduled")["message"]) if waiting else ""

    def _reasons(self, app: str) -> list[str]:
        return [str(condition(pod, "PodScheduled")["reason"]) for pod in self._waiting(app)]

    def _waiting(self, app: str) -> list[JSON]:
        return [pod for pod in self._named(app) if condition(pod, "PodScheduled").get("status") == "False"]

    def _placed(self, app: str) -> list[JSON]:
        return [pod for pod in self._named(app) if _is_placed(pod)]

    def _ended(self, app: str) -> list[JSON]:
        return [pod for pod in self._named(app) if pod["status"].get("phase") == "Succeeded"]

    def _placeholders(self) -> list[JSON]:
        return [
            pod
            for pod in self.cluster.pods.values()
            if _is_placed(pod) and (pod["metadata"].get("annotations") or {}).get(PLACEHOLDER) == "true"
        ]

    def _named(self, app: str) -> list[JSON]:
        return [pod for pod in self.cluster.pods.values() if (pod["metadata"].get("labels") or {}).get("app") == app]

    def _on(self, node: str) -> list[JSON]:
        pods = self.cluster.pods.values()
        return [pod for pod in pods if pod["spec"].get("nodeName") == node and pod["status"].get("phase") not in ENDED]


def _is_placed(pod: JSON) -> bool:
    """On a node, and neither ended nor ending."""
    is_there = bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"]
    return is_there and pod["status"].get("phase") not in ENDED
