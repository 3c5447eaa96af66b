"""A daemon and an API server of a few lines each around the pure cluster, with every message under way for a while."""

from __future__ import annotations

import itertools
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.metadata.application_ids import ApplicationId
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import annotated, node, placed, terminating
from tests.kubernetes.cluster.invariants import violations
from tests.kubernetes.cluster.play import EPOCH_NS, own

MOVES_MAX = 100_000
"""Histories have some thousands."""


def namespace_of(number: int, *, shares_id: bool) -> str:
    """Two namespaces have an application of the same id."""
    return "other" if shares_id and number % 2 else "ns"


@dataclass
class ToyDaemon:
    """Places asks at random, whatever fits or not; forgets applications that have nothing."""

    random: random.Random
    said: deque[v.Event] = field(default_factory=deque)
    applications: set[ApplicationId] = field(default_factory=set)
    asks: dict[str, e.Ask] = field(default_factory=dict)
    allocations: dict[str, tuple[ApplicationId, str, str]] = field(default_factory=dict)
    """By UUID: application, key, node."""
    leaving: set[str] = field(default_factory=set)
    """UUIDs that are wanted back."""
    occupied: dict[str, dict[str, int]] = field(default_factory=dict)
    """By node."""
    amounts: dict[str, dict[str, int]] = field(default_factory=dict)
    """By key of an ask or allocation."""
    _uuids: itertools.count[int] = field(default_factory=itertools.count)

    def take(self, effect: e.Effect) -> None:
        match effect:
            case e.AddApplication(application_id):
                if application_id in self.applications or self.random.random() < 0.05:
                    self.said.append(v.ApplicationRejected(application_id, "no"))
                else:
                    self.applications.add(application_id)
                    self.said.append(v.ApplicationAccepted(application_id))
            case e.RemoveApplication(application_id):
                self.forget(application_id)
            case e.Ask():
                self._ask(effect)
            case e.ReleaseAsk(application_id, key):
                if self.asks.pop(key, None) is not None:
                    self.said.append(v.AskReleased(application_id, key))
            case e.ReleaseAllocation(application_id, key, uuid):
                if self.allocations.pop(uuid, None) is not None:
                    self.leaving.discard(uuid)
                    self.said.append(v.AllocationReleased(application_id, key, uuid))
            case e.ConfirmRelease(uuid):
                self.allocations.pop(uuid, None)
                self.leaving.discard(uuid)
            case e.CreateNode():
                self._create(effect)
            case e.UpdateNode():
                self._update(effect)
            case e.RemoveNode(name):
                del self.occupied[name]
                for uuid in [uuid for uuid, (_, _, at) in self.allocations.items() if at == name]:
                    application_id, key, _ = self.allocations.pop(uuid)
                    if uuid not in self.leaving:
                        self.said.append(v.AllocationReleased(application_id, key, uuid))
                    self.leaving.discard(uuid)
            case _:
                raise AssertionError(effect)

    def act(self) -> None:
        """Places an ask, wants an allocation back, or completes an application."""
        if self.asks and self.occupied:
            key = self.random.choice(sorted(self.asks))
            ask, at = self.asks.pop(key), self.random.choice(sorted(self.occupied))
            uuid = f"u{next(self._uuids)}"
            self.allocations[uuid] = (ask.application_id, key, at)
            self.said.append(v.Allocated(ask.application_id, key, uuid, at))
            self.said.append(v.ApplicationUpdated(ask.application_id, "Running", ""))
        if self.allocations and self.random.random() < 0.1:
            uuid = self.random.choice(sorted(self.allocations))
            if uuid not in self.leaving:
                self.leaving.add(uuid)
                application_id, key, _ = self.allocations[uuid]
                self.said.append(v.ReleaseWanted(application_id, key, uuid, v.Cause.PREEMPTED, ""))
        for application_id in sorted(self.applications):
            used = {ask.application_id for ask in self.asks.values()} | {a for a, _, _ in self.allocations.values()}
            if application_id not in used and self.random.random() < 0.2:
                self.applications.discard(application_id)
                self.said.append(v.ApplicationUpdated(application_id, "Completed", ""))

    def forget(self, application_id: ApplicationId) -> None:
        self.applications.discard(application_id)
        for key in [key for key, ask in self.asks.items() if ask.application_id == application_id]:
            del self.asks[key]
            self.said.append(v.AskReleased(application_id, key))
        for uuid in [uuid for uuid, (owner, _, _) in self.allocations.items() if owner == application_id]:
            _, key, _ = self.allocations.pop(uuid)
            self.leaving.discard(uuid)
            self.said.append(v.AllocationReleased(application_id, key, uuid))

    def _ask(self, ask: e.Ask) -> None:
        if ask.application_id not in self.applications or self.random.random() < 0.05:
            self.said.append(v.AskRejected(ask.application_id, ask.key, "no"))
            return
        self.amounts[ask.key] = dict(ask.resources)
        if ask.key not in {key for _, key, _ in self.allocations.values()}:
            self.asks[ask.key] = ask

    def _create(self, effect: e.CreateNode) -> None:
        if effect.name in self.occupied:
            self.said.append(v.NodeRejected(effect.name, "is registered already"))
            return
        if any(one.application_id not in self.applications for one in effect.existing) or self.random.random() < 0.05:
            self.said.append(v.NodeRejected(effect.name, "no"))
            return
        self.occupied[effect.name] = dict(effect.occupied)
        for one in effect.existing:
            self._take_over(effect.name, one)
        self.said.append(v.NodeAccepted(effect.name))

    def _update(self, effect: e.UpdateNode) -> None:
        assert effect.name in self.occupied, f"update of {effect.name}, which is not known"
        if not effect.existing and self.random.random() < 0.05:
            self.said.append(v.NodeRejected(effect.name, "no"))
            return
        for at, one in enumerate(effect.existing):
            known = next((uuid for uuid, (_, key, _) in self.allocations.items() if key == one.key), one.uuid)
            is_leaving = known in self.leaving and known != one.uuid
            if one.application_id not in self.applications or is_leaving or self.random.random() < 0.1:
                reason = f"existingAllocations[{at}] (allocationKey {one.key!r}): no"
                self.said.append(v.NodeRejected(effect.name, reason, one.key))
                return
        if effect.occupied is not None:
            self.occupied[effect.name] = dict(effect.occupied)
        for one in effect.existing:
            self._take_over(effect.name, one)

    def _take_over(self, node: str, one: e.ExistingAllocation) -> None:
        """A pending ask is withdrawn, and an allocation of that key moves."""
        self.asks.pop(one.key, None)
        for uuid in [uuid for uuid, (_, key, _) in self.allocations.items() if key == one.key]:
            del self.allocations[uuid]
        self.allocations[one.uuid] = (one.application_id, one.key, node)
        self.amounts[one.key] = dict(one.resources)


