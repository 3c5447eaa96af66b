"""The only place where a decision becomes a mutation of the ledgers.

Node, application, queues and user change together or not at all, so that they cannot drift apart: what is allocated is
the sum of the allocations at each of them, and what is pending the sum of the open asks, after every single call.
"""

from __future__ import annotations

from schedulerd.core import commit_room
from schedulerd.core.model import placeholders
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.resources import Items, Resources


def demand(application: Application, ask: Ask, count: int) -> None:
    """`count` more allocations of the ask are pending."""
    if not count:
        return
    partition, queue = application.partition, application.queue
    items = ask.request_class.items
    for name, amount in items:
        amount *= count
        application.pending[name] += amount
        for one in queue.path_to_root:
            one.pending[name] += amount
    if not ask.pending:
        ask.request_class = partition.request_classes.current(ask.request_class)
        application.enqueue(ask)
    assert ask.group is not None
    ask.pending += count
    ask.group.demand(queue, count)
    if ask.predicate_history is not None:  # all of it may have been on predicate check so far
        application.review_predicate_wait(ask)
    if ask.placeholder:
        placeholders.expect(application, ask, count)
    if queue not in partition.touched:
        partition.touch(queue)


def withdraw(application: Application, ask: Ask, count: int | None = None) -> int:
    """Up to `count` pending allocations of the ask (None: all) are pending no longer. Returns how many that were."""
    count = ask.pending if count is None else min(count, ask.pending)
    if not count:
        return 0
    partition, queue = application.partition, application.queue
    application.pending.subtract(ask.request_class.items, count)
    for one in queue.path_to_root:
        one.pending.subtract(ask.request_class.items, count)
    assert ask.group is not None
    ask.pending -= count
    ask.group.demand(queue, -count)
    if not ask.pending:
        application.dequeue(ask)
    if ask.placeholder:
        placeholders.expect(application, ask, -count)
    if queue not in partition.touched:
        partition.touch(queue)
    return count


def allocate(application: Application, ask: Ask, node: Node, uuid: str) -> Allocation:
    """One pending allocation of the ask becomes real on the node."""
    queue, group = application.queue, ask.group
    assert group is not None
    ask.pending -= 1
    group.demand(queue, -1)
    allocation = Allocation(uuid, application, ask, node, ask.spec, ask.request_class)
    _bind(allocation, was_pending=True)
    if not ask.pending:
        application.dequeue(ask)
    if allocation.placeholder:
        placeholders.has(application, allocation, was_pending=True)
    _rekey(application)
    return allocation


def take_over(application: Application, allocation: Allocation) -> Allocation:
    """An allocation that exists already is booked as it is, quota or no quota, room or no room (SEMANTICS D)."""
    _bind(allocation, was_pending=False)
    if allocation.placeholder:
        placeholders.has(application, allocation, was_pending=False)
    _rekey(application)
    return allocation


def await_placeholder(application: Application, ask: Ask, placeholder: Allocation) -> None:
    """One allocation of the ask, pending no longer, waits for the placeholder to be gone to take its room."""
    assert application.gang is not None
    ask.swaps[placeholder] = None
    application.awaiting_placeholder += 1
    application.gang.task_group(placeholder.spec.task_group).awaiting_placeholder += 1
    placeholder.swap = ask


def end_placeholder_wait(placeholder: Allocation) -> Ask | None:
    """Nothing waits for this placeholder any longer; gives the ask that did, if one did."""
    ask, application = placeholder.swap, placeholder.application
    if ask is not None:
        assert application.gang is not None
        placeholder.swap = None
        del ask.swaps[placeholder]
        application.awaiting_placeholder -= 1
        application.gang.task_group(placeholder.spec.task_group).awaiting_placeholder -= 1
    return ask


def ask_anew(placeholder: Allocation) -> bool:
    """What the placeholder was asked for is pending again, as it goes for another gang's sake; False if the ask was
    changed meanwhile and does not want that many."""
    ask, application = placeholder.ask, placeholder.application
    assert application.gang is not None
    application.gang.task_group(placeholder.spec.task_group).wanted -= 1
    ask.placed -= 1
    if not ask.placeholder or ask.placed + ask.pending + ask.awaiting_placeholder >= ask.spec.max_allocations:
        return False
    demand(application, ask, 1)
    return True


