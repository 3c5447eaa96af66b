"""Makes the views: the state as plain values, for people and tests. Nothing here changes the state.

The cost of a bounded `StateQuery` hardly depends on the size of the state: only the sum over all nodes and the walk
over the queues grow with it.
"""

from __future__ import annotations

from typing import TypeAlias

from schedulerd.core.autoscaling.summary import outstanding_requests
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.state.constraints.node_class_attributes import attributes_for_people
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node, Unclaimed
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import gang_ahead
from schedulerd.core.state.quotas import rules
from schedulerd.core.state.quotas.usage import Ledgers
from schedulerd.core.state.step_context import Cluster, ResourceManager
from schedulerd.core.state.unknown_application import unknown_application
from schedulerd.core.views.explanation import Explanation
from schedulerd.core.views.gang_members import members_of
from schedulerd.core.views.state_query import StateQuery
from schedulerd.core.views.values import (
    AllocationView,
    ApplicationView,
    AskView,
    LimitView,
    NodeView,
    PartitionView,
    PredicateCheckView,
    QueueView,
    ReservationView,
    ResourceManagerView,
    TaskGroupView,
    UnclaimedView,
    UserView,
)

Shown: TypeAlias = dict[Allocation, AllocationView]
"""Cache of the allocations of a partition: each is viewed twice, with its application and with its node."""


def resource_managers(cluster: Cluster, query: StateQuery | None = None) -> list[ResourceManagerView]:
    """What the query asks for, by RM; everything without a query."""
    query = query or StateQuery()
    known = cluster.resource_managers
    return [
        resource_manager(
            rm,
            [
                _partition(one, rm.state, query)
                for _, one in query.take_named("partitions", rm.partitions, query.partition)
            ],
            query,
        )
        for _, rm in query.take_named("resource_managers", known, query.rm_id)
    ]


def partition(cluster: Cluster, rm_id: str, name: str) -> PartitionView:
    """One partition. Raises KeyError if the RM or the partition is unknown."""
    rm = cluster.resource_managers[rm_id]
    return _partition(rm.partitions[name], rm.state, StateQuery())


def resource_manager(rm: ResourceManager, partitions: list[PartitionView], query: StateQuery) -> ResourceManagerView:
    """The view of an RM with these partitions."""
    return ResourceManagerView(
        rm_id=rm.rm_id,
        state=rm.state.value,
        version=rm.version,
        policy_group=rm.policy_group,
        configuration_source=rm.configuration.source,
        configuration_checksum=rm.configuration.checksum,
        configured_at_ns=query.time(rm.configured_at_ns),
        partitions=partitions,
    )


def _partition(one: Partition, state: ResourceManagerState, query: StateQuery) -> PartitionView:
    explain = Explanation(one, state, query)
    applications = [app for _, app in query.take_named("applications", one.applications, query.application_id)]
    terminated = [app for app in one.terminated.values() if query.application_id in ("", app.application_id)]
    nodes = query.take_named("nodes", one.nodes, query.node_id)
    queues = one.root.subtree()
    requests = outstanding_requests(one)
    shown: Shown = {}
    return PartitionView(
        rm_id=one.rm_id,
        name=one.name,
        node_order=one.spec.node_order.value,
        preemption_enabled=one.spec.preemption_enabled,
        total=one.total().nonzero(),
        queues=[
            _queue(queue, query)
            for queue in sorted(query.take("queues", queues, len(queues)), key=lambda queue: queue.path)
        ],
        applications=[_application(one, app, explain, query, shown) for app in applications],
        terminated=[
            _rejected(app, query)
            if isinstance(app, RejectedApplication)
            else _application(one, app, explain, query, shown)
            for app in query.take("terminated", terminated, len(terminated))
        ],
        nodes=[_node(one, node, query, shown) for _, node in nodes],
        users=_users("users", one.usages.users, query),
        groups=_users("groups", one.usages.groups, query),
        outstanding=query.take("outstanding", requests, len(requests)),
    )


def _users(kind: str, ledgers: Ledgers, query: StateQuery) -> list[UserView]:
    """The use of all users, or of all groups."""
    found = []
    for name, by_path in sorted(query.take(kind, ledgers.items(), len(ledgers)), key=lambda item: item[0]):
        shown = query.take_named(f"usages of {kind}", by_path, "")
        found.append(
            UserView(
                user=name,
                usage={path: ledger.usage.nonzero() for path, ledger in shown},
                applications={
                    path: sorted(query.take(f"applications of {kind}", ledger.applications, len(ledger.applications)))
                    for path, ledger in shown
                },
                gang_promised={path: ledger.promised.nonzero() for path, ledger in shown if ledger.promised},
            )
        )
    return found


