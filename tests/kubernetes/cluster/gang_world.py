"""The toy world with gangs, with placeholder pods and without: swaps, timeouts, evictions, and shims that crash."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.applications import FORCE_CREATE_TAG
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.gangs.model import TASK_GROUPS_TAG, GangSource
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.metadata.gangs import is_placeholder
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import CoschedulingPodGroup
from tests.kubernetes.builders import JSON, app, node, placed
from tests.kubernetes.cluster.play import EPOCH_NS, own
from tests.kubernetes.cluster.toy_world import ToyDaemon, ToyWorld, namespace_of

STYLES = ("Soft", "Hard", "Requeue")


@dataclass
class GangDaemon(ToyDaemon):
    """Real asks wait while placeholders of their application are pending, and then take their room. Those of a gang
    without placeholders wait until all its members are asked for, and are placed together: no room is held."""

    groups: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """By UUID: task group, and whether it is a placeholder."""
    styles: dict[ApplicationId, str] = field(default_factory=dict)
    """By id of an application with a gang of which nothing was placed here."""
    stolen: defaultdict[ApplicationId, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By application id: keys of pods that somebody else has bound, of which the daemon may not know yet."""
    failing: set[ApplicationId] = field(default_factory=set)
    awaited: dict[str, e.Ask] = field(default_factory=dict)
    """By UUID of a placeholder the ask that gets its room."""
    again: dict[str, e.Ask] = field(default_factory=dict)
    """By UUID of a placeholder the ask that is pending again when it is gone."""
    asked: dict[str, e.Ask] = field(default_factory=dict)
    """By UUID the ask of an allocated placeholder."""
    swaps: int = 0
    is_orderly: bool = False
    """It rejects nothing, so that every gang that runs has to be whole."""
    asked_of: set[ApplicationId] = field(default_factory=set)
    """Ids of applications that have had an ask."""
    whole: dict[ApplicationId, int] = field(default_factory=dict)
    """By application id: members of a gang of which nothing was placed here."""
    declared: dict[ApplicationId, Counter[str]] = field(default_factory=dict)
    """By id of an application with a gang without placeholders that has not begun: how many members of each task group
    have to be asked for."""
    gathered: int = 0

    def take(self, effect: e.Effect) -> None:
        if isinstance(effect, e.AddApplication):
            known = effect.application_id in self.applications
            if known and TASK_GROUPS_TAG in effect.tags:  # its PodGroup needs another number of members
                self.said.append(v.ApplicationAccepted(effect.application_id))
                if effect.application_id in self.declared:
                    self._declare(effect)
                return
            super().take(effect)
            if known or effect.application_id not in self.applications:
                return
            if TASK_GROUPS_TAG in effect.tags:
                self._declare(effect)
            if effect.placeholder_ask:
                self.styles[effect.application_id] = effect.gang_style
                was_whole = FORCE_CREATE_TAG in effect.tags and not self.stolen[effect.application_id]
                self.whole[effect.application_id] = 0 if was_whole else effect.placeholder_ask["pods"]
            return
        super().take(effect)
        if isinstance(effect, e.ReleaseAsk):
            for awaited in (self.awaited, self.again):
                for uuid in [uuid for uuid, ask in awaited.items() if ask.key == effect.key]:
                    del awaited[uuid]
        if isinstance(effect, e.CreateNode | e.UpdateNode):
            for one in effect.existing:
                if one.uuid in self.allocations:
                    self.groups[one.uuid] = (one.task_group, one.is_placeholder)
                    if one.application_id in self.failing and one.uuid not in self.leaving:
                        self._release(one.uuid, v.Cause.TIMEOUT)
        for uuid in [uuid for uuid in self.groups if uuid not in self.allocations]:
            self._gone(uuid, is_confirmed=isinstance(effect, e.ConfirmRelease))
        for application_id in sorted(self.failing):
            if not any(owner == application_id for owner, _, _ in self.allocations.values()):
                self.forget(application_id)
                self.said.append(v.ApplicationUpdated(application_id, "Failed", "no room"))

    def _declare(self, effect: e.AddApplication) -> None:
        groups = json.loads(effect.tags[TASK_GROUPS_TAG])
        if any(one.get("begun") for one in groups):
            return
        # Those with resources may have their room before they are asked for.
        self.declared[effect.application_id] = Counter({one["name"]: one["min"] for one in groups if len(one) == 2})
        if effect.gang_style != "Requeue":  # nothing is told of that
            self.styles[effect.application_id] = effect.gang_style

    def _take_over(self, node: str, one: e.ExistingAllocation) -> None:
        """An application runs with its first real pod, whoever has placed that, and the shim is told so."""
        super()._take_over(node, one)
        if not one.is_placeholder and one.application_id in self.styles:
            self.said.append(v.ApplicationUpdated(one.application_id, "Running", ""))
        if self.declared.pop(one.application_id, None) is not None:
            self.styles.pop(one.application_id, None)

    def act(self) -> None:
        chance = self.random.random()
        if self.asks and self.occupied and chance < 0.8:
            self._place(self.random.choice(sorted(self.asks)))
        if chance < 0.06 and self.styles:
            self._time_out(self.random.choice(sorted(self.styles)))
        if chance > 0.9 and self.allocations:
            self._want_back(self.random.choice(sorted(self.allocations)))
        for application_id in sorted(self.applications - self.failing):
            self._complete(application_id)

    def forget(self, application_id: ApplicationId) -> None:
        self.styles.pop(application_id, None)
        self.declared.pop(application_id, None)
        self.asked_of.discard(application_id)
        self.failing.discard(application_id)
        super().forget(application_id)
        for uuid in [uuid for uuid in self.groups if uuid not in self.allocations]:
            del self.groups[uuid]
        for awaited in (self.awaited, self.again, self.asked):
            for uuid in [uuid for uuid, ask in awaited.items() if ask.application_id == application_id]:
                del awaited[uuid]

    def _gone(self, uuid: str, *, is_confirmed: bool) -> None:
        del self.groups[uuid]
        self.asked.pop(uuid, None)
        ask, again = self.awaited.pop(uuid, None), self.again.pop(uuid, None)
        if ask is not None and ask.application_id in self.applications - self.failing:
            if is_confirmed and self.occupied:
                self._allocate(ask, self.random.choice(sorted(self.occupied)))
            else:
                self.asks[ask.key] = ask
        if again is not None and is_confirmed and again.application_id in self.styles:
            self.asks[again.key] = again

    def _place(self, key: str) -> None:
        ask = self.asks[key]
        if ask.application_id in self.failing or key.endswith("-stand-in"):
            return
        if ask.application_id in self.declared:
            self._gather(ask.application_id)
            return
        if not ask.is_placeholder:
            if any(one.is_placeholder and one.application_id == ask.application_id for one in self.asks.values()):
                return
            idle = [
                uuid
                for uuid, (group, is_one) in sorted(self.groups.items())
                if is_one
                and group == ask.task_group
                and uuid not in self.leaving
                and self.allocations[uuid][0] == ask.application_id
            ]
            self._check_whole(ask.application_id)
            if ask.task_group and idle:
                del self.asks[key]
                self.awaited[idle[0]] = ask
                self.swaps += 1
                self._release(idle[0], v.Cause.REPLACED)
                return
            self.styles.pop(ask.application_id, None)
        del self.asks[key]
        self._allocate(ask, self.random.choice(sorted(self.occupied)))

    def _gather(self, application_id: ApplicationId) -> None:
        asks = [ask for _, ask in sorted(self.asks.items()) if ask.application_id == application_id]
        if self.declared[application_id] <= Counter(ask.task_group for ask in asks):
            self.gathered += 1
            del self.declared[application_id]
            for ask in asks:
                del self.asks[ask.key]
                self._allocate(ask, self.random.choice(sorted(self.occupied)))

    def _allocate(self, ask: e.Ask, at: str) -> None:
        uuid = f"u{next(self._uuids)}"
        self.allocations[uuid] = (ask.application_id, ask.key, at)
        self.groups[uuid] = (ask.task_group, ask.is_placeholder)
        self.said.append(v.Allocated(ask.application_id, ask.key, uuid, at))
        if ask.is_placeholder:
            self.asked[uuid] = ask
            if ask.application_id not in self.styles:
                return
        if ask.is_placeholder and self._is_short(ask.application_id):
            if not self._has_run(ask.application_id):
                self.said.append(v.ApplicationUpdated(ask.application_id, "Accepted", ""))
            return
        self.styles.pop(ask.application_id, None)
        self.said.append(v.ApplicationUpdated(ask.application_id, "Running", ""))

    def _has_run(self, application_id: ApplicationId) -> bool:
        return any(not one[1] and self.allocations[uuid][0] == application_id for uuid, one in self.groups.items())

    def _is_short(self, application_id: ApplicationId) -> bool:
        return any(one.is_placeholder and one.application_id == application_id for one in self.asks.values())

    def _release(self, uuid: str, cause: v.Cause) -> None:
        self.leaving.add(uuid)
        application_id, key, _ = self.allocations[uuid]
        self.said.append(v.ReleaseWanted(application_id, key, uuid, cause, ""))

    def _want_back(self, uuid: str) -> None:
        """It is preempted, or a placeholder gives way."""
        application_id = self.allocations[uuid][0]
        if uuid in self.leaving or application_id in self.failing:
            return
        if self.groups[uuid][1] and application_id in self.styles and uuid in self.asked:
            self.again[uuid] = self.asked[uuid]
            self._release(uuid, self.random.choice((v.Cause.TIMEOUT, v.Cause.PREEMPTED)))
        else:
            self._release(uuid, v.Cause.PREEMPTED)

    def _time_out(self, application_id: ApplicationId) -> None:
        is_declared = self.declared.pop(application_id, None) is not None
        holds = any(one[1] and self.allocations[uuid][0] == application_id for uuid, one in self.groups.items())
        if not is_declared and not holds:
            return
        style = self.styles.pop(application_id)
        has_run = self._has_run(application_id)
        is_hard = style == "Hard" and not has_run
        if not has_run:
            self.said.append(v.ApplicationUpdated(application_id, "Failing" if is_hard else "Resuming", "no room"))
        for key in [key for key, ask in sorted(self.asks.items()) if ask.application_id == application_id]:
            if self.asks[key].is_placeholder:
                del self.asks[key]
                self.said.append(v.AskTimedOut(application_id, key))
        for uuid, (_, is_one) in sorted(self.groups.items()):
            if is_one and self.allocations[uuid][0] == application_id:
                self.said.append(v.AskTimedOut(application_id, self.allocations[uuid][1]))
        for uuid, (_, is_one) in sorted(self.groups.items()):
            if is_one and self.allocations[uuid][0] == application_id:
                self.again.pop(uuid, None)
                if uuid not in self.leaving:
                    self._release(uuid, v.Cause.TIMEOUT)
        if is_hard:
            self.failing.add(application_id)
        elif not has_run:
            self.said.append(v.ApplicationUpdated(application_id, "Accepted", ""))

    def _complete(self, application_id: ApplicationId) -> None:
        asks = [ask for ask in self.asks.values() if ask.application_id == application_id]
        held = [uuid for uuid, (owner, _, _) in self.allocations.items() if owner == application_id]
        awaited = any(ask.application_id == application_id for ask in self.awaited.values())
        if asks or awaited or self.random.random() > 0.2:
            return
        if self.is_orderly and application_id not in self.asked_of:
            return
        if not held:
            self.forget(application_id)
            self.said.append(v.ApplicationUpdated(application_id, "Completed", ""))
        elif all(self.groups[uuid][1] for uuid in held) and application_id not in self.styles:
            for uuid in held:
                if uuid not in self.leaving:
                    self._release(uuid, v.Cause.TIMEOUT)

    def _check_whole(self, application_id: ApplicationId) -> None:
        """A gang that has not run holds room for all of its members when the first of them is placed."""
        if self.is_orderly and application_id.name.startswith("gang") and application_id in self.styles:
            held = {key for owner, key, _ in self.allocations.values() if owner == application_id}
            of_gang = held | self.stolen[application_id]
            assert len(of_gang) >= self.whole[application_id], f"a part of gang {application_id.name} runs"

    def _ask(self, ask: e.Ask) -> None:
        if ask.application_id in self.applications:
            self.asked_of.add(ask.application_id)
        if ask.application_id in self.failing:
            self.said.append(v.AskRejected(ask.application_id, ask.key, "failing"))
        elif self.is_orderly and ask.application_id in self.applications:
            held = {key for _, key, _ in self.allocations.values()} | {one.key for one in self.awaited.values()}
            if ask.key not in held:
                self.asks[ask.key] = ask
        elif ask.key not in {one.key for one in self.awaited.values()}:
            super()._ask(ask)


