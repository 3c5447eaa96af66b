"""The work of the shim without its process: lines of a watch are decoded, and the cluster is stepped, pod by pod.

For each pod: its creation is decoded and asked for, the allocation is judged and bound, the end of the binding is
taken, and the pod with its node is decoded and taken. No loop, no messages, no requests.
"""

from __future__ import annotations

import time

import msgspec

from benchmarks.kubernetes.cluster import JSON, NAMESPACE, Workload
from benchmarks.kubernetes.rivals import SCHEDULER
from benchmarks.measurement import WrongResult
from schedulerd.kubernetes.api.decoding import Decoder, WatchLine
from schedulerd.kubernetes.api.object_cache import ObjectCache
from schedulerd.kubernetes.api.resources import PODS
from schedulerd.kubernetes.api.watch_events import WatchEvent
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.effects import Ask, Bind, Effect
from schedulerd.kubernetes.cluster.events import (
    Allocated,
    ApplicationAccepted,
    BindEnded,
    BindResult,
    Event,
    NodeAccepted,
    Put,
    Started,
)
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.objects.cluster import Namespace
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.shim.watches import cluster_events
from tests.kubernetes.builders import app

MANAGED_FIELDS = 2_000


class _Steps:
    def __init__(self) -> None:
        self._cluster = Cluster(ClusterSettings(scheduler_names=frozenset({SCHEDULER})))
        self._decoder = Decoder(Pod)
        self._cache: ObjectCache[Pod] = ObjectCache()
        self._now_ns = 1

    def step(self, events: list[Event]) -> list[Effect]:
        self._now_ns += 1_000_000
        return self._cluster.step(self._now_ns, events)

    def start(self, workload: Workload) -> None:
        namespace = convert(Namespace, {"metadata": {"name": NAMESPACE, "uid": "n"}})
        nodes = [convert(Node, workload.node(number)) for number in range(workload.nodes)]
        self.step([Put(namespace), *(Put(node) for node in nodes)])
        self.step([Started(0)])
        self.step([NodeAccepted(node.metadata.name) for node in nodes])

    def line(self, line: bytes) -> list[Effect]:
        told: list[WatchEvent] = []
        for one in self._decoder.feed(line):
            assert isinstance(one, WatchLine)
            self._cache.upsert(one.object, told)
        return self.step([*cluster_events(PODS, told)])


def cpu_us_per_pod(workload: Workload) -> float:
    """Of all pods but the first of each application."""
    steps = _Steps()
    steps.start(workload)
    lines = [_lines(workload, number) for number in range(workload.pods)]
    for number in range(workload.applications):
        steps.line(lines[number][0])
        steps.step([ApplicationAccepted(app(f"app-{number}"))])
    bound, started_s = 0, time.process_time()
    for number in range(workload.applications, workload.pods):
        node = f"node-{number % workload.nodes:04d}"
        added, modified = lines[number]
        for ask in steps.line(added):
            if not isinstance(ask, Ask):
                continue
            effects = steps.step([Allocated(ask.application_id, ask.key, f"uuid-{number}", node)])
            bound += any(isinstance(effect, Bind) for effect in effects)
            steps.step([BindEnded(ask.key, node, BindResult.DONE, "", node)])
        steps.line(modified)
    seconds, pods = time.process_time() - started_s, workload.pods - workload.applications
    if bound != pods:
        raise WrongResult(f"{bound} of {pods} pods were bound")
    return 1e6 * seconds / pods


def _lines(workload: Workload, number: int) -> tuple[bytes, bytes]:
    """Of a watch: the pod is new, and has a node."""
    pod = workload.pod(number, SCHEDULER)
    pod["metadata"] |= {
        "uid": f"{number:08d}-0000-4000-8000-000000000000",
        "resourceVersion": str(2 * number + 100),
        "creationTimestamp": "2027-01-15T08:00:00Z",
        "managedFields": [{"manager": "user", "fieldsV1": {"f:spec": "x" * MANAGED_FIELDS}}],
    }
    pod["status"] = {"phase": "Pending"}
    bound: JSON = {
        **pod,
        "metadata": {**pod["metadata"], "resourceVersion": str(2 * number + 101)},
        "spec": {**pod["spec"], "nodeName": f"node-{number % workload.nodes:04d}"},
    }
    return _line("ADDED", pod), _line("MODIFIED", bound)


def _line(type_: str, pod: JSON) -> bytes:
    return msgspec.json.encode({"type": type_, "object": pod}) + b"\n"