def promise(application: Application) -> None:
    """The gang was let start: what it has not placed yet counts against the gates of others (SEMANTICS G2)."""
    gang, queue = application.gang, application.queue
    assert gang is not None
    gang.promised = gang.still_to_come(application.spec.placeholder_ask)
    for one in queue.path_to_root:
        one.gang_quota_promised.add(gang.promised.items())
    application.update_pending_classes()


def keep_promise(application: Application) -> None:
    """The gang has more than before: no more is promised to it than it lacks of the whole."""
    gang = application.gang
    assert gang is not None
    _lower_promise(application, gang.still_to_come(application.spec.placeholder_ask))


def take_back_promise(application: Application, items: Items, count: int) -> None:
    """The RM took `count` placeholder asks back: so much less is to come, but no less than what is still asked for."""
    gang = application.gang
    assert gang is not None
    rest = Resources(gang.promised)
    rest.subtract(items, count)
    _lower_promise(application, Resources({name: max(rest[name], gang.asked[name]) for name in gang.promised}))


def _lower_promise(application: Application, most: Resources) -> None:
    gang, queue = application.gang, application.queue
    assert gang is not None
    less = Resources({name: amount - most[name] for name, amount in gang.promised.items() if amount > most[name]})
    gang.promised.subtract(less.items())
    for one in queue.path_to_root:
        one.gang_quota_promised.subtract(less.items())


def end_promise(application: Application) -> None:
    """Nothing more of the gang is held for it; it would have to pass the gate again."""
    gang, queue = application.gang, application.queue
    if gang is not None and gang.promised:
        for one in queue.path_to_root:
            one.gang_quota_promised.subtract(gang.promised.items())
        gang.promised = Resources()
        application.partition.moves += 1
        application.partition.note_free_quota(queue)
    application.update_pending_classes()


def allocate_swapped(application: Application, ask: Ask, node: Node, uuid: str) -> Allocation:
    """An ask whose placeholder is gone becomes real on the node; within the room that was held for it."""
    allocation = Allocation(uuid, application, ask, node, ask.spec, ask.request_class)
    _bind(allocation, was_pending=False)
    _rekey(application)
    return allocation


def free(allocation: Allocation) -> None:
    """The allocation is gone: what it used is free, and whoever waited for that may be tried again."""
    application, ask, node = allocation.application, allocation.ask, allocation.node
    partition, queue = application.partition, application.queue
    items = allocation.request_class.items
    if allocation.releasing is not None:
        commit_room.left(allocation)
    if allocation.used is not None:
        report_use(partition, allocation, None)
    del application.allocations[allocation.uuid]
    del partition.allocations[allocation.uuid]
    del ask.allocations[allocation.uuid]
    if allocation.placeholder:
        assert application.gang is not None
        application.gang.task_group(allocation.spec.task_group).drop_idle(allocation)
        application.placeholders -= 1
        application.placeholder_allocated.subtract(items)
    else:
        application.allocated.subtract(items)
    if application.footprint is not None:
        application.footprint.remove(node, items)
        if partition.retry_timers.not_helped_by_reservation:
            partition.retry_timers.retry_application(application)
    if application.gang is not None:
        partition.gangs_touched[application] = None
        if allocation.spec.task_group:
            application.gang.held.subtract(items)
            if application.gang.pending and application.gang_alarm is None:
                application.update_pending_classes()
    for ledger in application.usage_ledgers:
        ledger.usage.subtract(items)
    for one in queue.path_to_root:
        one.allocated.subtract(items)
    del node.allocations[allocation.uuid]
    node.allocated.subtract(items)
    node.available.add(items)
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
    if partition.constraints.rules:
        partition.constraints.freed(allocation)
    partition.note_free_node(node)
    partition.note_free_quota(queue)
    _rekey(application)
    forget_if_done(application, ask)


