"""Nodes: registered, changed, drained, removed (SI `NodeInfo.ActionFromRM`), with their existing allocations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from schedulerd.core.language import checks
from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.commands import NodeAction, NodeUpdate, TerminationType
from schedulerd.core.language.facts.fact import (
    NodeAccepted,
    NodeAspect,
    NodeChanged,
    NodeRejected,
    RejectCode,
)
from schedulerd.core.language.fsm import is_legal, move
from schedulerd.core.language.lifecycles import NODE, NodeState, NodeTrigger
from schedulerd.core.language.resources import Resources
from schedulerd.core.nodes.handlers import existing
from schedulerd.core.state.actions import gone, predicate_checks, reservations
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext

_CREATING = (NodeAction.CREATE, NodeAction.CREATE_DRAIN)
_REPORTING = (*_CREATING, NodeAction.UPDATE)
"""With these a node may bring allocations along."""


class _Before(NamedTuple):
    """The state of a node before a change."""

    state: NodeState | None
    capacity: Resources
    occupied: Resources
    ready: bool
    draining: bool

    @classmethod
    def of(cls, node: Node) -> _Before:
        return cls(node.state, node.capacity, node.occupied, node.ready, node.draining)


_NOT_THERE = _Before(None, Resources(), Resources(), ready=True, draining=False)


def check(context: StepContext, rm: ResourceManager, item: NodeUpdate) -> Change:
    """Carries the item out, or rejects it with the reason."""
    partition = rm.partition(item.partition)
    mistake = checks.identifier("nodeID", item.node_id)
    if mistake is None and partition is None:
        mistake = checks.unknown_partition(item.partition, rm.partitions)
    if mistake is not None or partition is None:
        return partial(reject, context, rm, item, mistake)
    mistake = _mistake(rm, partition, item)
    if mistake is not None:
        return partial(reject, context, rm, item, mistake)
    if item.action in _CREATING:
        return partial(_create, context, rm, partition, item)
    return partial(_CHANGES[item.action], context, partition, partition.nodes[item.node_id], item)


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
    elif item.action is NodeAction.DRAIN_TO_SCHEDULABLE and not is_legal(NODE, known.state, NodeTrigger.SCHEDULE):
        return Mistake(
            RejectCode.INVALID_STATE,
            f"nodeID {shown(item.node_id)} does not drain; DRAIN_TO_SCHEDULABLE is for a node that was drained before. "
            "The node stays as it is",
        )
    return (
        checks.tags("attributes", item.attributes)
        or checks.not_negative("schedulableResource", item.capacity or {})
        or checks.not_negative("occupiedResource", item.occupied or {})
        or (existing.mistake(rm, partition, item) if item.action in _REPORTING and item.existing else None)
    )


def _create(context: StepContext, rm: ResourceManager, partition: Partition, item: NodeUpdate) -> None:
    node = Node(item.node_id, partition.scoring)
    node.attributes = dict(item.attributes)
    _move(node, NodeTrigger.CREATE_DRAIN if item.action is NodeAction.CREATE_DRAIN else NodeTrigger.CREATE)
    node.offer(item.capacity or Resources(), item.occupied or Resources())
    partition.nodes[item.node_id] = node
    if partition.constraints.tracks_nodes:
        partition.constraints.enter(node)
    _changed(context, partition, node, _NOT_THERE, "registered")
    existing.take_over(context, partition, node, item.existing)
    _reopen_or_shut(context, partition, node)
    context.emit(NodeAccepted(rm.rm_id, partition.name, item.node_id))


def _change(context: StepContext, partition: Partition, node: Node, item: NodeUpdate) -> None:
    """UPDATE: new resources and attributes; what the message does not have stays unchanged."""
    before = _Before.of(node)
    node.offer(item.capacity, item.occupied)
    if item.attributes:
        attributes, node.attributes = node.attributes, dict(item.attributes)
        if partition.constraints.tracks_nodes:
            partition.constraints.regroup(node, attributes)
        node.state = move(NODE, node.state, _readiness(node))
    _reopen_or_shut(context, partition, node)
    _changed(context, partition, node, before, "updated")
    existing.take_over(context, partition, node, item.existing, is_update=True)


def _drain(context: StepContext, partition: Partition, node: Node, item: NodeUpdate) -> None:
    before = _Before.of(node)
    _move(node, NodeTrigger.DRAIN)
    _reopen_or_shut(context, partition, node)
    _changed(context, partition, node, before, "drained")


def _undrain(context: StepContext, partition: Partition, node: Node, item: NodeUpdate) -> None:
    before = _Before.of(node)
    _move(node, NodeTrigger.SCHEDULE)
    _reopen_or_shut(context, partition, node)
    _changed(context, partition, node, before, "schedulable again")


def _decommission(context: StepContext, partition: Partition, node: Node, item: NodeUpdate) -> None:
    """Removes the node and its allocations, whether or not the RM confirms anything."""
    message = f"node {node.node_id} was removed"
    predicate_checks.void_all(context, node.predicate_checks)
    reservations.end_all(context, partition, node)
    commit.close_node(partition, node)
    by_application: dict[Application, list[Allocation]] = {}
    for allocation in node.allocations.values():
        by_application.setdefault(allocation.application, []).append(allocation)
    for application, allocations in by_application.items():
        gone.finish(
            context,
            application,
            allocations,
            TerminationType.STOPPED_BY_RM,
            confirm=True,
            message=message,
            anew=True,
            node_removed=True,
        )
    gone.drop_node(context, partition, node, message)


_CHANGES: Mapping[NodeAction, Callable[[StepContext, Partition, Node, NodeUpdate], None]] = {
    NodeAction.UPDATE: _change,
    NodeAction.DRAIN_NODE: _drain,
    NodeAction.DRAIN_TO_SCHEDULABLE: _undrain,
    NodeAction.DECOMISSION: _decommission,
}


def _move(node: Node, trigger: NodeTrigger) -> None:
    """By what its RM did with it, and then by whether it is ready."""
    node.state = move(NODE, move(NODE, node.state, trigger), _readiness(node))


def _readiness(node: Node) -> NodeTrigger:
    return NodeTrigger.READY if node.ready else NodeTrigger.NOT_READY


def _reopen_or_shut(context: StepContext, partition: Partition, node: Node) -> None:
    partition.retry_timers.note_node_change(node, context.now_ns)
    if node.state is NodeState.SCHEDULABLE:
        commit.open_node(partition, node)
    else:
        commit.close_node(partition, node)


def _changed(context: StepContext, partition: Partition, node: Node, before: _Before, cause: str) -> None:
    changed = NodeAspect.NONE
    for aspect, differs in (
        (NodeAspect.CAPACITY, node.capacity != before.capacity),
        (NodeAspect.OCCUPIED, node.occupied != before.occupied),
        (NodeAspect.READY, node.ready != before.ready),
        (NodeAspect.SCHEDULABLE, node.draining != before.draining),
    ):
        if differs:
            changed |= aspect
    context.emit(
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


def reject(context: StepContext, rm: ResourceManager, item: NodeUpdate, mistake: Mistake | None) -> None:
    assert mistake is not None
    partition = rm.known_partition_name(item.partition)
    context.emit(NodeRejected(rm.rm_id, partition, item.node_id, mistake.code, mistake.reason))
