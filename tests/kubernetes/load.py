"""Pods that come, run and go on a fake API server, whatever happens to its clients, and what was done with them.

The load is the user and the kubelets: it changes the stored objects directly, past all faults. Every choice is drawn
from one seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from random import Random
from typing import Any

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.accounts import State, disagreements
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.fake.failures import Failure
from tests.kubernetes.fake.store import Change, Object
from tests.kubernetes.load_volumes import LoadVolumes
from tests.kubernetes.volume_controller import HOST

NAMESPACE = "default"
APPLICATIONS = 5
SIZES = ("100m", "250m", "500m")
GANG_EVERY, MEMBERS = 15, 3
"""After so many single pods comes a gang of so many, with placeholder pods and without in turn."""
GANG = "gang"
GANG_PARAMETERS = "placeholderTimeoutInSeconds=5 gangSchedulingStyle=Soft"
"""Members that are deleted while their gang waits are not made again before the end."""
PLACEHOLDER = "schedulerd.io/placeholder"
TURN_SECONDS = 0.01
WAITING_MAX = 100
WITH_CLAIM = 6
"""One of so many pods has a claim that waits for it."""


class Load:
    """`bindings` has the nodes of every pod in the order in which they were stored: more than one is a double bind."""

    def __init__(
        self,
        fake: FakeCluster,
        scheduler: str,
        random: Random,
        *,
        nodes: int = 5,
        cpu: str = "4",
        has_gangs: bool = False,
    ) -> None:
        self.fake = fake
        self.has_gangs = has_gangs
        self.gangs = 0
        self.placeholders: set[str] = set()
        """Uids of placeholder pods that were made."""
        self.random = random
        self.scheduler = scheduler
        self.made = 0
        self.bindings: dict[str, list[str]] = {}
        """By uid."""
        self._pods: dict[str, Object] = {}
        """By name: those that exist and have not ended."""
        self.nodes = [f"n{number}" for number in range(nodes)]
        for name in self.nodes:
            amounts = {"cpu": cpu, "memory": "64Gi", "pods": "500"}
            metadata = {"name": name, "labels": {HOST: name}}
            fake.create(r.NODES, name, metadata=metadata, status={"allocatable": amounts, "capacity": amounts})
        self.volumes = LoadVolumes(fake, Random(random.random()), NAMESPACE, self.nodes)
        fake.store.listeners.append(self._changed)

    @property
    def waiting(self) -> list[str]:
        """Names of pods without a node."""
        return [name for name, pod in self._pods.items() if not pod["spec"].get("nodeName")]

    @property
    def running(self) -> list[str]:
        return [name for name, pod in self._pods.items() if pod["spec"].get("nodeName")]

    async def run(
        self, pods: int, lasts: Callable[[], bool] = lambda: False, is_away: Callable[[], bool] = lambda: False
    ) -> None:
        """Makes so many pods, and more as long as it lasts; others run, end, are resized, deleted, bound by somebody.
        While the API server is away nobody can do anything."""
        last = self.made + pods
        while self.made < last or lasts():
            if not is_away():
                if len(self.waiting) < WAITING_MAX:
                    self.make()
                    if self.has_gangs and self.made % GANG_EVERY == 0:
                        self.make_gang()
                self.happen()
            await asyncio.sleep(TURN_SECONDS)

    async def settle(self, seconds: float = 60.0) -> None:
        """No pod is made any longer; running ones end as others wait, until all are bound. Then all gangs end."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds
        before, since_s = -1, loop.time()
        while waiting := self.waiting:
            self.fake.kubelet.finish_all()
            self.volumes.act()
            if len(waiting) != before:
                before, since_s = len(waiting), loop.time()
            elif loop.time() - since_s > 0.3:
                for name in self._without_placeholders(self.running)[:10]:
                    self.fake.kubelet.succeed(NAMESPACE, name)
                since_s = loop.time()
            assert loop.time() < end_s, f"{len(waiting)} pods wait, like {waiting[:3]}; {len(self.running)} run"
            await asyncio.sleep(0.02)
        self._end_gangs()
        self.fake.kubelet.finish_all()

    async def agrees(self, state: State, rm_id: str, seconds: float = 60.0) -> None:
        """Waits until both sides agree about every pod, and no placeholder is left. No pod was bound twice."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + seconds
        while True:
            self.fake.kubelet.finish_all()
            pods, nodes = (list(self.fake.store.of(self.fake.kind(kind)).values()) for kind in (r.PODS, r.NODES))
            found = await asyncio.to_thread(disagreements, pods, nodes, state, rm_id, {self.scheduler})
            found += [f"placeholder {pod['metadata']['name']} is left" for pod in pods if _is_placeholder(pod)]
            if not found:
                break
            assert loop.time() < end_s, "\n".join(found[:20])
            await asyncio.sleep(0.05)
        twice = {uid: nodes for uid, nodes in self.bindings.items() if len(nodes) > 1}
        assert not twice, f"bound twice: {twice}"
        problems = self.volumes.problems()
        assert not problems, "\n".join(problems[:20])

    def _end_gangs(self) -> None:
        """No placeholder outlives its application."""
        for name, pod in list(self._pods.items()):
            if pod["metadata"]["labels"].get("applicationId", "").startswith(GANG) and not _is_placeholder(pod):
                self.fake.kubelet.succeed(NAMESPACE, name)

    def make(self, node: str = "") -> str:
        name = f"p{self.made}"
        self.made += 1
        requests = {"cpu": self.random.choice(SIZES), "memory": "64Mi"}
        spec: dict[str, Any] = {}
        if node:
            spec["nodeName"] = node
        elif self.made % WITH_CLAIM == 0:
            spec = self.volumes.claim(f"{name}-data")
        self._create(name, f"app{self.random.randrange(APPLICATIONS)}", requests, spec)
        return name

    def make_gang(self) -> None:
        self.gangs += 1
        for number in range(MEMBERS):
            self._member(f"{GANG}{self.gangs}", str(number))

    def _member(self, application: str, name: str) -> None:
        requests = {"cpu": "100m", "memory": "64Mi"}
        group = {"name": "g", "minMember": MEMBERS, "minResource": requests}
        annotations = {
            "schedulerd.io/task-groups": json.dumps([group]),
            "schedulerd.io/task-group-name": "g",
            "schedulerd.io/placeholders": ("always", "none")[int(application.removeprefix(GANG)) % 2],
            "schedulerd.io/schedulingPolicyParameters": GANG_PARAMETERS,
        }
        self._create(f"{application}-{name}", application, requests, {}, annotations)

    def _create(
        self,
        name: str,
        application: str,
        requests: dict[str, str],
        spec: dict[str, Any],
        annotations: dict[str, str] | None = None,
    ) -> None:
        container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
        labels = {"queue": "root.default", "applicationId": application}
        metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
        spec = {"schedulerName": self.scheduler, "containers": [container], **spec}
        self.fake.create(r.PODS, name, metadata=metadata, spec=spec)

    def happen(self) -> None:
        """A few things that users, kubelets and other schedulers do."""
        kubelet, chance = self.fake.kubelet, self.random.random
        running, waiting = self._without_placeholders(self.running), self._without_placeholders(self.waiting)
        if len(running) < len(self.running) and chance() < 0.05:
            self.fake.delete(r.PODS, self.random.choice(sorted({*self.running} - {*running})), NAMESPACE)
        if running and chance() < 0.5:
            kubelet.run(NAMESPACE, self.random.choice(running))
        if running and chance() < 0.4:
            kubelet.succeed(NAMESPACE, running.pop(self.random.randrange(len(running))))
        if running and chance() < 0.1:
            self.fake.delete(r.PODS, self.random.choice(running), NAMESPACE)
        if waiting and chance() < 0.05:
            self.fake.delete(r.PODS, waiting.pop(self.random.randrange(len(waiting))), NAMESPACE)
        if waiting and chance() < 0.1:
            self.bind(self.random.choice(waiting), self.random.choice(self.nodes))
        if chance() < 0.03:
            self.make(self.random.choice(self.nodes))
        if running and chance() < 0.1:
            self._resize(self.random.choice(running))
        if chance() < 0.2:
            kubelet.finish_all()
        self.volumes.act()

    def bind(self, name: str, node: str) -> None:
        """Another scheduler binds the pod."""
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        with contextlib.suppress(Failure):
            self.fake.operations.bind(NAMESPACE, name, body)

    def _resize(self, name: str) -> None:
        """The kubelet has granted the pod something else."""
        requests = {"cpu": self.random.choice(SIZES), "memory": "64Mi"}
        status = {"name": "main", "resources": {"requests": requests}, "allocatedResources": requests}
        kind = self.fake.kind(r.PODS)
        body = {"status": {"containerStatuses": [status]}}
        with contextlib.suppress(Failure):
            self.fake.operations.patch(kind, NAMESPACE, name, body, "status", "application/merge-patch+json")

    def _without_placeholders(self, names: list[str]) -> list[str]:
        return [name for name in names if not _is_placeholder(self._pods[name])]

    def _changed(self, change: Change) -> None:
        if change.kind.plural != "pods" or change.object["spec"].get("schedulerName") != self.scheduler:
            return
        thing = change.object
        name, uid = thing["metadata"]["name"], thing["metadata"]["uid"]
        if change.is_deletion or thing["status"].get("phase") in ("Succeeded", "Failed"):
            self._pods.pop(name, None)
            return
        self._pods[name] = thing
        if _is_placeholder(thing):
            self.placeholders.add(uid)
        node, nodes = thing["spec"].get("nodeName"), self.bindings.setdefault(uid, [])
        if node and nodes[-1:] != [node]:
            nodes.append(node)


def _is_placeholder(pod: Object) -> bool:
    return (pod["metadata"].get("annotations") or {}).get(PLACEHOLDER) == "true"
