"""Who is tried again at the end of a step: asks that had no node, after nodes changed or others came and went.

Nothing polls. What changed is noted as it happens, and looked at once here, however often it changed in the step.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from schedulerd.core.model.parent_entity import BlockReason
from schedulerd.core.model.request_class import PendingClass, RequestClass
from schedulerd.core.resources import Resources

if TYPE_CHECKING:
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.partition import Partition

LOOKED_AT_MAX = 64
"""How many nodes are looked at again after a step because those who were called back did not take their room."""


def after_step(partition: Partition) -> None:
    """Lets those be tried again who may have a node now."""
    if partition.constraints.changed:
        _wake_regrouped(partition)
    if partition.freed_nodes:
        _wake(partition)
        if partition.refused_asks:
            for node in partition.freed_nodes:
                _call_back(partition, node)
        partition.freed_nodes.clear()
        try_denied_again(partition)
    if partition.refused_asks.nodes_to_retry:
        _call_back_more(partition)


def _wake(partition: Partition) -> None:
    """Lets request classes be tried again that a node made of the best of all freed nodes would fit, or the one
    required."""
    most = Resources()
    for node in partition.freed_nodes:
        if node.ordered:
            for name, amount in node.free.items():
                most[name] = max(most[name], amount)
    unschedulable = partition.request_classes.unschedulable()
    for pending_class in [one for one in unschedulable if _may_fit(partition, one.request_class, most)]:
        _mark_schedulable(partition, pending_class)


def _may_fit(partition: Partition, request_class: RequestClass, most: Resources) -> bool:
    """Whether a node that was freed may be one for the request class; none of them has more than `most`."""
    if request_class.refused:
        return False
    if request_class.required_node:
        return partition.first_fit(request_class) is not None
    if most.lacks(request_class.items) is not None:
        return False
    return request_class.constraint is None or partition.constraints.fits_any(request_class, partition.freed_nodes)


def _call_back(partition: Partition, node: Node) -> None:
    """Lets as many of those that were turned down be tried again as fit on the node."""
    refused_asks = partition.refused_asks
    refused_asks.nodes_to_retry.pop(node, None)
    for request_class in refused_asks.request_classes():
        if partition.refusal(request_class, node) is None:
            count = max(1, min(node.free[name] // amount for name, amount in request_class.items))
            called = refused_asks.first(request_class, node, count)
            for application, ask in called:
                application.reclassify(ask, down=False)
            if len(called) == count and partition.nodes.get(node.node_id) is node:
                refused_asks.nodes_to_retry[node] = None


def _call_back_more(partition: Partition) -> None:
    """Those who were called back may be wanted no longer, or have to wait for something else: when nobody is left to be
    tried, the room is for the next ones."""
    for node in list(islice(partition.refused_asks.nodes_to_retry, LOOKED_AT_MAX)):
        if partition.root.pending_index.first() is not None:
            break
        _call_back(partition, node)


def _wake_regrouped(partition: Partition) -> None:
    """More or fewer than before are together somewhere: asks that may, or may not any longer, be there for that are
    looked at again."""
    affinity_of, changed = partition.constraints.affinity, partition.constraints.take_changed()
    if partition.callbacks.predicates:
        # Not only for those that rest: who is on predicate check, or in line, may rest next, for nodes that were closed
        # before.
        for affinity in changed:
            for node in partition.constraints.nodes_in(affinity, changed):
                partition.note_change(node)
                partition.freed_nodes[node] = None
    unschedulable = partition.request_classes.unschedulable()
    for pending_class in [one for one in unschedulable if changed.get(affinity_of(one.request_class))]:
        if partition.first_fit(pending_class.request_class) is not None:
            _mark_schedulable(partition, pending_class)
        else:
            partition.retry_timers.retry_class(pending_class)
    for reservation in partition.reservations:
        if affinity_of(reservation.ask.request_class) in changed:
            partition.ready[reservation.node] = None
    try_denied_again(partition)


def _mark_schedulable(partition: Partition, pending_class: PendingClass) -> None:
    partition.request_classes.mark_schedulable(pending_class)
    block = partition.root.pending_index.blocked_by.get(pending_class)
    if block is not None and block.reason is BlockReason.NODE:
        partition.root.unblock(pending_class)


def try_denied_again(partition: Partition) -> None:
    """Somebody may take them now: a node changed, or a placeholder is not tried for somebody else any longer."""
    denied, partition.denied = partition.denied, {}
    for group, application in denied.items():
        group.denied = False
        if application.gang is not None:
            application.gang.line_up(group)
        application.note_possible_swap()
