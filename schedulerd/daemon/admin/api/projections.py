"""The objects of the scheduler as the models of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from itertools import islice
from typing import Literal, NamedTuple

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.ask_tags import pod_of
from schedulerd.core.language.resources import Resources, within_int64
from schedulerd.core.language.specs import LimitSpec
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.constraints.node_class_attributes import attributes_for_people
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.rules.states import states_of
from schedulerd.core.state.quotas.usage import UsageLedger
from schedulerd.core.views.gang_members import members_of
from schedulerd.core.views.gang_progress import gang_progress
from schedulerd.daemon.admin.api.finding import Place
from schedulerd.daemon.admin.api.models import (
    Amounts,
    ApplicationDetail,
    ApplicationItem,
    AskItem,
    EventItem,
    EventType,
    GangItem,
    LimitItem,
    MembersItem,
    NodeItem,
    PreemptionItem,
    QueueItem,
    QueueState,
    ReservationItem,
    StateCountItem,
    StateEntry,
    TaskGroupItem,
    UserItem,
)
from schedulerd.observe.event_messages import reason
from schedulerd.observe.event_record import Event, Kind, Record

_NODES_NAMED_MAX = 10
"""Nodes of one ask that are named."""
_TASK_GROUPS_MAX = 100
"""Task groups of one gang that are shown."""
_TAGS_MAX = 100
"""Tags of an application, or attributes of a node, that are shown."""


class Preemption(NamedTuple):
    """A victim, with the reservation that waits for it."""

    reservation: Reservation
    victim: Allocation


class UserUse(NamedTuple):
    """What a user or group uses in one queue."""

    kind: Literal["user", "group"]
    name: str
    queue: str
    ledger: UsageLedger


class QueueLimit(NamedTuple):
    """A limit, with its queue and its number there."""

    queue: Queue
    number: int
    limit: LimitSpec


class Projection:
    """Makes the models of one partition. `epoch_ns` is the wall time of time 0 of the scheduler's clock."""

    def __init__(self, found: Place, epoch_ns: int) -> None:
        self._place = found
        self._epoch_ns = epoch_ns
        self._rm, self._partition = found.rm.rm_id, found.partition.name

    def _time(self, at_ns: int | None) -> int | None:
        return None if at_ns is None else self._epoch_ns + at_ns

    def queue(self, one: Queue) -> QueueItem:
        return QueueItem(
            rm=self._rm,
            partition=self._partition,
            queue=one.written,
            parent=one.parent.written if one.parent is not None else "",
            is_leaf=one.is_leaf,
            managed=one.managed,
            state=_queue_state(one),
            guaranteed=amounts(one.guaranteed),
            max={name: within_int64(amount) for name, amount in sorted(one.max.items())},
            capacity=amounts(self._place.partition.total()) if one.parent is None else {},
            used=amounts(one.allocated),
            reserved=amounts(one.quota_reserved),
            leaving=amounts(one.leaving),
            pending=amounts(one.pending),
            running_applications=one.running,
            max_applications=one.max_applications,
            applications=len(one.applications),
            children=len(one.children),
        )

    def application(self, one: Application) -> ApplicationItem:
        since_ns = one.state_log[-1][0] if one.state_log else None
        return ApplicationItem(
            rm=self._rm,
            partition=self._partition,
            application=one.application_id,
            queue=one.queue.written,
            user=one.spec.user,
            groups=one.spec.groups,
            state=one.state.value,
            state_since_ns=self._time(since_ns),
            submitted_ns=self._epoch_ns + one.submitted_at_ns,
            used=amounts(one.allocated),
            placeholders={} if one.declares_gang else amounts(one.placeholder_allocated),
            held=amounts(one.placeholder_allocated) if one.declares_gang else {},
            pending=amounts(one.pending),
            allocations=len(one.allocations) - one.held_slots,
            pending_allocations=one.pending_of_rm,
            has_gang=one.gang is not None,
            execution_deadline_ns=self._time(one.run_alarm.deadline_ns if one.run_alarm is not None else None),
        )

    def application_detail(self, one: Application) -> ApplicationDetail:
        log = [StateEntry(self._epoch_ns + at_ns, state.value, cause) for at_ns, state, cause in one.state_log]
        tags = dict(islice(one.spec.tags.items(), _TAGS_MAX))
        return ApplicationDetail(self.application(one), log, tags, self.gang(one))

    def ask(self, one: Ask, owner: Application) -> AskItem:
        states: dict[str, int] = {}
        for waiting in states_of(self._place.partition, self._place.rm.state, owner, one):
            states[waiting.state.value] = states.get(waiting.state.value, 0) + waiting.allocations
        return AskItem(
            rm=self._rm,
            partition=self._partition,
            application=owner.application_id,
            ask=one.key,
            pod=pod_of(one.spec.tags),
            queue=owner.queue.written,
            user=owner.spec.user,
            resources=amounts(one.request_class.resources),
            priority=one.spec.priority,
            placeholder=one.placeholder,
            task_group=one.spec.task_group,
            required_node=one.request_class.required_node,
            asked_ns=self._epoch_ns + one.asked_at_ns,
            pending=one.pending + one.awaiting_placeholder,
            nodes=[allocation.node.node_id for allocation in islice(one.allocations.values(), _NODES_NAMED_MAX)],
            allocations=len(one.allocations),
            waiting=[StateCountItem(state, count) for state, count in states.items()],
        )

    def node(self, one: Node) -> NodeItem:
        return NodeItem(
            rm=self._rm,
            partition=self._partition,
            node=one.node_id,
            state=one.state.value,
            ready=one.ready,
            attributes=dict(islice(attributes_for_people(one.attributes).items(), _TAGS_MAX)),
            capacity=amounts(one.capacity),
            occupied=amounts(one.occupied),
            used=amounts(one.allocated),
            available=amounts(one.available),
            reserved=amounts(one.reserved),
            allocations=len(one.allocations),
            unclaimed=len(one.unclaimed),
            reservations=len(one.reservations),
        )

    def gang(self, one: Application) -> GangItem | None:
        """None if the application has none."""
        if one.gang is None:
            return None
        is_declared = one.declares_gang
        found = gang_progress(one) if is_declared else None
        groups = {} if is_declared else one.gang.task_groups
        return GangItem(
            rm=self._rm,
            partition=self._partition,
            application=one.application_id,
            queue=one.queue.written,
            pending=one.gang.pending,
            deadline_ns=self._time(one.gang_alarm.deadline_ns if one.gang_alarm is not None else None),
            task_groups=[
                TaskGroupItem(group.name, group.wanted, group.placed, group.idle, group.replaced, group.timed_out)
                for group in islice(groups.values(), _TASK_GROUPS_MAX)
            ],
            state=found.gang_state if found is not None else "",
            needed=found.wanted if found is not None else 0,
            with_room=found.placed if found is not None else 0,
            gathers_ns=self._time(found.gathers_ns if found is not None else None),
            members=[MembersItem(*astuple(group)) for group in members_of(one)],
        )

    def reservation(self, one: Reservation) -> ReservationItem:
        return ReservationItem(
            rm=self._rm,
            partition=self._partition,
            node=one.node.node_id,
            application=one.application.application_id,
            ask=one.ask.key,
            pod=pod_of(one.ask.spec.tags),
            queue=one.application.queue.written,
            resources={name: within_int64(amount) for name, amount in one.items},
            entitled=one.is_entitled,
            since_ns=self._epoch_ns + one.made_at_ns,
            expires_ns=self._time(one.alarm.deadline_ns if one.alarm is not None else None),
            victims=len(one.victims),
        )

    def preemption(self, one: Preemption) -> PreemptionItem:
        victim, made = one.victim, one.reservation
        return PreemptionItem(
            rm=self._rm,
            partition=self._partition,
            application=made.application.application_id,
            ask=made.ask.key,
            pod=pod_of(made.ask.spec.tags),
            node=made.node.node_id,
            victim_application=victim.application.application_id,
            victim_ask=victim.key,
            victim_pod=pod_of(victim.spec.tags),
            victim_uuid=victim.uuid,
            victim_node=victim.node.node_id,
            victim_queue=victim.application.queue.written,
            since_ns=self._time(made.asked_to_end_ns),
        )

    def user(self, use: UserUse) -> UserItem:
        return UserItem(
            self._rm,
            self._partition,
            use.name,
            use.kind,
            use.queue,
            amounts(use.ledger.usage),
            len(use.ledger.applications),
        )

    def limit(self, one: QueueLimit) -> LimitItem:
        limit = one.limit
        most = {name: within_int64(amount) for name, amount in sorted((limit.max or {}).items())}
        return LimitItem(
            self._rm, self._partition, one.queue.written, limit.users, limit.groups, most, limit.max_applications
        )


