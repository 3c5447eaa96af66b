"""The part of `commit` that changes an allocation which stays: its amounts, or the node that it is on.

All ledgers change together here as well, quota and room or not: the resource manager says what is so already.
"""

from __future__ import annotations

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.ledger import commit, commit_room
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import note_possible_swap, update_pending_classes


def resize(partition: Partition, allocation: Allocation, resources: Resources) -> None:
    """The allocation, and its ask, are of these amounts from now on."""
    application, node, old = allocation.application, allocation.node, allocation.request_class
    gang = application.gang
    task_group = gang.task_group(allocation.spec.task_group) if gang is not None and allocation.placeholder else None
    is_idle = task_group is not None and task_group.is_idle(allocation)
    if task_group is not None and is_idle:
        task_group.drop_idle(allocation)
    commit.note_peak(application, old.items)
    _count(partition, allocation, -1)
    allocation.resize(partition.request_classes.of_other_size(old, resources))
    _count(partition, allocation, 1)
    if gang is not None and task_group is not None and is_idle:
        gang.add_idle(task_group, allocation)
        note_possible_swap(partition, application)
    partition.note_free_quota(application.queue)  # of some resource it may have less
    if allocation.makes_room is not None:
        partition.reservations_to_check[allocation.makes_room.node] = None
    _moved(partition, node)
    if gang is not None:
        partition.gangs_touched[application] = None
        if allocation.spec.task_group and gang.pending and application.gang_alarm is None:
            update_pending_classes(partition, application)
        elif application.gang_alarm is not None:
            commit.keep_promise(application)
    commit.rekey(application)


def move(partition: Partition, allocation: Allocation, node: Node, uuid: str) -> None:
    """The allocation is on this node, and has this UUID, from now on. No predicate check may be open for its room."""
    application, ask, old = allocation.application, allocation.ask, allocation.node
    for of in (application.allocations, partition.allocations, ask.allocations, old.allocations):
        del of[allocation.uuid]
    _count(partition, allocation, -1)
    if partition.constraints.rules:
        partition.constraints.freed(allocation)
    if allocation.makes_room is not None and node is not old:
        commit_room.drop_victim(partition, allocation)
    allocation.move(node, uuid)
    for of in (application.allocations, partition.allocations, ask.allocations, node.allocations):
        of[uuid] = allocation
    _count(partition, allocation, 1)
    if partition.constraints.rules:
        partition.constraints.placed(allocation)
    for one in (old, node):
        _moved(partition, one)
    commit.rekey(application)


def _count(partition: Partition, allocation: Allocation, times: int) -> None:
    """Books the allocation wherever amounts are counted."""
    application, node, items = allocation.application, allocation.node, allocation.request_class.items
    commit_room.count_leaving(allocation, times)
    if application.footprint is not None:
        if times > 0:
            application.footprint.add(node, items)
        else:
            application.footprint.remove(node, items)
        if partition.retry_timers.not_helped_by_reservation:
            partition.retry_timers.retry_application(application)
    for allocated in commit.ledgers(allocation):
        allocated.add(items, times)
    node.available.subtract(items, times)


def _moved(partition: Partition, node: Node) -> None:
    """What the node has free changed, perhaps to more than before."""
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
    if partition.constraints.rules:
        partition.constraints.moved(node)
    partition.note_free_node(node)
