"""The world with the real core, and gangs whose members exclude each other, and those of other gangs.

Members never go: so a gang of which a member is bound has to be bound as a whole in the end.
"""

from __future__ import annotations

import json
from typing import Any

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.metadata.gangs import is_placeholder
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod_groups import CoschedulingPodGroup
from schedulerd.kubernetes.shim.application_ids import to_daemon
from tests.kubernetes import builders as b
from tests.kubernetes.cluster.core_world import CoreGangWorld
from tests.kubernetes.cluster.play import own

HOST = "kubernetes.io/hostname"
PORT = [{"name": "c", "resources": {"requests": {"cpu": "100m"}}, "ports": [{"hostPort": 7777}]}]
WORKERS = b.selector(app="w")
EXCLUSIONS: dict[str, dict[str, Any]] = {
    "port": {"containers": PORT},
    "anti": {"affinity": b.anti_affinity(b.term(HOST, WORKERS))},
    "spread": {"topologySpreadConstraints": [b.spread(HOST, WORKERS)]},
}
WAYS = ("always", "none", "podgroup")
RUN_STATES = (ApplicationState.STARTING, ApplicationState.RUNNING)
NODES = ("n0", "n1", "n2", "n3")


class ExclusiveWorld(CoreGangWorld):
    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.kills = self.has_thieves = False
        self.gangs: dict[str, list[str]] = {}
        """Uids of the members by the name of the gang."""

    @staticmethod
    def node(name: str) -> Node:
        return b.node(name, {HOST: name}, cpu="1")

    def add_node(self, name: str) -> None:
        self.nodes.add(name)
        self._watch.append(v.Put(self.node(name)))

    def fill(self, name: str) -> None:
        """A pod that takes the whole node, once it is free."""
        uid = f"fill-{name}"
        if uid not in self.pods:
            labels = {"applicationId": "fill"}
            self._put(own(uid, cpu="1", meta={"labels": labels}, nodeSelector={HOST: name}))

    def empty(self, name: str) -> None:
        if f"fill-{name}" in self.pods:
            self._remove(f"fill-{name}")

    def evict(self) -> None:
        """A placeholder pod of a gang that has not started is gone. Shim and daemon know the same before and after:
        room that is lost while the gang becomes complete is lost to a complete gang, which starts all the same."""
        self._deliver()
        started = {one.application_id for one in self.core.partition.applications.values() if one.state in RUN_STATES}
        held = []
        for uid, pod in self.pods.items():
            own = self.cluster.model.pods.get(uid) if is_placeholder(pod.metadata) else None
            if own is not None and own.application is not None and to_daemon(own.application.id) not in started:
                held.append(uid)
        if held:
            self._remove(self.random.choice(sorted(held)))
            self._deliver()

    def _deliver(self) -> None:
        while responses := self.core.open_responses():
            self.core.answer(self.random.choice(responses))
        while self._watch:
            self._handle([self._watch.popleft()])
        while streams := self.core.open_requests():
            self.core.deliver(self.random.choice(streams))

    def add_gang(self, members: int, exclusion: str, way: str, **declared: Any) -> list[str]:
        name = f"g{len(self.gangs)}"
        said: dict[str, str] = {"schedulerd.io/schedulingPolicyParameters": "gangSchedulingStyle=Requeue"}
        labels = {"app": "w"}
        if way == "podgroup":
            labels["scheduling.x-k8s.io/pod-group"] = name
            group = self.pod_groups[name] = CoschedulingPodGroup(own(name).metadata, {"minMember": members})
            self._watch.append(v.Put(group))
        else:
            labels["applicationId"] = name
            one = {"name": "g", "minMember": members, "minResource": {"cpu": "100m"}, **declared}
            said["schedulerd.io/task-groups"] = json.dumps([one])
            said["schedulerd.io/task-group-name"] = "g"
            said["schedulerd.io/placeholders"] = way
        spec = {"containers": b.containers({"cpu": "100m"}), **EXCLUSIONS.get(exclusion, {})}
        uids = self.gangs[name] = [f"{name}-{number}" for number in range(members)]
        for uid in uids:
            self._put(own(uid, meta={"labels": labels, "annotations": said}, **spec))
        return uids

    def bound(self, uids: list[str]) -> list[str]:
        """The nodes of those that have one."""
        return [self.pods[uid].spec.node_name for uid in uids if self.pods[uid].spec.node_name]

    def partial(self) -> list[str]:
        """Gangs of which some members are bound, and some are not."""
        return [name for name, uids in self.gangs.items() if 0 < len(self.bound(uids)) < len(uids)]

    def rest(self, minutes: int = 3) -> None:
        """Everything arrives, while no binding fails and no gang's time is over."""
        self.is_quiet = self.is_calm = True
        for _ in range(minutes):
            while self.move():
                pass
            self._pass(60)
        while self.move():
            pass
        self.is_quiet = self.is_calm = False

    def _bind(self, effect: e.Bind) -> v.BindEnded:
        """Nobody else binds."""
        uid, at = effect.pod.uid, effect.node
        pod = self.pods.get(uid)
        chance = 1.0 if self.is_quiet else self.random.random()
        if pod is None or (pod.metadata.deletion_timestamp and not pod.spec.node_name):
            return v.BindEnded(uid, at, v.BindResult.GONE)
        if not pod.spec.node_name:
            if chance < 0.1:
                return v.BindEnded(uid, at, v.BindResult.FAILED if chance < 0.05 else v.BindResult.UNKNOWN, "no")
            self.bindings.append(uid)
            self._put(b.annotated(b.placed(pod, at), effect.annotations))
        assert self.pods[uid].spec.node_name == at
        return v.BindEnded(uid, at, v.BindResult.UNKNOWN if chance < 0.2 else v.BindResult.DONE)

    def _user(self) -> None:
        chance = self.random.random()
        if chance < 0.2 and len(self.gangs) < 5:
            self.add_gang(
                self.random.choice((2, 2, 3)), self.random.choice(sorted(EXCLUSIONS)), self.random.choice(WAYS)
            )
        elif chance < 0.4:
            self.fill(self.random.choice(sorted(self.nodes)))
        elif chance < 0.6:
            self.empty(self.random.choice(sorted(self.nodes)))
        elif chance < 0.7:
            self.evict()
