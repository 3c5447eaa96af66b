"""The only place where a decision becomes a mutation of the ledgers.

Node, application, queues and user change together or not at all, so that they cannot drift apart: what is allocated is
the sum of the allocations at each of them, and what is pending the sum of the open asks, after every single call.
"""

from __future__ import annotations

from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition


def demand(application: Application, ask: Ask, count: int) -> None:
    """`count` more allocations of the ask are pending."""
    if not count:
        return
    partition, queue = application.partition, application.queue
    assert queue is not None
    items = ask.shape.items
    for name, amount in items:
        amount *= count
        application.pending[name] += amount
        for one in queue.lineage:
            one.pending[name] += amount
    if not ask.pending:
        application.wait_for(ask)
    ask.pending += count
    if queue not in partition.touched:
        partition.touch(queue)


def withdraw(application: Application, ask: Ask, count: int | None = None) -> int:
    """Up to `count` pending allocations of the ask (None: all) are pending no longer. Returns how many that were."""
    count = ask.pending if count is None else min(count, ask.pending)
    if not count:
        return 0
    partition, queue = application.partition, application.queue
    assert queue is not None
    application.pending.subtract(ask.shape.items, count)
    for one in queue.lineage:
        one.pending.subtract(ask.shape.items, count)
    ask.pending -= count
    if not ask.pending:
        application.stop_waiting_for(ask)
    if queue not in partition.touched:
        partition.touch(queue)
    return count


def place(application: Application, ask: Ask, node: Node, uuid: str) -> Allocation:
    """One pending allocation of the ask becomes real on the node."""
    queue = application.queue
    assert queue is not None
    items = ask.shape.items
    lineage = queue.lineage
    application.pending.subtract(items)
    for one in lineage:
        one.pending.subtract(items)
    ask.pending -= 1
    allocation = Allocation(uuid, application, ask, node, ask.spec, ask.shape)
    _bind(allocation)
    if not ask.pending:
        application.stop_waiting_for(ask)
    application.usage_changed()
    for one in lineage:
        one.rekey()
    return allocation


def take_over(application: Application, allocation: Allocation) -> Allocation:
    """An allocation that exists already is booked as it is, quota or no quota, room or no room (SEMANTICS D)."""
    _bind(allocation)
    _rekey(application)
    return allocation


def free(allocation: Allocation) -> None:
    """The allocation is gone: what it used is free, and whoever waited for that may be tried again."""
    application, ask, node = allocation.application, allocation.ask, allocation.node
    partition, queue = application.partition, application.queue
    assert queue is not None
    items = allocation.shape.items
    del application.allocations[allocation.uuid]
    del partition.allocations[allocation.uuid]
    del ask.allocations[allocation.uuid]
    if allocation.placeholder:
        application.placeholders -= 1
        application.placeholder_allocated.subtract(items)
    else:
        application.allocated.subtract(items)
    for ledger in application.usage_ledgers:
        ledger.usage.subtract(items)
    for one in queue.lineage:
        one.allocated.subtract(items)
    del node.allocations[allocation.uuid]
    node.allocated.subtract(items)
    node.available.add(items)
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
        partition.note_free_node(node)
    partition.note_free_quota(queue)
    _rekey(application)
    forget_if_done(application, ask)


def forget_if_done(application: Application, ask: Ask) -> None:
    """An ask with nothing pending and nothing alive is not known any longer."""
    if not ask.pending and not ask.allocations:
        application.asks.pop(ask.key, None)


def retire(application: Application) -> None:
    """The application runs no longer as far as its user is concerned, unless placeholders of it are still there."""
    queue = application.queue
    assert queue is not None
    if application.allocations:
        return
    if not application.usage_ledgers:
        return
    for ledger in application.usage_ledgers:
        ledger.applications.pop(application.application_id, None)
    application.usage_ledgers = []
    paths = [one.path for one in queue.lineage]
    usages = application.partition.usages
    usages.users.drop_idle(application.spec.user, paths)
    usages.groups.drop_idle(application.group, paths)
    for one in queue.lineage:
        one.running -= 1
    application.partition.note_free_quota(queue)


def open_node(partition: Partition, node: Node) -> None:
    """The node may get new allocations, or has more room than before."""
    if node.ordered:
        partition.node_order.moved(node)
    else:
        node.ordered = True
        partition.node_order.add(node)
    partition.note_free_node(node)


def shut_node(partition: Partition, node: Node) -> None:
    """The node gets no new allocations."""
    if node.ordered:
        node.ordered = False
        partition.node_order.remove(node)


def _bind(allocation: Allocation) -> None:
    application, ask, node, uuid = allocation.application, allocation.ask, allocation.node, allocation.uuid
    queue = application.queue
    assert queue is not None
    items = allocation.shape.items
    ask.placed += 1
    ask.allocations[uuid] = allocation
    application.allocations[uuid] = allocation
    application.partition.allocations[uuid] = allocation
    if allocation.placeholder:
        application.placeholders += 1
        used = application.placeholder_allocated
    else:
        used = application.allocated
    for name, amount in items:
        used[name] += amount
    if not application.usage_ledgers:
        _start_usage(application)
    for ledger in application.usage_ledgers:
        used = ledger.usage
        for name, amount in items:
            used[name] += amount
    for one in queue.lineage:
        used = one.allocated
        for name, amount in items:
            used[name] += amount
    node.allocations[uuid] = allocation
    used, available = node.allocated, node.available
    for name, amount in items:
        used[name] += amount
        available[name] -= amount
    node.rescore()
    if node.ordered:
        application.partition.node_order.moved(node)


def _start_usage(application: Application) -> None:
    queue = application.queue
    assert queue is not None
    paths = [one.path for one in queue.lineage]
    usages = application.partition.usages
    application.usage_ledgers = usages.users.open(application.spec.user, paths)
    if application.group:
        application.usage_ledgers = application.usage_ledgers + usages.groups.open(application.group, paths)
    for ledger in application.usage_ledgers:
        ledger.applications[application.application_id] = None
    for one in queue.lineage:
        one.running += 1
    if application.needs_place:
        application.regroup()


def _rekey(application: Application) -> None:
    assert application.queue is not None
    application.usage_changed()
    for one in application.queue.lineage:
        one.rekey()
