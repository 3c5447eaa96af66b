"""The state as plain values, for people and for tests: nothing here can change anything."""

from __future__ import annotations

from collections.abc import Callable

from schedulerd.core.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shape
from schedulerd.core.resources import Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import (
    AllocationView,
    ApplicationView,
    AskView,
    NodeView,
    PartitionView,
    QueueView,
    ResourceManagerView,
    UserView,
)

_RUNNING = frozenset({ApplicationState.STARTING, ApplicationState.RUNNING})


def resource_managers(scheduler: Scheduler) -> list[ResourceManagerView]:
    """Everything, by resource manager."""
    return [
        ResourceManagerView(
            rm_id=rm.rm_id,
            state=rm.state.value,
            version=rm.version,
            policy_group=rm.policy_group,
            partitions=[_partition(one, rm.state) for one in rm.partitions.values()],
        )
        for rm in sorted(scheduler.cluster.resource_managers.values(), key=lambda rm: rm.rm_id)
    ]


def partition(scheduler: Scheduler, rm_id: str, name: str) -> PartitionView:
    """One partition. Raises KeyError if the RM or the partition is unknown."""
    rm = scheduler.cluster.resource_managers[rm_id]
    return _partition(rm.partitions[name], rm.state)


def _partition(one: Partition, state: ResourceManagerState) -> PartitionView:
    explain = _Explanation(one, state)
    return PartitionView(
        rm_id=one.rm_id,
        name=one.name,
        node_order=one.spec.node_order.value,
        preemption_enabled=one.spec.preemption_enabled,
        total=one.total().nonzero(),
        queues=[_queue(queue) for queue in sorted(one.root.subtree(), key=lambda queue: queue.path)],
        applications=[_application(app, explain.why) for _, app in sorted(one.applications.items())],
        terminated=[_application(app, explain.why) for app in one.terminated.values()],
        nodes=[_node(node) for _, node in sorted(one.nodes.items())],
        users=[
            UserView(
                user=user,
                usage={path: ledger.usage.nonzero() for path, ledger in sorted(ledgers.items())},
                applications={path: sorted(ledger.applications) for path, ledger in sorted(ledgers.items())},
            )
            for user, ledgers in sorted(one.usages.users.items())
        ],
        groups=[
            UserView(
                user=group,
                usage={path: ledger.usage.nonzero() for path, ledger in sorted(ledgers.items())},
                applications={path: sorted(ledger.applications) for path, ledger in sorted(ledgers.items())},
            )
            for group, ledgers in sorted(one.usages.groups.items())
        ],
        outstanding=_outstanding(one),
    )


def _queue(queue: Queue) -> QueueView:
    return QueueView(
        path=queue.path,
        leaf=queue.is_leaf,
        managed=queue.managed,
        guaranteed=queue.guaranteed.nonzero(),
        max=dict(sorted(queue.max.items())),
        headroom=dict(sorted(queue.headroom().items())),
        allocated=queue.allocated.nonzero(),
        pending=queue.pending.nonzero(),
        running_applications=sum(app.state in _RUNNING for one in queue.subtree() for app in one.applications.values()),
        applications=sorted(queue.applications),
        application_order=queue.properties.application_order.value,
    )


def _application(app: Application, why: Callable[[Application, Ask], str]) -> ApplicationView:
    return ApplicationView(
        application_id=app.application_id,
        queue=app.queue.path if app.queue is not None else "",
        user=app.spec.user,
        groups=app.spec.groups,
        state=app.state.value,
        state_log=[(at_ns, state.value, cause) for at_ns, state, cause in app.state_log],
        submitted_at_ns=app.submitted_at_ns,
        allocated=app.allocated.nonzero(),
        placeholder_allocated=app.placeholder_allocated.nonzero(),
        pending=app.pending.nonzero(),
        asks=[_ask(app, ask, why(app, ask)) for _, ask in sorted(app.asks.items()) if ask.pending],
        allocations=_allocations(app.allocations),
    )