class GangWorld(ToyWorld):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_orderly = seed % 4 == 1
        self.has_thieves = not self.is_orderly or seed % 8 == 5
        self.stolen_of: defaultdict[ApplicationId, set[str]] = defaultdict(set)
        self.daemon: GangDaemon = self._new_daemon()
        self.cluster.step(0, [v.GangSourceServed(GangSource.COSCHEDULING)])
        self.pod_groups: dict[str, CoschedulingPodGroup] = {}
        self.failed: list[str] = []
        self.is_calm = False
        """Nothing is refused any longer."""
        self.collects_garbage = seed % 2 == 0
        """Otherwise the shim is alone with placeholders whose owner is gone."""

    def turn(self) -> None:
        super().turn()
        self.daemon.act()
        for _ in range(self.random.randrange(8)):
            self.move()

    def settle(self) -> None:
        self.is_calm = True
        for _ in range(0 if self.is_orderly else 3):
            self._steal()
        for _ in range(300):
            while self.move():
                pass
            self._collect_garbage()
            self._pass(60)
        super().settle()
        super().settle()  # the first one ends with pods that were being deleted

    def _new_daemon(self) -> GangDaemon:
        return GangDaemon(self.random, stolen=self.stolen_of, is_orderly=self.is_orderly)

    def crash(self) -> None:
        """The shim ends at once, and another one starts with another daemon; writes under way may be performed."""
        for effect in list(self._to_api):
            if self.random.random() < 0.5:
                self._api(effect)
        for stream in self._to_daemon.values():
            stream.clear()
        for way in (self._watch, self._ends, self._to_api):
            way.clear()
        ended = ("gang0", "gang2", "gang4")  # with placeholder pods
        for uid in sorted(self.pods):
            labels = self.pods[uid].metadata.labels or {}
            if self.random.random() < 0.2 or labels.get("applicationId") in ended:
                del self.pods[uid]  # while nobody looks
        self.daemon = self._new_daemon()
        self.cluster = Cluster()
        puts = [v.Put(one) for one in (*self.pod_groups.values(), *self.pods.values())]
        nodes = [v.Put(node(name, cpu="1")) for name in sorted(self.nodes)]
        self.cluster.step(self.now_ns, [v.GangSourceServed(GangSource.COSCHEDULING), *puts, *nodes])
        self.start()

    def _carry_out(self, effects: list[e.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, e.CreatePod | e.FailPod):
                self._to_api.append(effect)
            else:
                super()._carry_out([effect])

    def _user(self) -> None:
        chance = self.random.random()
        if chance < 0.35:
            self._gang_pod()
        elif chance < 0.45 and (held := [name for name, pod in self.pods.items() if is_placeholder(pod.metadata)]):
            self._remove(self.random.choice(sorted(held)))  # evicted
        elif chance < 0.5:
            self._collect_garbage()
        elif chance < 0.6:
            name = self.random.choice("xy")
            spec = {"minMember": self.random.randint(1, 3)}
            group = self.pod_groups[name] = CoschedulingPodGroup(own(name).metadata, spec)
            self._watch.append(v.Put(group))
        elif self.has_thieves and chance < 0.65:
            self._steal()
        elif not self.is_orderly:
            super()._user()
        elif chance < 0.7 and self.pods:
            self._delete(self.random.choice(sorted(self.pods)))
        elif (name := f"n{self.random.randrange(4)}") not in self.nodes:
            self.nodes.add(name)
            self._watch.append(v.Put(node(name, cpu="1")))

    def _steal(self) -> None:
        """Somebody else binds a pod that waits."""
        waiting = [uid for uid, pod in self.pods.items() if not pod.spec.node_name and not is_placeholder(pod.metadata)]
        if waiting and self.nodes:
            uid = self.random.choice(sorted(waiting))
            self.stolen.add(uid)
            about = self.pods[uid].metadata
            self.stolen_of[app((about.labels or {}).get("applicationId", ""), about.namespace)].add(uid)
            self._put(placed(self.pods[uid], self.random.choice(sorted(self.nodes))))

    def _gang_pod(self) -> None:
        serial = next(self._names)
        name = f"p{serial}"
        if self.random.random() < 0.4:
            labels = {"scheduling.x-k8s.io/pod-group": self.random.choice("xy")}
            self._put(own(name, cpu=self.random.choice(("100m", "200m")), meta={"labels": labels}))
            return
        number = self.random.randrange(6)
        group = {"name": "g", "minMember": number % 3 + 1, "minResource": {"cpu": "100m"}}
        meta: JSON = {
            "labels": {"applicationId": f"gang{number}"},
            "namespace": namespace_of(serial, shares_id=number < 2),
            "annotations": {
                "schedulerd.io/task-groups": json.dumps([group]),
                "schedulerd.io/task-group-name": "g",
                "schedulerd.io/placeholders": ("always", "none")[number % 2],
                "schedulerd.io/schedulingPolicyParameters": f"gangSchedulingStyle={STYLES[number % 3]}",
            },
        }
        if not self.is_orderly and self.random.random() < 0.3:  # another pod declares the gang, before or after
            del meta["annotations"]["schedulerd.io/task-groups"]
        created = datetime.fromtimestamp((EPOCH_NS + self.now_ns) // SECOND_NS, UTC)
        meta["creationTimestamp"] = created.isoformat()
        self._put(own(name, cpu="100m", meta=meta))

    def _collect_garbage(self) -> None:
        for uid, pod in list(self.pods.items()) if self.collects_garbage else ():
            owners = [owner.uid for owner in pod.metadata.owner_references or ()]
            if owners and not any(owner in self.pods for owner in owners):
                self._remove(uid)

    def _api(self, effect: e.Effect) -> None:
        match effect:
            case e.CreatePod():
                self._ends.append(self._create(effect))
            case e.FailPod(pod):
                is_done = self.is_calm or self.random.random() < 0.7
                if is_done and pod.uid in self.pods:
                    self.failed.append(pod.uid)
                    self._remove(pod.uid)
                self._ends.append(v.FailEnded(pod.uid, is_done, "denied"))
            case e.DeletePod(pod) if pod.uid in self.pods and is_placeholder(self.pods[pod.uid].metadata):
                self._remove(pod.uid)
                self._ends.append(v.DeleteEnded(pod.uid, True))
            case _:
                super()._api(effect)

    def _create(self, effect: e.CreatePod) -> v.CreateEnded:
        chance = 1.0 if self.is_calm else self.random.random()
        if chance < 0.1:
            return v.CreateEnded(effect.application_id, effect.name, v.CreateResult.REFUSED, "quota")
        there = next((pod for pod in self.pods.values() if pod.metadata.name == effect.name), None)
        if there is not None:
            return v.CreateEnded(effect.application_id, effect.name, v.CreateResult.EXISTS, "exists", there)
        uid = f"{effect.name}.{next(self._names)}"
        body = msgspec.json.decode(msgspec.json.encode(effect.body))
        body["metadata"]["uid"] = uid
        self._put(convert(Pod, body))
        result = v.CreateResult.FAILED if chance < 0.2 else v.CreateResult.DONE
        return v.CreateEnded(effect.application_id, effect.name, result)