EVENT_TYPES: Mapping[int, EventType] = {
    Kind.UNKNOWN_EVENTRECORD_TYPE: "resource_manager",
    Kind.REQUEST: "request",
    Kind.APP: "app",
    Kind.NODE: "node",
    Kind.QUEUE: "queue",
}
"""Names of the kinds of objects. The scheduler interface has no kind for resource managers."""


def event(one: Event, instance_id: str, scheduler: Scheduler) -> EventItem:
    """An event of any resource manager."""
    record = one.record
    rm = scheduler.cluster.resource_managers.get(one.rm_id)
    partition = rm.partitions.get(one.partition) if rm is not None else None
    kinds = si_pb2.EventRecord
    return EventItem(
        id=f"{instance_id}:{one.event_id}",
        at_ns=one.at_ns,
        rm=one.rm_id,
        partition=one.partition,
        type=EVENT_TYPES[record.kind],
        object=record.object_id,
        pod=pod_of_request(partition, record) if partition is not None else "",
        reference=record.reference_id,
        change=kinds.ChangeType.Name(record.change).lower(),
        detail=kinds.ChangeDetail.Name(record.detail).lower(),
        reason=reason(record),
        message=record.message,
        resources={name: within_int64(amount) for name, amount in record.resources.items()},
    )


def pod_of_request(partition: Partition, record: Record) -> str:
    """NAMESPACE/NAME of the pod that an event of a request is about, while its ask is there; else ''."""
    application = partition.applications.get(record.group) if record.kind == Kind.REQUEST else None
    ask = application.asks.get(record.object_id) if application is not None else None
    return pod_of(ask.spec.tags) if ask is not None else ""


def amounts(resources: Resources) -> Amounts:
    return {name: within_int64(amount) for name, amount in resources.nonzero().items()}


def _queue_state(one: Queue) -> QueueState:
    if one.draining:
        return "draining"
    return "active" if one.stopped_by() is None else "stopped"
