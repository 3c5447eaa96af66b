"""A world of tenants, a namespace and a queue each: one of them is orderly, and the others hostile or clumsy.

The orderly one asks for no more than it is guaranteed. So whatever the others do, its pods are placed, none of them is
preempted or failed, and nobody else's pods count in its queue.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from schedulerd.config.queue_file import load_queue_file
from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.metadata.gangs import is_placeholder
from schedulerd.kubernetes.metadata.pods import PLACED
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import CoschedulingPodGroup
from tests.kubernetes.builders import JSON, for_node, owned_by_daemon_set
from tests.kubernetes.cluster.core_world import CoreGangWorld
from tests.kubernetes.cluster.play import own

ORDERLY = "good"
OTHERS = ("evil", "clumsy")
QUOTA_MILLIS = 3_000
POD_MILLIS = 500
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
GANGS = ("gang0", "gang1", "gang2")
QUEUES = f"""
partitions:
  - name: default
    preemption: {{enabled: true}}
    placementrules:
      - {{name: tag, value: namespace, create: false}}
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {{name: {ORDERLY}, resources: {{guaranteed: {{vcore: {QUOTA_MILLIS}m}}, max: {{vcore: {QUOTA_MILLIS}m}}}}}}
          - {{name: {OTHERS[0]}, resources: {{max: {{vcore: {QUOTA_MILLIS}m}}}}}}
          - {{name: {OTHERS[1]}, resources: {{max: {{vcore: {QUOTA_MILLIS}m}}}}}}
