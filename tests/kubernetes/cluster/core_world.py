"""The toy world with the real core, the real books of the client, and daemons and shims that are killed."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count
from typing import Any, TypeVar

from msgspec.structs import replace

from schedulerd.client import AllocationRelease
from schedulerd.core.scheduler import Scheduler
from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.objects.pod import PodCondition
from schedulerd.kubernetes.shim.answers_awaited import AnswersAwaited
from schedulerd.kubernetes.shim.daemon_link import DaemonLink
from schedulerd.kubernetes.shim.daemon_writer import DaemonWriter
from tests.kubernetes.builders import annotated, node, placed
from tests.kubernetes.cluster.core_daemon import PARTITIONS, CoreDaemon
from tests.kubernetes.cluster.gang_world import GangWorld
from tests.kubernetes.cluster.toy_world import ToyWorld

RESTS = 100
"""Minutes until every timer has rung, back-offs of half an hour included."""


IdT = TypeVar("IdT", bound=Hashable)


class CoreWorld(ToyWorld):
    """`core` is the daemon; the one of the toy world is not used."""

    core: CoreDaemon
    partitions = PARTITIONS

    def __init__(self, seed: int, *, kills: bool = True) -> None:
        super().__init__(seed)
        self.kills = kills
        self.deaths = 0
        self.is_quiet = False
        self._uuids = count()
        self._connect()

    def _connect(self) -> None:
        """A shim that has begun, and the daemon with which it registers."""
        known: Scheduler | None = self.core.scheduler if self.deaths else None
        self.link = DaemonLink(self.cluster, self._handle, self._note_wanted, lambda: self.now_ns / SECOND_NS)
        self.core = CoreDaemon(self.link, self._uuids, self.partitions)
        self.core.now_ns = self.now_ns
        if known is not None and self.random.random() < 0.5:
            self.core.scheduler = known
            self.core.register()
        self.writer = DaemonWriter(self.core.client)  # type: ignore[arg-type]

    def turn(self) -> None:
        chance = self.random.random() if self.kills else 1.0
        if chance < 0.01:
            self.kill_daemon()
        elif chance < 0.015:
            self.kill_shim()
        else:
            ways = (self._user, self._user, self.core.cycle, self.move, self.move, self.move, self._pass)
            self.random.choice(ways)()

    def kill_daemon(self) -> None:
        self.deaths += 1
        self.core.kill()

    def kill_shim(self) -> None:
        """Half of the writes under way are performed. The next shim lists everything."""
        self.deaths += 1
        for effect in list(self._to_api):
            if self.random.random() < 0.5:
                self._api(effect)
        for way in (self._watch, self._ends, self._to_api):
            way.clear()
        is_started = self.cluster.model.is_started
        self.cluster = Cluster()
        self._connect()
        puts = [v.Put(pod) for pod in self.pods.values()]
        nodes = [v.Put(node(name, cpu=self.node_cpu)) for name in sorted(self.nodes)]
        self.cluster.step(self.now_ns, [*self._told_first(), *puts, *nodes])
        if is_started:
            self.start()

    def _told_first(self) -> list[v.Event]:
        """What a shim is told before it is told of pods and nodes."""
        return []

    def settle(self) -> None:
        """Nobody does anything new; then the pods that are being deleted go, and no binding fails any longer."""
        self.kills = False
        self._rest()
        self.is_quiet = True
        for uid in [uid for uid, pod in self.pods.items() if pod.metadata.deletion_timestamp]:
            self._remove(uid)
        self._rest()

    def _rest(self) -> None:
        for _ in range(RESTS):
            while self.move():
                pass
            self._pass(60)
        while self.move():
            pass

    def _bind(self, effect: e.Bind) -> v.BindEnded:
        uid, at = effect.pod.uid, effect.node
        pod = self.pods.get(uid)
        if not self.is_quiet or pod is None or pod.spec.node_name:
            return super()._bind(effect)
        self.bindings.append(uid)
        self._put(annotated(placed(pod, at), effect.annotations))
        return v.BindEnded(uid, at, v.BindResult.DONE)

    def move(self) -> bool:
        self._note_move()
        ways: list[Any] = [way for way in (self._watch, self._ends, self._to_api) if way]
        ways += self.core.open_requests()
        ways += self.core.open_responses()
        if self.core.calls:
            ways.append(self.core.calls)
        if not ways:
            if self.core.scheduler.wants_cycle():
                self.core.cycle()
                return True
            return False
        way = self.random.choice(ways)
        if way is self._to_api:
            self._api(self._to_api.popleft())
        elif way is self._watch or way is self._ends:
            self._handle([way.popleft()])
        elif way is self.core.calls:
            self.core.call()
        elif way in self.core.responses:
            self.core.answer(way, self.random.choice((1, 1, 2, 5)))
        else:
            self.core.deliver(way)
        return True

    def _handle(self, events: list[v.Event]) -> None:
        self._carry_out(self._step(self.now_ns, events))

    def _note_wanted(self, release: AllocationRelease) -> None:
        self.writer.wanted[release.UUID] = release

    def _carry_out(self, effects: list[e.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, e.Recovery):
                self._report(effect)
            elif isinstance(effect, e.Bind | e.DeletePod | e.CreatePod | e.FailPod | e.PatchPodCondition):
                self._to_api.append(effect)
            elif not isinstance(effect, e.RecordEvent):
                self.writer.performers[type(effect)](effect)

    def _api(self, effect: e.Effect) -> None:
        if isinstance(effect, e.PatchPodCondition):
            self._patch(effect)
        else:
            super()._api(effect)

    def _patch(self, effect: e.PatchPodCondition) -> None:
        pod = self.pods.get(effect.pod.uid)
        if pod is None or (effect.type == "PodScheduled" and pod.spec.node_name):
            return
        status = "True" if effect.is_true else "False"
        condition = PodCondition(type=effect.type, status=status, reason=effect.reason, message=effect.message)
        others = [one for one in pod.status.conditions or () if one.type != effect.type]
        self._put(replace(pod, status=replace(pod.status, conditions=(*others, condition))))

    def _report(self, report: e.Recovery) -> None:
        """As the driver does: the next part leaves when the one before is answered."""
        link = self.link
        self._carry_out(list(report.applications))
        self._until_answered({one.application_id for one in report.applications}, link.applications_awaited)
        self._carry_out(list(report.nodes))
        self._until_answered({one.name for one in report.nodes}, link.nodes_awaited)
        self._carry_out([*report.asks, *report.others])

    def _until_answered(self, ids: set[IdT], awaited: AnswersAwaited[IdT]) -> None:
        awaited._ids = ids
        while awaited._ids:
            if self.kills and self.random.random() < 0.02:
                self.kill_daemon()
            ways: list[Any] = [*self.core.open_requests(), *self.core.open_responses()]
            assert ways, "the daemon has not answered"
            way = self.random.choice(ways)
            if way in self.core.responses:
                self.core.answer(way, self.random.choice((1, 1, 2, 5)))
            else:
                self.core.deliver(way)

    def _pass(self, seconds: int = 1) -> None:
        """No message to the daemon is under way for longer."""
        while streams := self.core.open_requests():
            self.core.deliver(self.random.choice(streams))
        self.now_ns += seconds * SECOND_NS
        self.core.pass_time(self.now_ns)
        self._handle([v.Tick()])


class CoreGangWorld(CoreWorld, GangWorld):
    """With gangs of every kind, evictions and refused creations."""

    def _told_first(self) -> list[v.Event]:
        groups = [v.Put(one) for one in self.pod_groups.values()]
        return [v.GangSourceServed(GangSource.COSCHEDULING), *groups]

    def _rest(self) -> None:
        self.is_calm = True
        for _ in range(3):
            super()._rest()
            self._collect_garbage()
        super()._rest()