def _queue(queue: Queue, query: StateQuery) -> QueueView:
    return QueueView(
        path=queue.path,
        leaf=queue.is_leaf,
        managed=queue.managed,
        draining=queue.draining,
        stopped=queue.stopped,
        guaranteed=queue.guaranteed.nonzero(),
        max=dict(sorted(queue.max.items())),
        headroom=dict(sorted(rules.headroom(queue).items())),
        allocated=queue.allocated.nonzero(),
        pending=queue.pending.nonzero(),
        gang_quota_promised=queue.gang_quota_promised.nonzero(),
        quota_reserved=queue.quota_reserved.nonzero(),
        leaving=queue.leaving.nonzero(),
        running_applications=queue.running,
        max_applications=queue.max_applications,
        limits=[
            LimitView(one.users, one.groups, dict(sorted((one.max or {}).items())), one.max_applications)
            for one in queue.limits
        ],
        applications=sorted(query.take("applications of queues", queue.applications, len(queue.applications))),
        application_order=queue.properties.application_order.value,
        queue_order=queue.properties.queue_order.value,
        preemption_policy=queue.properties.preemption_policy.value,
        preemption_delay_ns=queue.properties.preemption_delay_ns,
        above_max_since_ns=query.time(queue.above_max_since_ns),
    )


def _application(
    partition: Partition, app: Application, explain: Explanation, query: StateQuery, shown: Shown
) -> ApplicationView:
    pending = (ask for group in app.groups.values() for ask in group)
    asks = query.take("asks", pending, sum(map(len, app.groups.values())))
    return ApplicationView(
        application_id=app.application_id,
        queue=app.queue.path,
        user=app.spec.user,
        groups=app.spec.groups,
        group=app.group,
        state=app.state.value,
        state_log=[(query.time(at_ns), state.value, cause) for at_ns, state, cause in app.state_log],
        submitted_at_ns=query.time(app.submitted_at_ns),
        asked_at_ns=query.time(app.age[0]),
        allocated=app.allocated.nonzero(),
        placeholder_allocated=app.placeholder_allocated.nonzero(),
        pending=app.pending.nonzero(),
        asks=[_ask(app, ask, explain, query) for ask in sorted(asks, key=lambda ask: ask.key)],
        allocations=_allocations("allocations of applications", app.allocations, query, shown),
        placeholder_ask=app.gang_total.nonzero(),
        gang_started=app.gang_alarm is not None,
        gang_deadline_ns=query.time(app.gang_alarm.deadline_ns if app.gang_alarm is not None else None),
        gang_style=app.spec.gang_style,
        execution_deadline_ns=query.time(app.run_alarm.deadline_ns if app.run_alarm is not None else None),
        awaiting_placeholder=app.awaiting_placeholder,
        lets_next_start=app.lets_next_start,
        blocked_since_ns=query.time(app.blocked_since_ns),
        waits_for_gang_of=_held_back_for(partition, app),
        gang_first_asked_ns=query.time(app.gang.first_asked_ns if app.gang is not None else None),
        gang_full_ns=query.time(app.gang.completed_ns if app.gang is not None else None),
        task_groups=_task_groups(app, query),
        gang_state=app.gang.state.value if app.gang is not None and app.gang.state is not None else "",
        members=members_of(app),
    )


def _rejected(app: RejectedApplication, query: StateQuery) -> ApplicationView:
    return ApplicationView(
        application_id=app.application_id,
        queue="",
        user=app.spec.user,
        groups=app.spec.groups,
        group="",
        state=app.state.value,
        state_log=[(query.time(app.submitted_at_ns), app.state.value, app.reason)],
        submitted_at_ns=query.time(app.submitted_at_ns),
        asked_at_ns=query.time(app.submitted_at_ns),
        allocated={},
        placeholder_allocated={},
        pending={},
        asks=[],
        allocations=[],
        placeholder_ask=app.spec.placeholder_ask.nonzero(),
        gang_started=False,
        gang_deadline_ns=None,
        gang_style=app.spec.gang_style,
        execution_deadline_ns=None,
        awaiting_placeholder=0,
        lets_next_start=False,
        blocked_since_ns=None,
        waits_for_gang_of="",
        gang_first_asked_ns=None,
        gang_full_ns=None,
        task_groups=[],
        gang_state="",
        members=[],
    )


