"""Nodes: registered, changed, drained, removed (SI `NodeInfo.ActionFromRM`), and the allocations they come with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from schedulerd.core import checks, commit
from schedulerd.core.checks import Mistake, shown
from schedulerd.core.commands import ExistingAllocation, NewAsk, NodeAction, NodeUpdate, TerminationType
from schedulerd.core.facts import (
    Allocated,
    ItemIgnored,
    NodeAccepted,
    NodeAspect,
    NodeChanged,
    NodeRejected,
    RejectCode,
    WithdrawCause,
)
from schedulerd.core.handlers import (
    application_states,
    departures,
    early,
    hearsay,
    quota_preemption,
    releases,
    reservations,
    trials,
    waiting,
)
from schedulerd.core.lifecycles import NodeState
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.resources import Resources
from schedulerd.core.turn import Turn

_CREATING = (NodeAction.CREATE, NodeAction.CREATE_DRAIN)


class _Before(NamedTuple):
    """What a node was like before it changed."""

    state: NodeState | None
    capacity: Resources
    occupied: Resources
    ready: bool
    draining: bool

    @classmethod
    def of(cls, node: Node) -> _Before:
        return cls(node.state, node.capacity, node.occupied, node.ready, node.draining)


_NOT_THERE = _Before(None, Resources(), Resources(), ready=True, draining=False)


def update(turn: Turn, rm: ResourceManager, item: NodeUpdate, *, may_wait: bool = True) -> None:
    """Does what the item says, lets it wait for an application it refers to, or rejects it with the reason."""
    partition = rm.partition(item.partition)
    mistake = checks.identifier("nodeID", item.node_id)
    if mistake is None and partition is None:
        mistake = checks.unknown_partition(item.partition, rm.partitions)
    if mistake is not None or partition is None:
        _reject(turn, rm, item, mistake)
        return
    waits_for = _early_application(rm, partition, item) if may_wait else None
    if waits_for is not None and early.hold(turn, rm, item, partition, waits_for):
        return
    mistake = _mistake(rm, partition, item)
    if mistake is not None:
        _reject(turn, rm, item, mistake)
        return
    if item.action in _CREATING:
        _create(turn, rm, partition, item)
        return
    node = partition.nodes[item.node_id]
    _CHANGES[item.action](turn, partition, node, item)


def _early_application(rm: ResourceManager, partition: Partition, item: NodeUpdate) -> str | None:
    """The application this item has to wait for: one of its own allocations, or one the node waits for already."""
    held = rm.early.of_node(partition.name, item.node_id)
    if held is not None:
        return held.application_id
    if item.action in _CREATING:
        for existing in item.existing:
            if existing.application_id and existing.application_id not in partition.applications:
                return existing.application_id
    return None


def _mistake(rm: ResourceManager, partition: Partition, item: NodeUpdate) -> Mistake | None:
    if item.action is NodeAction.UNKNOWN:
        return Mistake(
            RejectCode.UNKNOWN_ACTION,
            f"action is {item.action_number or 'UNKNOWN_ACTION_FROM_RM'}; it must be CREATE, UPDATE, DRAIN_NODE, "
            "DECOMISSION or DRAIN_TO_SCHEDULABLE",
        )
    known = partition.nodes.get(item.node_id)
    if item.action in _CREATING:
        if known is not None:
            return Mistake(
                RejectCode.DUPLICATE_ID,
                f"nodeID {shown(item.node_id)} is registered already; use UPDATE to change it, or DECOMISSION it first",
            )
    elif known is None:
        others = [one.name for one in rm.partitions.values() if item.node_id in one.nodes]
        where = f" in partition {partition.name!r}, but in {others[0]!r}" if others else ""
        return Mistake(
            RejectCode.UNKNOWN_NODE,
            f"nodeID {shown(item.node_id)} is not registered{where}; {item.action.name} needs a node that was created "
            f"before{', and its si/node-partition' if others else ''}",
        )
    return (
        checks.tags("attributes", item.attributes)
        or checks.not_negative("schedulableResource", item.capacity or {})
        or checks.not_negative("occupiedResource", item.occupied or {})
    )


def _create(turn: Turn, rm: ResourceManager, partition: Partition, item: NodeUpdate) -> None:
    node = Node(item.node_id, partition.scoring)
    node.attributes = dict(item.attributes)
    node.draining = item.action is NodeAction.CREATE_DRAIN
    node.offer(item.capacity or Resources(), item.occupied or Resources())
    partition.nodes[item.node_id] = node
    _changed(turn, partition, node, _NOT_THERE, "registered")
    owed: list[Ask] = []
    mistake = _recover(turn, rm, partition, node, item, owed)
    if mistake is not None:
        applications = {allocation.ask: allocation.application for allocation in node.allocations.values()}
        for allocation in node.allocations.values():
            commit.forget_taken_over(allocation)
        for ask in owed:
            commit.demand(applications[ask], ask, 1)
            turn.say(departures.asked_again(applications[ask], ask, was_parked=False))
        _remove(turn, partition, node, "registration rolled back", tell=False)
        _reject(turn, rm, item, mistake)
        return
    _reopen_or_shut(turn, partition, node)
    turn.say(NodeAccepted(rm.rm_id, partition.name, item.node_id))


def _change(turn: Turn, partition: Partition, node: Node, item: NodeUpdate) -> None:
    """UPDATE: new resources and attributes; what the message does not carry stays as it is."""
    before = _Before.of(node)
    node.offer(item.capacity, item.occupied)
    if item.attributes:
        node.attributes = dict(item.attributes)
    _reopen_or_shut(turn, partition, node)
    _changed(turn, partition, node, before, "updated")


def _drain(turn: Turn, partition: Partition, node: Node, item: NodeUpdate) -> None:
    before = _Before.of(node)
    node.draining = True
    _reopen_or_shut(turn, partition, node)
    _changed(turn, partition, node, before, "drained")


def _undrain(turn: Turn, partition: Partition, node: Node, item: NodeUpdate) -> None:
    if not node.draining:
        # SI wants an error; to call a working node "rejected" would make its RM drop it, so it is logged and counted.
        reason = f"nodeID {shown(node.node_id)} is not draining; DRAIN_TO_SCHEDULABLE is for a node drained before"
        turn.say(ItemIgnored(partition.rm_id, partition.name, node.node_id, RejectCode.INVALID_STATE, reason))
        return
    before = _Before.of(node)
    node.draining = False
    _reopen_or_shut(turn, partition, node)
    _changed(turn, partition, node, before, "schedulable again")


def _decommission(turn: Turn, partition: Partition, node: Node, item: NodeUpdate) -> None:
    _remove(turn, partition, node, f"node {node.node_id} was removed", tell=True)


_CHANGES: Mapping[NodeAction, Callable[[Turn, Partition, Node, NodeUpdate], None]] = {
    NodeAction.UPDATE: _change,
    NodeAction.DRAIN_NODE: _drain,
    NodeAction.DRAIN_TO_SCHEDULABLE: _undrain,
    NodeAction.DECOMISSION: _decommission,
}


def _remove(turn: Turn, partition: Partition, node: Node, message: str, *, tell: bool) -> None:
    """Takes the node away; what ran there is gone, whether or not the RM confirms anything."""
    trials.void_all(turn, node.trials)
    waiting.forget_node(turn, partition, node)
    commit.shut_node(partition, node)
    old = node.state
    by_application: dict[Application, list[Allocation]] = {}
    for allocation in node.allocations.values():
        by_application.setdefault(allocation.application, []).append(allocation)
    for application, allocations in by_application.items():
        releases.finish(
            turn,
            application,
            allocations,
            TerminationType.STOPPED_BY_RM,
            confirm=tell,
            message=message,
            anew=True,
            node_removed=True,
        )
    drop(turn, partition, node, old, message)


def drop(turn: Turn, partition: Partition, node: Node, old: NodeState, message: str) -> None:
    """Forgets a node on which nothing runs any more, and nothing is kept."""
    del partition.nodes[node.node_id]
    partition.turned_down.wanted.pop(node, None)
    commit.report_use(partition, node, None)
    partition.constraints.forget(node)
    partition.capacity_changed()
    turn.say(
        NodeChanged(
            rm_id=partition.rm_id,
            partition=partition.name,
            node_id=node.node_id,
            old_state=old,
            state=NodeState.REMOVED,
            capacity=Resources(),
            occupied=Resources(),
            cause=message,
        )
    )


def _recover(
    turn: Turn, rm: ResourceManager, partition: Partition, node: Node, item: NodeUpdate, owed: list[Ask]
) -> Mistake | None:
    """Takes over the allocations the node comes with; stops at the first that cannot be right.

    `owed` gets the asks of which one was pending that is taken for an allocation here.
    """
    for at, existing in enumerate(item.existing):
        field = f"existingAllocations[{at}]"
        mistake = (
            checks.identifier(f"{field}.allocationKey", existing.allocation_key)
            or checks.identifier(f"{field}.UUID", existing.uuid)
            or checks.identifier(f"{field}.applicationID", existing.application_id)
            or checks.request(f"{field}.resourcePerAlloc", existing.resources)
            or checks.tags(f"{field}.allocationTags", existing.tags)
            or checks.text(f"{field}.taskGroupName", existing.task_group)
        )
        if mistake is not None:
            return mistake
        application = partition.applications.get(existing.application_id)
        if application is None:
            return early.unknown_application(existing.application_id)
        mistake = _contradiction(rm, partition, node, field, existing)
        if mistake is not None:
            return mistake
        _take_over(turn, application, node, existing, owed)
        hearsay.tell(turn, application, field, existing)
    return None


def _contradiction(
    rm: ResourceManager, partition: Partition, node: Node, field: str, existing: ExistingAllocation
) -> Mistake | None:
    """An existing allocation must belong to the node it comes with, and must not exist yet."""
    if existing.node_id not in ("", node.node_id):
        return Mistake(
            RejectCode.INVALID_FIELD,
            f"{field}.nodeID is {shown(existing.node_id)}; it must be empty or the node's own id {node.node_id!r}",
        )
    if existing.partition and rm.partition(existing.partition) is not partition:
        return Mistake(
            RejectCode.INVALID_FIELD,
            f"{field}.partitionName is {shown(existing.partition)}; it must be empty or the node's own partition "
            f"{partition.name!r}",
        )
    known = partition.allocations.get(existing.uuid)
    if known is not None:
        return Mistake(
            RejectCode.DUPLICATE_ID,
            f"{field}.UUID {shown(existing.uuid)} is an allocation already, of application "
            f"{known.application.application_id} on node {known.node.node_id}",
        )
    return None


def _take_over(turn: Turn, application: Application, node: Node, existing: ExistingAllocation, owed: list[Ask]) -> None:
    """Books an existing allocation; the ask it once had is made up from it (gang design, Application recovery)."""
    partition = application.partition
    spec = NewAsk(
        application_id=existing.application_id,
        allocation_key=existing.allocation_key,
        resources=existing.resources,
        partition=existing.partition,
        priority=existing.priority,
        tags=existing.tags,
        task_group=existing.task_group,
        placeholder=existing.placeholder,
    )
    shape = partition.shape_of(spec)
    ask = application.asks.get(existing.allocation_key)
    if ask is None:
        ask = application.asks[existing.allocation_key] = Ask(spec, shape, partition.next_serial(), turn.now_ns)
    if ask.placed + ask.pending + ask.parked >= ask.spec.max_allocations:
        if not ask.pending and ask.swaps:
            departures.unpark(turn, next(iter(ask.swaps)))
        if ask.pending:
            owed.append(ask)
            departures.withdraw_ask(
                turn, application, ask, WithdrawCause.RECOVERED, None, "it exists on a node already", count=1
            )
        else:  # so many are wanted: a placeholder among them that has to go is asked for again
            ask.spec = replace(ask.spec, max_allocations=ask.placed + 1)
    application_states.on_ask(turn, application, placeholder=existing.placeholder and bool(existing.task_group))
    allocation = commit.take_over(application, Allocation(existing.uuid, application, ask, node, spec, shape))
    assert application.queue is not None
    for queue in application.queue.lineage:
        quota_preemption.watch(turn, partition, queue)
    application_states.on_placed(turn, application, allocation)
    turn.say(
        Allocated(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=application.queue.path,
            application_id=existing.application_id,
            allocation_key=existing.allocation_key,
            uuid=existing.uuid,
            node_id=node.node_id,
            resources=allocation.shape.resources,
            priority=existing.priority,
            tags=existing.tags,
            task_group=existing.task_group,
            placeholder=allocation.placeholder,
            recovered=True,
            asked_at_ns=turn.now_ns,
        )
    )
    application_states.on_taken_over(turn, allocation)


def _reopen_or_shut(turn: Turn, partition: Partition, node: Node) -> None:
    reservations.look_again(turn, partition, node, turn.now_ns)
    if node.state is NodeState.SCHEDULABLE:
        commit.open_node(partition, node)
    else:
        commit.shut_node(partition, node)


def _changed(turn: Turn, partition: Partition, node: Node, before: _Before, cause: str) -> None:
    changed = NodeAspect.NONE
    for aspect, differs in (
        (NodeAspect.CAPACITY, node.capacity != before.capacity),
        (NodeAspect.OCCUPIED, node.occupied != before.occupied),
        (NodeAspect.READY, node.ready != before.ready),
        (NodeAspect.SCHEDULABLE, node.draining != before.draining),
    ):
        if differs:
            changed |= aspect
    turn.say(
        NodeChanged(
            rm_id=partition.rm_id,
            partition=partition.name,
            node_id=node.node_id,
            old_state=before.state,
            state=node.state,
            capacity=node.capacity,
            occupied=node.occupied,
            cause=cause,
            changed=changed,
            ready=node.ready,
        )
    )


def _reject(turn: Turn, rm: ResourceManager, item: NodeUpdate, mistake: Mistake | None) -> None:
    assert mistake is not None
    partition = rm.known_partition_name(item.partition)
    turn.say(NodeRejected(rm.rm_id, partition, item.node_id, mistake.code, mistake.reason))
