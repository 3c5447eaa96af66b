"""What is tried again at the end of a step, after nodes, quotas or gangs changed.

Nothing polls: changes are noted as they happen, and handled once here, however often something changed in the step.
"""

from __future__ import annotations

from itertools import islice

from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import ApplicationOrder
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.nodes.own_room import gang_fits
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import note_possible_swap, reclassify, set_priority_gang, try_growth_again
from schedulerd.core.state.pending.parent_entity import BlockReason
from schedulerd.core.state.pending.request_class import PendingClass, RequestClass
from schedulerd.core.state.pending.start_order import admit_next
from schedulerd.core.state.quotas.rules import blocked

LOOKED_AT_MAX = 64
"""Most nodes for which, after one step, further refused asks are called back."""


def end_of_step(partition: Partition) -> None:
    """Does what is done once at the end of a step, however often things changed in it.

    Touched queues get their positions, and in state-aware leaves the next application may start. Classes that a quota,
    a limit or missing room blocked are unblocked where there may be room now.
    """
    if partition.growth_held and (partition.gangs_changed or partition.moves != partition.growth_tried_at):
        try_growth_again(partition)
    if partition.gangs_changed:
        partition.gangs_changed = False
        _recheck_gangs(partition)
    timers = partition.retry_timers
    if timers.changed:
        timers.retry_on_changed_nodes()
    for queue in partition.touched:
        if queue.properties.application_order is ApplicationOrder.STATE_AWARE:
            admit_next(partition, queue)
        queue.rekey()
    partition.touched.clear()
    if partition.capacity.is_due:
        partition.capacity_renewal.advance(partition.root)
    for queue in partition.freed_queues:
        for pending_class in unblock_where_quota_allows(queue):
            timers.make_due_now(pending_class)
    partition.freed_queues.clear()
    _after_step(partition)
    if timers.waiting_for_change and partition.moves != timers.unchanged_since_moves:
        timers.retry_waiting()
    timers.unchanged_since_moves = partition.moves
    if partition.constraints.rules:
        partition.constraints.forget_idle()


def _recheck_gangs(partition: Partition) -> None:
    """After a change of nodes or gangs: the next cycle checks the reservations of gangs, and a priority gang that can
    no longer fit loses its priority."""
    for reservation in partition.reservations:
        gang = reservation.application.gang
        if gang is not None and gang.pending:
            partition.reservations_to_check[reservation.node] = None
    if partition.priority_gang is not None and not gang_fits(partition, partition.priority_gang):
        set_priority_gang(partition, None)


def unblock_where_quota_allows(queue: Queue) -> list[PendingClass]:
    """Unblocks the classes that a quota or limit of this queue blocked and now lets in; returns them."""
    allowed = [
        pending_class
        for pending_class, block in queue.pending_index.blocked_by.items()
        if block.origin is queue
        and block.reason is BlockReason.QUOTA
        and blocked(queue, pending_class.items, pending_class.quota_key) is None
    ]
    for pending_class in allowed:
        queue.unblock(pending_class)
    return allowed


def _after_step(partition: Partition) -> None:
    """Tries again what may have a node now."""
    if partition.constraints.changed:
        _retry_affinities(partition)
    if partition.freed_nodes:
        _retry_unschedulable(partition)
        if partition.refused_asks:
            for node in partition.freed_nodes:
                _call_back(partition, node)
        partition.freed_nodes.clear()
        try_denied_again(partition)
    if partition.refused_asks.nodes_to_retry:
        _call_back_more(partition)


def _retry_unschedulable(partition: Partition) -> None:
    """Unblocks unschedulable classes that fit into the largest amounts free on any of the freed nodes, or on their
    required node; with a constraint, if one of these nodes takes them."""
    most = Resources()
    for node in partition.freed_nodes:
        if node.ordered:
            for name, amount in node.free.items():
                most[name] = max(most[name], amount)
    unschedulable = partition.request_classes.unschedulable()
    for pending_class in [one for one in unschedulable if _may_fit(partition, one.request_class, most)]:
        _mark_schedulable(partition, pending_class)


def _may_fit(partition: Partition, request_class: RequestClass, most: Resources) -> bool:
    """Whether the class may fit on one of the freed nodes; `most` has the largest amounts free on any of them."""
    if request_class.refused:
        return False
    if request_class.required_node:
        return partition.first_fit(request_class) is not None
    if most.lacks(request_class.items) is not None:
        return False
    return request_class.constraint is None or partition.constraints.fits_any(request_class, partition.freed_nodes)


def _call_back(partition: Partition, node: Node) -> None:
    """Calls back as many refused asks as fit on the node."""
    refused_asks = partition.refused_asks
    refused_asks.nodes_to_retry.pop(node, None)
    for request_class in refused_asks.request_classes():
        if partition.refusal(request_class, node) is None:
            count = max(1, min(node.free[name] // amount for name, amount in request_class.items))
            called = refused_asks.first(request_class, node, count)
            for application, ask in called:
                reclassify(partition, application, ask, refused=False)
            if len(called) == count and partition.nodes.get(node.node_id) is node:
                refused_asks.nodes_to_retry[node] = None


def _call_back_more(partition: Partition) -> None:
    """Calls back further refused asks when nothing else can be tried: those called back before may not have taken the
    room."""
    for node in list(islice(partition.refused_asks.nodes_to_retry, LOOKED_AT_MAX)):
        if partition.root.pending_index.first() is not None:
            break
        _call_back(partition, node)


def _retry_affinities(partition: Partition) -> None:
    """Tries asks again after allocations came or went that their affinity counts: their groups of nodes may admit them
    now, or no longer."""
    affinity_of, changed = partition.constraints.affinity, partition.constraints.take_changed()
    if partition.callbacks.predicates:
        # Also for asks that are not set aside yet: a check or the next attempt may set them aside because of nodes that
        # did not admit them before.
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
            partition.reservations_to_check[reservation.node] = None
    try_denied_again(partition)


def _mark_schedulable(partition: Partition, pending_class: PendingClass) -> None:
    partition.request_classes.mark_schedulable(pending_class)
    block = partition.root.pending_index.blocked_by.get(pending_class)
    if block is not None and block.reason is BlockReason.NODE:
        partition.root.unblock(pending_class)


def try_denied_again(partition: Partition) -> None:
    """Tries denied groups again: a node changed, or a placeholder for which another ask was tried is available
    again."""
    denied, partition.denied = partition.denied, {}
    for group, application in denied.items():
        group.denied = False
        if application.gang is not None:
            application.gang.requeue(group)
        note_possible_swap(partition, application)
