"""The toy world with claims that wait for their first consumer: an API server that fails at writes, the controller that
binds promised volumes, a provisioner that makes volumes or gives up, and shims that crash."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from typing import Any, TypeVar

import msgspec

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.pod_volumes import WriteKey, Written
from schedulerd.kubernetes.objects.meta import ObjectMeta, ObjectReference
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
from schedulerd.kubernetes.predicates.storage import BOUND_ANNOTATION, NO_PROVISIONER, SELECTED_NODE_ANNOTATION
from tests.kubernetes.cluster.play import own
from tests.kubernetes.cluster.toy_world import ToyDaemon, ToyWorld
from tests.kubernetes.storage_builders import claim, storage_class, uses, volume

Stored = TypeVar("Stored", PersistentVolume, PersistentVolumeClaim)
LOCAL, MADE = "local", "made"
TOUCHED = 0.14
"""Chances from 0.1 to this: somebody else writes the object just before the shim does."""
NODES = tuple(f"n{number}" for number in range(4))


class VolumeWorld(ToyWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.volumes: dict[str, PersistentVolume] = {}
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.happened: Counter[str] = Counter()
        self.is_calm = False
        """Nothing fails any longer."""
        self._versions = itertools.count(100)
        self._volume_watch: deque[v.Event] = deque()
        self._claim_watch: deque[v.Event] = deque()
        self._watches += [self._volume_watch, self._claim_watch]
        self.cluster.step(0, [v.Put(one) for one in self._classes()])

    def turn(self) -> None:
        super().turn()
        self.random.choice((self.daemon.act, self._control, self._control, self.move))()

    def settle(self) -> None:
        self.is_calm = True
        for _ in range(40):
            while self.move():
                pass
            self._control_all()
            self.daemon.act()
            self._pass(60)
        super().settle()

    def crash(self) -> None:
        """The shim ends at once, and another one starts with another daemon; writes under way may be performed."""
        for effect in list(self._to_api):
            if self.random.random() < 0.5:
                self._api(effect)
        ways: list[deque[Any]] = [*self._watches, self._ends, self._to_api, *self._to_daemon.values()]
        for way in ways:
            way.clear()
        self.daemon = ToyDaemon(self.random)
        self.cluster = Cluster()
        objects = (*self._classes(), *self.volumes.values(), *self.claims.values(), *self.pods.values())
        nodes = [v.Put(self.node(name)) for name in sorted(self.nodes)]
        self.cluster.step(self.now_ns, [*(v.Put(one) for one in objects), *nodes])
        self.start()
        self.happened["crash"] += 1

    @staticmethod
    def _classes() -> tuple[object, ...]:
        return storage_class(LOCAL, provisioner=NO_PROVISIONER), storage_class(MADE, provisioner="driver")

    def _user(self) -> None:
        chance = self.random.random()
        if chance < 0.25:
            self._pod_with_claims()
        elif chance < 0.4:
            name = f"v{next(self._names)}"
            one = volume(name, node=self.random.choice(NODES), storageClassName=LOCAL)
            self._put_volume(named(one, f"uid of {name}"))
        elif chance < 0.43 and self.volumes:
            self._delete_volume(self.random.choice(sorted(self.volumes)))
        elif chance < 0.46 and self.claims:
            self._delete_claim(self.random.choice(sorted(self.claims)))
        else:
            super()._user()

    def _pod_with_claims(self) -> None:
        names = []
        for _ in range(self.random.choice((1, 1, 2))):
            if self.claims and self.random.random() < 0.25:
                names.append(self.random.choice(sorted(self.claims)))  # another pod uses it too
                continue
            name = f"c{next(self._names)}"
            one = claim(name, storageClassName=self.random.choice((LOCAL, MADE)))
            self._put_claim(named(one, f"uid of {name}"))
            names.append(name)
        labels = {"applicationId": self.random.choice("abc")}
        pod = f"p{next(self._names)}"
        self._put(own(pod, cpu="100m", meta={"labels": labels}, volumes=uses(*dict.fromkeys(names))))

    def _control_all(self) -> None:
        for name in sorted(self.claims):
            self._control_claim(name)

    def _control(self) -> None:
        """The controller or the provisioner looks at a claim."""
        unbound = [name for name, one in self.claims.items() if not one.spec.volume_name]
        if unbound:
            self._control_claim(self.random.choice(sorted(unbound)))

    def _control_claim(self, name: str) -> None:
        one = self.claims[name]
        annotations = one.metadata.annotations or {}
        if one.spec.volume_name:
            return
        promised = [
            pv
            for pv in self.volumes.values()
            if pv.spec.claim_ref is not None and pv.spec.claim_ref.uid == one.metadata.uid
        ]
        if promised:
            pv = min(promised, key=lambda found: found.metadata.name)
            self._put_volume(msgspec.structs.replace(pv, status=msgspec.structs.replace(pv.status, phase="Bound")))
            spec = msgspec.structs.replace(one.spec, volume_name=pv.metadata.name)
            bound = msgspec.structs.replace(one, spec=spec)
            self._put_claim(annotated(bound, {**annotations, BOUND_ANNOTATION: "yes"}))
            self.happened["bound"] += 1
            return
        at = annotations.get(SELECTED_NODE_ANNOTATION)
        if at is None:
            return
        chance = 1.0 if self.is_calm and at in self.nodes else self.random.random()
        if chance < 0.3:
            left = {key: text for key, text in annotations.items() if key != SELECTED_NODE_ANNOTATION}
            self._put_claim(annotated(one, left))
            self.happened["given up"] += 1
        elif chance > 0.6:
            if chance < 0.75:
                at = self.random.choice(NODES)  # topology of the driver that nodes' labels do not say
                self.happened["elsewhere"] += 1
            made = volume(f"made-for-{name}", node=at, storageClassName=MADE, phase="Pending")
            self._put_volume(promised_to(named(made, f"uid of made-for-{name}"), one))
            self.happened["made"] += 1

    def _api(self, effect: e.Effect) -> None:
        match effect:
            case e.BindVolume():
                self._ends.append(self._bind_volume(effect))
            case e.SelectNode():
                self._ends.append(self._select_node(effect))
            case _:
                super()._api(effect)

    def _bind_volume(self, effect: e.BindVolume) -> v.VolumeWritten:
        key = WriteKey(Written.VOLUME, effect.volume)
        chance = 1.0 if self.is_calm else self.random.random()
        if (failed := self._failed(effect, key, chance)) is not None:
            return failed
        there = self.volumes.get(effect.volume)
        if there is not None and chance < TOUCHED:
            self._put_volume(there)
            there = self.volumes[effect.volume]
        if there is None or there.metadata.resource_version != effect.resource_version:
            return self._changed(effect, key)
        assert there.spec.claim_ref is None, f"{effect.volume} is promised to {there.spec.claim_ref}"
        reference = ObjectReference("PersistentVolumeClaim", "ns", effect.claim.name, effect.claim.uid)
        spec = msgspec.structs.replace(there.spec, claim_ref=reference)
        version = self._put_volume(msgspec.structs.replace(there, spec=spec))
        return self._done(effect, key, version, chance)

    def _select_node(self, effect: e.SelectNode) -> v.VolumeWritten:
        key = WriteKey(Written.CLAIM, effect.claim.name)
        chance = 1.0 if self.is_calm else self.random.random()
        if (failed := self._failed(effect, key, chance)) is not None:
            return failed
        there = self.claims.get(effect.claim.name)
        if there is not None and chance < TOUCHED:
            self._put_claim(there)
            there = self.claims[effect.claim.name]
        if there is None or there.metadata.resource_version != effect.claim.resource_version:
            return self._changed(effect, key)
        version = self._put_claim(annotated(there, {SELECTED_NODE_ANNOTATION: effect.node}))
        return self._done(effect, key, version, chance)

    def _failed(self, effect: e.BindVolume | e.SelectNode, key: WriteKey, chance: float) -> v.VolumeWritten | None:
        """Not performed."""
        if chance < 0.05:
            return v.VolumeWritten(effect.pod.uid, effect.attempt, key, v.VolumeResult.FAILED, "no")
        if chance < 0.1:
            return v.VolumeWritten(effect.pod.uid, effect.attempt, key, v.VolumeResult.UNKNOWN)
        return None

    def _changed(self, effect: e.BindVolume | e.SelectNode, key: WriteKey) -> v.VolumeWritten:
        self.happened["changed"] += 1
        return v.VolumeWritten(effect.pod.uid, effect.attempt, key, v.VolumeResult.CHANGED, "changed")

    def _done(self, effect: e.BindVolume | e.SelectNode, key: WriteKey, version: str, chance: float) -> v.VolumeWritten:
        result = v.VolumeResult.UNKNOWN if chance < 0.2 else v.VolumeResult.DONE
        return v.VolumeWritten(effect.pod.uid, effect.attempt, key, result, "", version)

    def _delete_claim(self, name: str) -> None:
        """Kubernetes keeps claims that pods use."""
        if not any(name in claims_of(pod) for pod in self.pods.values()):
            self._claim_watch.append(v.Gone(self.claims.pop(name)))

    def _delete_volume(self, name: str) -> None:
        """Kubernetes keeps volumes that claims are bound to."""
        if self.volumes[name].spec.claim_ref is None:
            self._volume_watch.append(v.Gone(self.volumes.pop(name)))

    def _put_volume(self, one: PersistentVolume) -> str:
        version = str(next(self._versions))
        one = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, resource_version=version))
        self.volumes[one.metadata.name] = one
        self._volume_watch.append(v.Put(one))
        return version

    def _put_claim(self, one: PersistentVolumeClaim) -> str:
        version = str(next(self._versions))
        one = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, resource_version=version))
        self.claims[one.metadata.name] = one
        self._claim_watch.append(v.Put(one))
        return version


def claims_of(pod: Pod) -> list[str]:
    return [one.persistent_volume_claim.claim_name for one in pod.spec.volumes or () if one.persistent_volume_claim]


def named(one: Stored, uid: str) -> Stored:
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, uid=uid))


def annotated(one: PersistentVolumeClaim, annotations: dict[str, str]) -> PersistentVolumeClaim:
    metadata: ObjectMeta = msgspec.structs.replace(one.metadata, annotations=annotations)
    return msgspec.structs.replace(one, metadata=metadata)


def promised_to(one: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    metadata = claim.metadata
    reference = ObjectReference("PersistentVolumeClaim", metadata.namespace, metadata.name, metadata.uid)
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, claim_ref=reference))