def forget_if_done(application: Application, ask: Ask) -> None:
    """An ask with nothing pending, nothing awaiting its placeholder and nothing alive is not known any longer."""
    if not ask.pending and not ask.allocations and not ask.awaiting_placeholder:
        application.asks.pop(ask.key, None)


def retire(application: Application) -> None:
    """The application runs no longer as far as its user is concerned, unless placeholders of it are still there."""
    queue = application.queue
    if application.allocations:
        return
    if not application.usage_ledgers:
        return
    for ledger in application.usage_ledgers:
        ledger.applications.pop(application.application_id, None)
    application.usage_ledgers = []
    paths = [one.path for one in queue.path_to_root]
    usages = application.partition.usages
    usages.users.drop_idle(application.spec.user, paths)
    usages.groups.drop_idle(application.group, paths)
    for one in queue.path_to_root:
        one.running -= 1
    application.partition.note_free_quota(queue)


def open_node(partition: Partition, node: Node) -> None:
    """The node may get new allocations, or has more room than before."""
    if node.ordered:
        partition.node_order.moved(node)
    else:
        node.ordered = True
        partition.node_order.add(node)
    if partition.constraints.rules:
        partition.constraints.look_at(node)
    partition.capacity_changed()
    partition.note_free_node(node)


def shut_node(partition: Partition, node: Node) -> None:
    """The node gets no new allocations, but for those that require it."""
    if node.ordered:
        node.ordered = False
        partition.node_order.remove(node)
    if partition.constraints.rules:
        partition.constraints.look_at(node)
    partition.capacity_changed()
    partition.note_free_node(node)


def report_use(partition: Partition, user: Node | Allocation, used: Resources | None) -> None:
    """So much is really used on the node, or by the allocation; None if it is gone, or nobody knows."""
    total = partition.used if isinstance(user, Node) else partition.allocations_used
    if user.used is not None:
        total.subtract(user.used.items())
    if used is not None:
        total.add(used.items())
    user.used = used


def _bind(allocation: Allocation, *, was_pending: bool) -> None:
    """Every new allocation comes through here, so the ledgers are written in place, not by calls."""
    application, ask, node, uuid = allocation.application, allocation.ask, allocation.node, allocation.uuid
    partition, queue = application.partition, application.queue
    items = allocation.request_class.items
    ask.placed += 1
    ask.allocations[uuid] = allocation
    application.allocations[uuid] = allocation
    partition.allocations[uuid] = allocation
    node.allocations[uuid] = allocation
    if allocation.placeholder:
        application.placeholders += 1
    else:
        application.has_run = True
    if application.gang is not None:
        partition.gangs_touched[application] = None
        if allocation.spec.task_group:
            application.gang.held.add(items)
    if application.footprint is not None:
        application.footprint.add(node, items)
        if application.reservations and node.reservations:
            partition.ready[node] = None
    if not application.usage_ledgers:
        _start_usage(application)
    grows = [ledger.usage for ledger in application.usage_ledgers]
    grows += [one.allocated for one in queue.path_to_root]
    grows += (application.placeholder_allocated if allocation.placeholder else application.allocated, node.allocated)
    shrinks = [application.pending, *[one.pending for one in queue.path_to_root]] if was_pending else []
    available = node.available
    for name, amount in items:
        for used in grows:
            used[name] += amount
        for pending in shrinks:
            if pending[name] == amount:
                del pending[name]
            else:
                pending[name] -= amount
        available[name] -= amount
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
    if partition.constraints.rules:
        partition.constraints.placed(allocation)


def _start_usage(application: Application) -> None:
    queue = application.queue
    paths = [one.path for one in queue.path_to_root]
    usages = application.partition.usages
    application.usage_ledgers = usages.users.open(application.spec.user, paths)
    if application.group:
        application.usage_ledgers = application.usage_ledgers + usages.groups.open(application.group, paths)
    for ledger in application.usage_ledgers:
        ledger.applications[application.application_id] = None
    for one in queue.path_to_root:
        one.running += 1
    if application.limited_starts:
        application.update_pending_classes()


def _rekey(application: Application) -> None:
    application.usage_changed()
    for one in application.queue.path_to_root:
        if one.entry is not None:
            one.rekey()