"""
IDS = (
    *("a", "b", *GANGS, "good.a", "good.gang0", "evil.a", ""),
    *("yunikorn-good-autogen", "good.yunikorn-good-autogen", "podgroup.good.x", "good.podgroup.good.x"),
)
"""That others of its tenants have, or that the daemon might have for them."""


class TenantWorld(CoreGangWorld):
    node_cpu = "2500m"
    """Of three nodes: fifteen pods, where the quotas have room for eighteen. Pods of other sizes are not placed."""
    partitions = load_queue_file(QUEUES).partitions

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.hostile = 0
        for name in ("n0", "n1", "n2"):
            self.nodes.add(name)
            self._watch.append(v.Put(self.node(name)))

    def turn(self) -> None:
        super().turn()
        if self.random.random() < 0.3:
            self._user()

    def _user(self) -> None:
        chance = self.random.random()
        if chance < 0.3:
            self._orderly()
        elif chance < 0.45:
            self._delete_orderly()
        elif chance < 0.85:
            self._hostile()
        elif chance < 0.95:
            self._of_others(self._delete)
        else:
            self._of_others(self._relabel)

    # The orderly tenant.

    def pods_of(self, namespace: str) -> list[Pod]:
        """Without placeholders."""
        pods = (pod for pod in self.pods.values() if pod.metadata.namespace == namespace)
        return [pod for pod in pods if not is_placeholder(pod.metadata)]

    def _orderly(self) -> None:
        room = QUOTA_MILLIS // POD_MILLIS - len(self.pods_of(ORDERLY))
        if self.random.random() < 0.6:
            if room >= 1:
                self._make(ORDERLY, {"labels": {"applicationId": self.random.choice("ab")}})
            return
        number = self.random.randrange(len(GANGS))
        if room < number + 1 or any(_application(pod) == GANGS[number] for pod in self.pods_of(ORDERLY)):
            return
        for _ in range(number + 1):
            self._make(ORDERLY, gang(GANGS[number], number + 1, self.random.choice(("always", "none"))))

    def _delete_orderly(self) -> None:
        """A pod, or a whole gang."""
        pods = self.pods_of(ORDERLY)
        if not pods:
            return
        one = self.random.choice(pods)
        ended = [pod for pod in pods if _application(pod) == _application(one)] if _application(one) in GANGS else [one]
        for pod in ended:
            self._delete(pod.metadata.uid)

    # The others.

    def _of_others(self, do: Callable[[str], None]) -> None:
        uids = [uid for uid, pod in self.pods.items() if pod.metadata.namespace in OTHERS]
        if uids:
            do(self.random.choice(sorted(uids)))

    def _relabel(self, uid: str) -> None:
        pod = self.pods[uid]
        labels = {"applicationId": self.random.choice(IDS), "queue": "root.good"}
        self._put(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def _hostile(self) -> None:
        self.hostile += 1
        namespace = self.random.choice(OTHERS)
        if self.random.random() < 0.15:
            self._pod_group(namespace)
            return
        meta: JSON = {"labels": {"applicationId": self.random.choice(IDS)}, "annotations": {}}
        spec: JSON = {}
        for way in self.random.sample(WAYS, self.random.randrange(4)):
            way(self, meta, spec)
        self._make(namespace, meta, **spec)

    def _pod_group(self, namespace: str) -> None:
        spec = self.random.choice(({"minMember": 2}, {"minMember": 10_000}, {"minMember": -1}, {"minMember": "x"}, {}))
        about = replace(own(self.random.choice("xy")).metadata, namespace=namespace)
        group = self.pod_groups[f"{namespace}/{about.name}"] = CoschedulingPodGroup(about, spec)
        self._watch.append(v.Put(group))

    def why(self, pod: Pod) -> str:
        """Why the pod waits, for the message of a test."""
        own = self.cluster.model.pods.get(pod.metadata.uid)
        return (
            "unknown"
            if own is None
            else f"{own.state} {own.application and own.application.state} {own.reason.waiting}"
        )

    def victim(self) -> str:
        """Uid of a pod of the orderly tenant, or one that it never had."""
        return self.random.choice([pod.metadata.uid for pod in self.pods_of(ORDERLY)] or ["p0"])

    def _make(self, namespace: str, meta: JSON, cpu: str = f"{POD_MILLIS}m", **spec: Any) -> None:
        self._put(own(f"p{next(self._names)}", cpu=cpu, meta={"namespace": namespace, **meta}, **spec))

    def _delete(self, uid: str) -> None:
        """In the end pods that are deleted end at once: others may be preempted then."""
        if self.is_quiet:
            self._remove(uid)
        else:
            super()._delete(uid)

    # What never happens.

    def _api(self, effect: e.Effect) -> None:
        if isinstance(effect, e.DeletePod | e.FailPod) and effect.pod.namespace == ORDERLY:
            pod = self.pods.get(effect.pod.uid)
            assert pod is None or is_placeholder(pod.metadata), f"{effect}: of a pod that has all it may have"
        super()._api(effect)


def gang(application: str, members: int, placeholders: str = "pods", **more: Any) -> JSON:
    """Metadata of a member."""
    group = {"name": "g", "minMember": members, "minResource": {"cpu": f"{POD_MILLIS}m"}, **more}
    said = {
        "schedulerd.io/task-groups": json.dumps([group]),
        "schedulerd.io/task-group-name": "g",
        "schedulerd.io/placeholders": placeholders,
    }
    return {"labels": {"applicationId": application}, "annotations": said}


def _application(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get("applicationId", "")


def _names_a_daemon_set(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    meta.update(owned_by_daemon_set("invented"))
    spec["affinity"] = for_node(world.random.choice(("n0", "n1", "nowhere")))


def _names_a_pod_of_another(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    uid = world.victim()
    meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid}]


def _is_a_placeholder(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    meta["annotations"] |= {"schedulerd.io/placeholder": "true", "schedulerd.io/task-group-name": "g"}


def _declares_a_gang(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    members, kind = world.random.choice((1, 2, 50)), world.random.choice(("always", "none"))
    meta["annotations"] |= gang("", members, kind, labels={"applicationId": "gang0"})["annotations"]


def _declares_nonsense(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    text = world.random.choice(
        ("[", "[]", '[{"name": "g"}]', '[{"name": "g", "minMember": 1, "minResource": {"cpu": "-1"}}]')
    )
    meta["annotations"] |= {"schedulerd.io/task-groups": text, "schedulerd.io/on-invalid-gang": "fail"}


def _says_another_user(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    meta["annotations"]["schedulerd.io/user.info"] = world.random.choice(
        ('{"user": "ann", "groups": ["admin"]}', "{", "3")
    )


def _says_that_it_was_placed(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    meta["annotations"][PLACED] = world.victim()


def _names_the_queue_of_another(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    meta["labels"]["queue"] = world.random.choice(("root.good", "root", "root.none", "root.good.x"))


def _names_a_group(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    meta["labels"][GROUP_LABEL] = world.random.choice("xyz")


def _is_large(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    spec["cpu"] = world.random.choice(("4", "100", "0"))


def _is_older_than_all(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    meta["creationTimestamp"] = world.random.choice(("2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "x"))


def _has_much_metadata(world: TenantWorld, meta: JSON, spec: JSON) -> None:
    """In the second case more than the daemon takes; few labels that are longer than Kubernetes has them cost less."""
    count, length = world.random.choice(((10, 60), (10, 7_200)))
    meta["labels"] |= {f"l{number}": "x" * length for number in range(count)}


WAYS: tuple[Callable[[TenantWorld, JSON, JSON], None], ...] = (
    *(_names_a_daemon_set,) * 4,
    _names_a_pod_of_another,
    _is_a_placeholder,
    _declares_a_gang,
    _declares_nonsense,
    _says_another_user,
    _says_that_it_was_placed,
    _names_the_queue_of_another,
    _names_a_group,
    _is_large,
    _is_older_than_all,
    _has_much_metadata,
)