class ToyWorld:
    node_cpu = "1"

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = Cluster()
        self.daemon = ToyDaemon(self.random)
        self.pods: dict[str, Pod] = {}
        self.nodes: set[str] = set()
        self.bindings: list[str] = []
        self.stolen: set[str] = set()
        """Pods that somebody else has bound."""
        self.now_ns = 0
        self.moves = 0
        self._names = itertools.count()
        self._watch: deque[v.Event] = deque()
        self._watches: list[deque[v.Event]] = [self._watch]
        """Between kinds of objects there is no order."""
        self._ends: deque[v.Event] = deque()
        self._to_daemon: dict[str, deque[e.Effect]] = {way: deque() for way in ("applications", "nodes", "others")}
        """By stream of messages: there is no order between them."""
        self._to_api: deque[e.Effect] = deque()

    def node(self, name: str) -> Node:
        return node(name, {"disk": name}, cpu=self.node_cpu)

    def start(self) -> None:
        self._carry_out(self._step(0, [v.Started(EPOCH_NS)]))

    def turn(self) -> None:
        """Something happens somewhere."""
        self.random.choice((self._user, self._user, self.daemon.act, self.move, self.move, self.move, self._pass))()

    def settle(self) -> None:
        """Everything that is under way arrives, and every timer rings; nobody does anything new."""
        for _ in range(400):
            while self.move():
                pass
            self._pass(60)
        for uid in [uid for uid, pod in self.pods.items() if pod.metadata.deletion_timestamp]:
            self._remove(uid)
        while self.move():
            pass

    def move(self) -> bool:
        """One message arrives; False if there is none."""
        self._note_move()
        streams = self._streams()
        others: list[deque[Any]] = [*self._watches, self._ends, self.daemon.said, self._to_api]
        ways = [way for way in (*others, *streams) if way]
        if not ways:
            return False
        way = self.random.choice(ways)
        if any(way is stream for stream in streams):
            self.daemon.take(way.popleft())
        elif way is self._to_api:
            self._api(self._to_api.popleft())
        else:
            event = way.popleft()
            assert not isinstance(event, e.Recovery)
            self._carry_out(self._step(self.now_ns, [event]))
        return True

    def _note_move(self) -> None:
        self.moves += 1
        assert self.moves < MOVES_MAX, "messages without end"

    def _step(self, now_ns: int, events: list[v.Event]) -> list[e.Effect]:
        effects = self.cluster.step(now_ns, events)
        assert violations(self.cluster.model) == []
        return effects

    def _carry_out(self, effects: list[e.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, e.Recovery):
                self._carry_out([*effect.applications, *effect.nodes, *effect.asks, *effect.others])
            elif isinstance(effect, e.Bind | e.BindVolume | e.SelectNode | e.DeletePod):
                self._to_api.append(effect)
            elif not isinstance(effect, e.RecordEvent | e.PatchPodCondition):
                self._to_daemon[_way(effect)].append(effect)

    def _is_early(self, effect: e.Effect) -> bool:
        """It is about an application that is under way on another stream: the daemon lets it wait for that."""
        coming = {one.application_id for one in self._to_daemon["applications"] if isinstance(one, e.AddApplication)}
        coming -= self.daemon.applications
        match effect:
            case e.Ask(application_id):
                return application_id in coming
            case e.CreateNode() | e.UpdateNode():
                return any(one.application_id in coming for one in effect.existing)
        return False

    def _streams(self) -> list[deque[Any]]:
        return [stream for stream in self._to_daemon.values() if stream and not self._is_early(stream[0])]

    def _pass(self, seconds: int = 1) -> None:
        """No message to the daemon is under way for longer."""
        while streams := self._streams():
            self.daemon.take(self.random.choice(streams).popleft())
        self.now_ns += seconds * SECOND_NS
        self._carry_out(self._step(self.now_ns, [v.Tick()]))

    def _user(self) -> None:
        chance = self.random.random()
        if chance < 0.5:
            number = next(self._names)
            application = self.random.choice("abc")
            namespace = namespace_of(number, shares_id=application == "a")
            meta = {"labels": {"applicationId": application}, "namespace": namespace}
            self._put(own(f"p{number}", cpu="100m", meta=meta))
        elif chance < 0.7 and self.pods:
            self._delete(self.random.choice(sorted(self.pods)))
        elif chance < 0.77 and self.pods:
            self._remove(self.random.choice(sorted(self.pods)))
        elif chance < 0.8 and self.pods:
            self._resize(self.random.choice(sorted(self.pods)))
        elif chance < 0.82 and self.nodes:
            name = f"p{next(self._names)}"
            self._put(placed(own(name, cpu="100m"), self.random.choice(sorted(self.nodes))))
        elif chance < 0.93 or not self.nodes:
            name = f"n{self.random.randrange(4)}"
            if name not in self.nodes:
                self.nodes.add(name)
                self._watch.append(v.Put(self.node(name)))
        elif chance < 0.96:
            name = self.random.choice(sorted(self.nodes))
            self.nodes.discard(name)
            self._watch.append(v.Gone(self.node(name)))

    def _api(self, effect: e.Effect) -> None:
        match effect:
            case e.Bind():
                self._ends.append(self._bind(effect))
            case e.DeletePod(name):
                if self.random.random() < 0.1:
                    self._ends.append(v.DeleteEnded(name.uid, False, "no"))
                else:
                    self._delete(name.uid)
                    self._ends.append(v.DeleteEnded(name.uid, True))

    def _bind(self, effect: e.Bind) -> v.BindEnded:
        uid, at = effect.pod.uid, effect.node
        pod = self.pods.get(uid)
        if pod is None or (pod.metadata.deletion_timestamp and not pod.spec.node_name):
            return v.BindEnded(uid, at, v.BindResult.GONE)
        if pod.spec.node_name:
            if pod.spec.node_name == at:
                return v.BindEnded(uid, at, v.BindResult.DONE, is_at=at)
            return v.BindEnded(uid, at, v.BindResult.ELSEWHERE, is_at=pod.spec.node_name)
        chance = self.random.random()
        if chance < 0.1:
            return v.BindEnded(uid, at, v.BindResult.FAILED, "no")
        if chance < 0.2:
            return v.BindEnded(uid, at, v.BindResult.UNKNOWN)
        is_stolen = chance > 0.97 and self.nodes
        self.bindings.append(uid)
        if is_stolen:
            self.stolen.add(uid)
        if is_stolen:
            self._put(placed(pod, self.random.choice(sorted(self.nodes))))
        else:
            self._put(annotated(placed(pod, at), effect.annotations))
        return v.BindEnded(uid, at, v.BindResult.UNKNOWN if chance < 0.3 or is_stolen else v.BindResult.DONE)

    def _delete(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is None:
            return
        if pod.spec.node_name:
            self._put(terminating(pod))
        else:
            self._remove(uid)

    def _remove(self, uid: str) -> None:
        self._watch.append(v.Gone(self.pods.pop(uid)))

    def _resize(self, uid: str) -> None:
        pod, other = self.pods[uid], own("x", cpu=f"{self.random.randrange(100, 300)}m")
        spec = msgspec.structs.replace(pod.spec, containers=other.spec.containers)
        self._put(msgspec.structs.replace(pod, spec=spec))

    def _put(self, pod: Pod) -> None:
        self.pods[pod.metadata.uid] = pod
        self._watch.append(v.Put(pod))


def _way(effect: e.Effect) -> str:
    match effect:
        case e.AddApplication() | e.RemoveApplication():
            return "applications"
        case e.CreateNode() | e.UpdateNode() | e.RemoveNode():
            return "nodes"
    return "others"
