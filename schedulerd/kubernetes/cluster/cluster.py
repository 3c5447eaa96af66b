"""The state machine: events in, effects out. No I/O, no clock.

    cluster = Cluster(ClusterSettings())
    cluster.step(now_ns, [Put(node), Put(pod), ...])    # what there is; nothing is told yet
    effects = cluster.step(now_ns, [Started(epoch_ns)]) # [Recovery(applications, nodes, asks)]
    effects = cluster.step(now_ns, [Allocated(...)])    # [Bind(...)]
    cluster.next_due_ns                                 # when to step with Tick()

Times are nanoseconds of any clock that never runs backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from schedulerd.kubernetes.cluster import (
    allocations,
    answers,
    asking,
    conditions,
    failing,
    node_answers,
    nodes,
    pods,
    questions,
    start,
)
from schedulerd.kubernetes.cluster.effects import Effect
from schedulerd.kubernetes.cluster.events import (
    Allocated,
    AllocationReleased,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    AskRejected,
    AskReleased,
    AskTimedOut,
    BindEnded,
    ConditionLost,
    CreateEnded,
    DaemonSetsListed,
    DeleteEnded,
    Event,
    FailEnded,
    GangSourceServed,
    Gone,
    HoldsVoid,
    NodeAccepted,
    NodeRejected,
    PendingReasonTold,
    Put,
    QueueNameUnused,
    ReleaseWanted,
    ReportBegun,
    Resynced,
    RoomFreed,
    RoomHeld,
    Started,
    Tick,
    VolumeWritten,
)
from schedulerd.kubernetes.cluster.gangs import declaration, giving_way, held_rooms, holds, life, slots
from schedulerd.kubernetes.cluster.gangs.model import GangTime
from schedulerd.kubernetes.cluster.model import Model
from schedulerd.kubernetes.cluster.object_changes import gone, put
from schedulerd.kubernetes.cluster.pod_enquiry import about_pod
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.cluster.timers import Due
from schedulerd.kubernetes.metadata.application_ids import ApplicationId


class Cluster:
    def __init__(self, settings: ClusterSettings | None = None) -> None:
        self.model = Model(settings or ClusterSettings())

    @property
    def next_due_ns(self) -> int | None:
        """When time itself is the next event."""
        return self.model.timers.next_due_ns

    def step(self, now_ns: int, events: Iterable[Event]) -> list[Effect]:
        """What is to be done because of these events, in order."""
        model = self.model
        model.now_ns = max(model.now_ns, now_ns)
        for event in events:
            _HANDLERS[type(event)](model, event)
        if model.is_started:
            _due(model)
            if model.gangs_due or model.unwanted:
                life.review(model)
            if model.nodes.changed or model.gangs_due:
                nodes.report_changes(model)
            asking.wake_refused(model)
            conditions.report(model)
        effects, model.effects = model.effects, []
        return effects

    @property
    def work(self) -> int:
        """What judgements have cost so far, in judgements of pods that say nothing of nodes."""
        return self.model.cache.state.work

    def prepare(self, key: str) -> bool:
        """One step of the work before a question about the pod of this ask can be answered; False if nothing is left
        of it. Nobody has to call this, but others may run between its steps."""
        return questions.prepare(self.model, key)

    def predicates(self, key: str, node: str, *, allocate: bool) -> str | None:
        """Why the pod of this ask may not run on the node; None if it may."""
        return questions.predicates(self.model, key, node, allocate=allocate)

    def preemption_predicates(self, key: str, node: str, victims: Sequence[str], start: int) -> int | None:
        """Index of the last victim that has to go for the pod to run on the node; None if it cannot."""
        return questions.preemption_predicates(self.model, key, node, victims, start)

    def about_pod(self, namespace: str, name: str) -> Generator[None, None, str]:
        """What is known of the pod, as sentences; '' if nothing is."""
        return about_pod(self.model, namespace, name)

    def task_groups(self, application_id: ApplicationId) -> str:
        """The task groups of its gang, for whose members the daemon holds room, as a tag; empty without such a gang."""
        return life.task_groups(self.model, application_id)

    def gang_time(self, application_id: ApplicationId) -> GangTime | None:
        """When the time of its gang has begun; None if there is nothing to be said of it."""
        return life.gang_time(self.model, application_id)


def _due(model: Model) -> None:
    timers = model.timers
    while timers.next_due_ns is not None and timers.next_due_ns <= model.now_ns:
        timer = timers.pop()
        _TIMERS[timer.kind](model, timer.key)


_HANDLERS: dict[type[Event], Callable[[Model, Any], None]] = {
    Put: put,
    Gone: gone,
    Started: start.started,
    Tick: lambda model, event: None,
    ReportBegun: answers.report_begun,
    Resynced: lambda model, event: answers.resynced(model),
    ApplicationAccepted: answers.application_accepted,
    ApplicationRejected: answers.application_rejected,
    ApplicationUpdated: answers.application_updated,
    QueueNameUnused: answers.queue_name_unused,
    NodeAccepted: lambda model, event: node_answers.accepted(model, event.name),
    NodeRejected: node_answers.rejected,
    Allocated: allocations.allocated,
    AllocationReleased: allocations.released,
    ReleaseWanted: allocations.release_wanted,
    AskRejected: answers.ask_rejected,
    AskReleased: answers.ask_released,
    AskTimedOut: answers.ask_timed_out,
    PendingReasonTold: conditions.told,
    RoomHeld: holds.held,
    RoomFreed: holds.freed,
    HoldsVoid: lambda model, event: holds.forget_all(model),
    BindEnded: allocations.bind_ended,
    VolumeWritten: allocations.volume_written,
    DeleteEnded: allocations.delete_ended,
    FailEnded: failing.fail_ended,
    ConditionLost: conditions.lost,
    CreateEnded: slots.create_ended,
    DaemonSetsListed: pods.daemon_sets_listed,
    GangSourceServed: lambda model, event: model.gang_sources.add(event.source),
}

_TIMERS: dict[Due, Callable[[Model, Any], None]] = {
    Due.ASK_AGAIN: answers.ask_again,
    Due.BIND_AGAIN: allocations.bind_again,
    Due.VOLUMES: allocations.volumes_due,
    Due.DELETE_AGAIN: allocations.delete_again,
    Due.FAIL_AGAIN: failing.fail_again,
    Due.TELL_GANG: declaration.tell_again,
    Due.TELL_CONDITION: lambda model, key: conditions.timer_rang(model),
    Due.ADD_APPLICATION: answers.add_application_again,
    Due.CREATE_NODE: node_answers.create_again,
    Due.UPDATE_NODE: node_answers.update_again,
    Due.RELEASE_AGAIN: pods.release_again,
    Due.REPORT_POD: node_answers.report_pod_again,
    Due.NEW_CLASSES: lambda model, key: nodes.new_classes(model),
    Due.IDLE_CLASSES: lambda model, key: nodes.idle_classes(model),
    Due.ASK_REFUSED: lambda model, key: asking.ask_refused_again(model),
    Due.GANG: life.due,
    Due.GANGS_EXCLUDE: lambda model, key: giving_way.check(model),
    Due.KEPT_ROOM: held_rooms.end,
    Due.PROMISE: questions.promise_expired,
    Due.DECLARATION: life.declaration_due,
    Due.DAEMON_SET: pods.daemon_set_awaited,
}