def _task_groups(app: Application, query: StateQuery) -> list[TaskGroupView]:
    known = app.gang.task_groups if app.gang is not None else {}
    return [
        TaskGroupView(
            name=name,
            wanted=one.wanted,
            placed=one.placed,
            idle=one.idle,
            awaiting_placeholder=one.awaiting_placeholder,
            replaced=one.replaced,
            timed_out=one.timed_out,
            unused=one.unused,
            gave_back=one.gave_back,
            preempted=one.preempted,
        )
        for name, one in query.take_named("task groups", known, "")
    ]


def _held_back_for(partition: Partition, app: Application) -> str:
    ahead = gang_ahead(partition, app)
    waits = app.gang is not None and app.gang.pending
    return ahead.application_id if waits and ahead is not None else ""


def _ask(app: Application, ask: Ask, explain: Explanation, query: StateQuery) -> AskView:
    waiting_for = explain.waiting(app, ask)
    return AskView(
        application_id=app.application_id,
        allocation_key=ask.key,
        resources=ask.request_class.resources.nonzero(),
        pending=ask.pending,
        priority=ask.spec.priority,
        task_group=ask.spec.task_group,
        placeholder=ask.placeholder,
        required_node=ask.request_class.required_node,
        asked_at_ns=query.time(ask.asked_at_ns),
        waiting_for=waiting_for,
        no_preemption_because=explain.no_preemption(app, ask) if waiting_for else "",
        predicate_checks=[
            PredicateCheckView(one.node.node_id, one.purpose.name.lower(), one.call_id, query.time(one.asked_at_ns))
            for one in (ask.predicate_history.predicate_checks if ask.predicate_history is not None else ())
        ],
        slot=ask.spec.slot,
    )


def _allocations(
    kind: str, allocations: dict[str, Allocation], query: StateQuery, shown: Shown
) -> list[AllocationView]:
    if not allocations:
        return []
    taken = query.take(kind, allocations.values(), len(allocations))
    found = [shown.get(one) or shown.setdefault(one, _allocation(one)) for one in taken]
    return sorted(found, key=lambda view: (view.application_id, view.allocation_key, view.uuid))


def _allocation(one: Allocation) -> AllocationView:
    return AllocationView(
        application_id=one.application.application_id,
        allocation_key=one.key,
        uuid=one.uuid,
        node_id=one.node.node_id,
        resources=one.request_class.resources.nonzero(),
        priority=one.spec.priority,
        task_group=one.spec.task_group,
        placeholder=one.placeholder,
        used=one.used.nonzero() if one.used is not None else None,
        releasing=one.releasing.name if one.releasing is not None else "",
        slot=one.spec.slot,
    )


def _reservation(one: Reservation, query: StateQuery) -> ReservationView:
    return ReservationView(
        application_id=one.application.application_id,
        allocation_key=one.ask.key,
        node_id=one.node.node_id,
        resources=dict(one.items),
        entitled=one.is_entitled,
        since_ns=query.time(one.made_at_ns),
        waits_for=[victim.uuid for victim in one.victims],
    )


def unclaimed(partition: Partition, one: Unclaimed) -> UnclaimedView:
    """The view of an unclaimed allocation."""
    spec = one.spec
    return UnclaimedView(
        application_id=spec.application_id,
        allocation_key=spec.allocation_key,
        uuid=spec.uuid,
        node_id=one.node.node_id,
        resources=dict(one.items),
        priority=spec.priority,
        task_group=spec.task_group,
        placeholder=spec.placeholder and bool(spec.task_group),
        reason=one.mistake or unknown_application(partition, spec.application_id).reason,
    )


def _node(partition: Partition, node: Node, query: StateQuery, shown: Shown) -> NodeView:
    return NodeView(
        node_id=node.node_id,
        state=node.state.value,
        schedulable=not node.draining,
        ready=node.ready,
        attributes=dict(sorted(attributes_for_people(node.attributes).items())),
        capacity=node.capacity.nonzero(),
        occupied=node.occupied.nonzero(),
        allocated=node.allocated.nonzero(),
        available=node.available.nonzero(),
        reserved=node.reserved.nonzero(),
        entitled_reserved=node.entitled_reserved.nonzero(),
        used=node.used.nonzero() if node.used is not None else None,
        recommended=node.recommended.schedulable.nonzero() if node.recommended is not None else None,
        reservations=[
            _reservation(one, query) for one in query.take("reservations", node.reservations, len(node.reservations))
        ],
        allocations=_allocations("allocations of nodes", node.allocations, query, shown),
        unclaimed=[
            unclaimed(partition, one)
            for one in sorted(
                query.take("unclaimed allocations of nodes", node.unclaimed.values(), len(node.unclaimed)),
                key=lambda one: (one.application_id, one.key, one.uuid),
            )
        ],
    )