def _ask(app: Application, ask: Ask, waiting_for: str) -> AskView:
    return AskView(
        application_id=app.application_id,
        allocation_key=ask.key,
        resources=ask.shape.resources.nonzero(),
        pending=ask.pending,
        priority=ask.spec.priority,
        task_group=ask.spec.task_group,
        placeholder=ask.placeholder,
        asked_at_ns=ask.asked_at_ns,
        waiting_for=waiting_for,
    )


def _allocations(allocations: dict[str, Allocation]) -> list[AllocationView]:
    found = [
        AllocationView(
            application_id=one.application.application_id,
            allocation_key=one.key,
            uuid=one.uuid,
            node_id=one.node.node_id,
            resources=one.shape.resources.nonzero(),
            priority=one.spec.priority,
            task_group=one.spec.task_group,
            placeholder=one.placeholder,
            releasing=one.releasing.name if one.releasing is not None else "",
        )
        for one in allocations.values()
    ]
    return sorted(found, key=lambda view: (view.application_id, view.allocation_key, view.uuid))


def _node(node: Node) -> NodeView:
    return NodeView(
        node_id=node.node_id,
        state=node.state.value,
        schedulable=not node.draining,
        ready=node.ready,
        attributes=dict(sorted(node.attributes.items())),
        capacity=node.capacity.nonzero(),
        occupied=node.occupied.nonzero(),
        allocated=node.allocated.nonzero(),
        available=node.available.nonzero(),
        allocations=_allocations(node.allocations),
    )


class _Explanation:
    """Why asks wait, worked out once per shape."""

    def __init__(self, partition: Partition, state: ResourceManagerState) -> None:
        self._partition = partition
        running = state is ResourceManagerState.RUNNING
        self._paused = "" if running else f"the resource manager is {state}: nothing is placed for it"
        self._no_node: dict[Shape, str] = {}

    def why(self, app: Application, ask: Ask) -> str:
        if not ask.pending or app.queue is None:
            return ""
        if self._paused:
            return self._paused
        shape = app.groups[ask.shape].kind
        if not app.passes_on:
            return f"application is {app.state}: its asks are not placed in this state"
        for queue in app.queue.lineage:
            reason = queue.refusal(shape) if shape in queue.lines.closed else None
            if reason is not None:
                return reason
        if not shape.parked:
            return ""
        if shape not in self._no_node:
            self._no_node[shape] = self._count_refusals(shape)
        return self._no_node[shape]

    def _count_refusals(self, shape: Shape) -> str:
        refusals: dict[str, int] = {}
        for node in self._partition.nodes.values():
            if not node.ordered:
                reason = node.state.value.replace("_", " ")
            else:
                reason = f"not enough {node.available.lacks(shape.items)}"
            refusals[reason] = refusals.get(reason, 0) + 1
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(refusals.items()))
        return f"no node has room: {len(self._partition.nodes)} considered" + (f": {counted}" if counted else "")


def _outstanding(one: Partition) -> list[tuple[str, str, int]]:
    """Pending allocations that every quota has room for but no node, in scheduling order of each application.

    Quota is handed out as if they were placed one after the other, so that what is reported would really run.
    """
    used: dict[Queue, Resources] = {}
    found: list[tuple[str, str, int]] = []
    for app in one.applications.values():
        if app.queue is None:
            continue
        asks = sorted((ask for ask in app.asks.values() if ask.pending), key=lambda a: (-a.spec.priority, a.serial))
        for ask in asks:
            if not app.groups[ask.shape].kind.parked or not app.passes_on:
                continue
            count = ask.pending
            for queue in app.queue.lineage:
                ledger = used.setdefault(queue, Resources(queue.allocated))
                for name, amount in ask.shape.items:
                    if name in queue.max:
                        count = min(count, max(0, queue.max[name] - ledger[name]) // amount)
            if count:
                for queue in app.queue.lineage:
                    used[queue].add(ask.shape.items, count)
                found.append((app.application_id, ask.key, count))
    return sorted(found)
