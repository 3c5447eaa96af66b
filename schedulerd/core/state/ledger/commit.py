"""The only place where decisions change the ledgers.

The ledgers of node, application, queues and user change together or not at all, so they cannot drift apart. After every
call, what is allocated is the sum of the allocations, and what is pending is the sum of the pending asks, at each
level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.state.ledger import commit_room, placeholders
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import dequeue, enqueue, update_groups, update_pending_classes


def demand(partition: Partition, application: Application, ask: Ask, count: int) -> None:
    """Adds `count` pending allocations to the ask."""
    if not count:
        return
    queue = application.queue
    sums = (application.pending, *queue.pending_to_root)
    for name, amount in ask.request_class.items:
        amount *= count
        for pending in sums:  # often empty before, and a missing name costs a call
            pending[name] = pending[name] + amount if name in pending else amount
    enqueue(partition, application, ask, count)
    if ask.placeholder:
        placeholders.expect(partition, application, ask, count)
    if queue not in partition.touched:
        partition.touch(queue)


def withdraw(partition: Partition, application: Application, ask: Ask, count: int | None = None) -> int:
    """Removes up to `count` (None: all) pending allocations of the ask. Returns how many were removed."""
    count = ask.pending if count is None else min(count, ask.pending)
    if not count:
        return 0
    queue = application.queue
    book(ask.request_class.items, count, (), (application.pending, *queue.pending_to_root))
    dequeue(partition, application, ask, count)
    if ask.placeholder:
        placeholders.expect(partition, application, ask, -count)
    if queue not in partition.touched:
        partition.touch(queue)
    return count


def allocate(partition: Partition, application: Application, ask: Ask, node: Node, uuid: str) -> Allocation:
    """Turns one pending allocation of the ask into an allocation on the node."""
    allocation = Allocation(uuid, application, ask, node, ask.spec, ask.request_class)
    _bind(partition, allocation, was_pending=True)
    dequeue(partition, application, ask, 1)
    if allocation.placeholder:
        placeholders.has(partition, application, allocation, was_pending=True)
    elif application.gang is not None:
        application.gang.has_started = True
    rekey(application)
    return allocation


def begin_use(partition: Partition, application: Application, members: Sequence[Allocation]) -> None:
    """Books new allocations of one request class and one task group, which are no placeholders and were pending, where
    nodes do not matter."""
    first, count, queue = members[0], len(members), application.queue
    application.has_run = True
    if application.gang is not None:
        application.gang.has_started = True
        _count_member(partition, application.gang, first, count)
        partition.gangs_touched[application] = None
        application.blocked_since_ns = None
    if application.footprint is not None:
        for one in members:
            application.footprint.add(one.node, one.request_class.items)
            if application.reservations and one.node.reservations:
                partition.reservations_to_check[one.node] = None
    if not application.usage_ledgers:
        _start_usage(partition, application)
    grows = [one for one in ledgers(first) if one is not first.node.allocated]
    book(first.request_class.items, count, grows, (application.pending, *queue.pending_to_root))


def take_back(partition: Partition, allocation: Allocation) -> None:
    """Undoes the allocation of a slot in the step in which it was made. No room is free that was not free before, so
    nothing that waits is tried again."""
    application, ask, node = allocation.application, allocation.ask, allocation.node
    items = allocation.request_class.items
    ask.placed -= 1
    application.placeholders -= 1
    for known in (application.allocations, partition.allocations, ask.allocations, node.allocations):
        del known[allocation.uuid]
    book(items, 1, (application.pending, *application.queue.pending_to_root), ledgers(allocation))
    node.available.add(items)
    if application.footprint is not None:
        application.footprint.remove(node, items)
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
    if partition.constraints.rules:
        partition.constraints.freed(allocation)
    enqueue(partition, application, ask, 1)
    placeholders.take_back(partition, application, allocation)
    _end_usage(partition, application)
    rekey(application)
    partition.touch(application.queue)


def take_over(partition: Partition, application: Application, allocation: Allocation) -> Allocation:
    """Books an existing allocation as it is, also above quotas and above the capacity of the node (SEMANTICS D)."""
    _bind(partition, allocation, was_pending=False)
    if allocation.placeholder:
        placeholders.has(partition, application, allocation, was_pending=False)
    rekey(application)
    return allocation


def await_placeholder(application: Application, ask: Ask, placeholder: Allocation) -> None:
    """One allocation of the ask, no longer pending, awaits the placeholder, whose room it gets when the placeholder is
    gone."""
    assert application.gang is not None
    ask.swaps[placeholder] = None
    application.awaiting_placeholder += 1
    application.gang.task_groups[placeholder.spec.task_group].awaiting_placeholder += 1
    placeholder.swap = ask


def end_placeholder_wait(placeholder: Allocation) -> Ask | None:
    """Ends the wait of an ask for this placeholder. Returns the ask; None if none waited."""
    ask, application = placeholder.swap, placeholder.application
    if ask is not None:
        assert application.gang is not None
        placeholder.swap = None
        del ask.swaps[placeholder]
        application.awaiting_placeholder -= 1
        application.gang.task_groups[placeholder.spec.task_group].awaiting_placeholder -= 1
    return ask


def make_pending_again(partition: Partition, placeholder: Allocation) -> bool:
    """Makes the ask of a placeholder pending again, because the placeholder was released for another gang, or preempted
    before its own gang ran. False if the ask was changed in the meantime and does not want that many."""
    ask, application = placeholder.ask, placeholder.application
    assert application.gang is not None
    application.gang.task_groups[placeholder.spec.task_group].wanted -= 1
    ask.placed -= 1
    if not ask.placeholder or ask.placed + ask.pending + ask.awaiting_placeholder >= ask.spec.max_allocations:
        return False
    demand(partition, application, ask, 1)
    return True


def promise(partition: Partition, application: Application) -> None:
    """The gang passed the gang gate: what it still lacks counts against the gates of other gangs (SEMANTICS G2)."""
    gang = application.gang
    assert gang is not None
    gang.promised = gang.still_to_come(application.gang_total)
    _book_promise(application, gang.promised.items(), 1)
    update_pending_classes(partition, application)


def keep_promise(application: Application) -> None:
    """Lowers the promise to what the gang still lacks of its `placeholderAsk`."""
    gang = application.gang
    assert gang is not None
    _lower_promise(application, gang.still_to_come(application.gang_total))


def withdraw_promise(application: Application, items: Items, count: int) -> None:
    """Lowers the promise by `count` placeholder asks that the RM withdrew, but not below what is still asked for."""
    gang = application.gang
    assert gang is not None
    rest = Resources(gang.promised)
    rest.subtract(items, count)
    _lower_promise(application, Resources({name: max(rest[name], gang.asked[name]) for name in gang.promised}))


def _lower_promise(application: Application, most: Resources) -> None:
    gang = application.gang
    assert gang is not None
    less = Resources({name: amount - most[name] for name, amount in gang.promised.items() if amount > most[name]})
    if less:
        gang.promised.subtract(less.items())
        _book_promise(application, less.items(), -1)


def end_promise(partition: Partition, application: Application) -> None:
    """Ends the promise to the gang. To get a new promise the gang must pass the gang gate again."""
    gang = application.gang
    if gang is not None and gang.promised:
        _book_promise(application, gang.promised.items(), -1)
        gang.promised = Resources()
        partition.moves += 1
        partition.note_free_quota(application.queue)
    update_pending_classes(partition, application)


def _book_promise(application: Application, items: Iterable[tuple[str, int]], count: int) -> None:
    """Adds `count` times the amounts to the sums of promises that what is promised to its gang is a part of: of its
    queues, its user and its group."""
    for queue in application.queue.path_to_root:
        queue.gang_quota_promised.add(items, count)
    for ledger in application.usage_ledgers:
        ledger.promised.add(items, count)


def allocate_swapped(partition: Partition, application: Application, ask: Ask, node: Node, uuid: str) -> Allocation:
    """Allocates an ask whose placeholder is gone; the room was held for it, and it is not pending."""
    allocation = Allocation(uuid, application, ask, node, ask.spec, ask.request_class)
    _bind(partition, allocation, was_pending=False)
    assert application.gang is not None
    application.gang.has_started = True
    rekey(application)
    return allocation


def free(partition: Partition, allocation: Allocation) -> None:
    """Frees what the allocation used, and notes the changes that may let waiting asks be tried again."""
    application, ask, node = allocation.application, allocation.ask, allocation.node
    queue = application.queue
    items = allocation.request_class.items
    if allocation.releasing is not None:
        commit_room.end_release(partition, allocation)
    if allocation.used is not None:
        report_use(partition, allocation, None)
    note_peak(application, items)
    del application.allocations[allocation.uuid]
    del partition.allocations[allocation.uuid]
    del ask.allocations[allocation.uuid]
    del node.allocations[allocation.uuid]
    if allocation.placeholder:
        assert application.gang is not None
        application.gang.task_groups[allocation.spec.task_group].drop_idle(allocation)
        application.placeholders -= 1
    book(items, 1, (), ledgers(allocation))
    node.available.add(items)
    if application.footprint is not None:
        application.footprint.remove(node, items)
        if partition.retry_timers.not_helped_by_reservation:
            partition.retry_timers.retry_application(application)
    if application.gang is not None:
        if application.gang.declared:
            _count_member(partition, application.gang, allocation, -1)
        partition.gangs_touched[application] = None
        if allocation.spec.task_group and application.gang.pending and application.gang_alarm is None:
            update_pending_classes(partition, application)
        if not application.allocations:
            partition.touch(queue)  # in a state-aware leaf it may let the next one start now
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
    if partition.constraints.rules:
        partition.constraints.freed(allocation)
    partition.note_free_node(node)
    partition.note_free_quota(queue)
    rekey(application)
    forget_if_done(application, ask)


def forget_if_done(application: Application, ask: Ask) -> None:
    """Forgets an ask that has nothing pending, nothing that awaits a placeholder, and no allocations."""
    if not ask.pending and not ask.allocations and not ask.awaiting_placeholder:
        application.asks.pop(ask.key, None)


def retire(partition: Partition, application: Application) -> None:
    """The application no longer counts as running in its queues and for its user and group. Does nothing while it has
    allocations, including placeholders."""
    if _end_usage(partition, application):
        partition.note_free_quota(application.queue)


def _end_usage(partition: Partition, application: Application) -> bool:
    """Whether it counted as running until now."""
    queue = application.queue
    if application.allocations or not application.usage_ledgers:
        return False
    for ledger in application.usage_ledgers:
        ledger.applications.pop(application.application_id, None)
    application.usage_ledgers, application.user_usages = [], ()
    paths = [one.path for one in queue.path_to_root]
    usages = partition.usages
    usages.users.drop_idle(application.spec.user, paths)
    usages.groups.drop_idle(application.group, paths)
    for one in queue.path_to_root:
        one.running -= 1
    return True


def open_node(partition: Partition, node: Node) -> None:
    """The node accepts new allocations, or has more room than before."""
    if node.ordered:
        partition.node_order.moved(node)
    else:
        node.ordered = True
        partition.node_order.add(node)
    if partition.constraints.rules:
        partition.constraints.look_at(node)
    partition.capacity.note_node(node.node_id, node.capacity)
    partition.capacity_changed()
    partition.note_free_node(node)


def close_node(partition: Partition, node: Node) -> None:
    """The node accepts no new allocations, except those of asks that require it."""
    if node.ordered:
        node.ordered = False
        partition.node_order.remove(node)
    if partition.constraints.rules:
        partition.constraints.look_at(node)
    partition.capacity.note_node(node.node_id, None)
    partition.capacity_changed()
    partition.note_free_node(node)


def report_use(partition: Partition, user: Node | Allocation, used: Resources | None) -> None:
    """Records the real use of the node or allocation; None if it is gone, or its use is not known."""
    total = partition.used if isinstance(user, Node) else partition.allocations_used
    if user.used is not None:
        total.subtract(user.used.items())
    if used is not None:
        total.add(used.items())
    user.used = used


def _bind(partition: Partition, allocation: Allocation, *, was_pending: bool) -> None:
    """Books a new allocation."""
    application, ask, node, uuid = allocation.application, allocation.ask, allocation.node, allocation.uuid
    queue = application.queue
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
        if application.gang.declared:
            _count_member(partition, application.gang, allocation, 1)
        partition.gangs_touched[application] = None
        application.blocked_since_ns = None
    if application.footprint is not None:
        application.footprint.add(node, items)
        if application.reservations and node.reservations:
            partition.reservations_to_check[node] = None
    if not application.usage_ledgers:
        _start_usage(partition, application)
    book(items, 1, ledgers(allocation), (application.pending, *queue.pending_to_root) if was_pending else ())
    for name, amount in items:
        node.available[name] -= amount  # stays as 0: searches read it, and a missing name costs a call
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
    if partition.constraints.rules:
        partition.constraints.placed(allocation)


def _count_member(partition: Partition, gang: Gang, allocation: Allocation, change: int) -> None:
    name = allocation.spec.task_group
    if allocation.placeholder or name not in gang.declared:
        return
    was_full = gang.is_full(name)
    gang.task_group(name).members += change
    gang.above_min = None
    if not gang.has_started:
        partition.note_members(allocation.application)
    if gang.is_full(name) is not was_full:
        update_groups(partition, allocation.application, placeholders=False)


def book(items: Items, count: int, grows: Iterable[Resources], shrinks: Iterable[Resources]) -> None:
    """Adds `count` times the amounts to each ledger of `grows`, and subtracts them from each ledger of `shrinks`.

    The same as `Resources.add` and `subtract`, without a call per ledger: each allocation changes about ten of them.
    What grows must not be negative.
    """
    for name, amount in items:
        amount *= count
        for ledger in grows:
            ledger[name] += amount
        for ledger in shrinks:
            rest = ledger[name] - amount
            if rest:
                ledger[name] = rest
            else:
                ledger.pop(name, None)


def ledgers(allocation: Allocation) -> list[Resources]:
    """All sums of allocations that the allocation is a part of."""
    application = allocation.application
    allocated = application.placeholder_allocated if allocation.placeholder else application.allocated
    sums = [allocated, allocation.node.allocated, *application.queue.allocated_to_root, *application.user_usages]
    if application.gang is not None and allocation.spec.task_group:
        sums.append(application.gang.held)
    return sums


def note_peak(application: Application, items: Items) -> None:
    """Its allocations are about to use less of these resources."""
    used, held, peak = application.allocated, application.placeholder_allocated, application.peak
    for name, _ in items:
        total = used.get(name, 0) + held.get(name, 0)
        if total > peak.get(name, 0):
            peak[name] = total


def _start_usage(partition: Partition, application: Application) -> None:
    queue = application.queue
    paths = [one.path for one in queue.path_to_root]
    usages = partition.usages
    application.usage_ledgers = usages.users.open(application.spec.user, paths)
    if application.group:
        application.usage_ledgers = application.usage_ledgers + usages.groups.open(application.group, paths)
    application.user_usages = tuple([ledger.usage for ledger in application.usage_ledgers])
    for ledger in application.usage_ledgers:
        ledger.applications[application.application_id] = None
    for one in queue.path_to_root:
        one.running += 1
    if application.limited_starts:
        update_pending_classes(partition, application)


def rekey(application: Application) -> None:
    """What it and its queues use changed, and with that their places in line."""
    application.usage_changed()
    for one in application.queue.path_to_root:
        if one.entry is not None:
            one.rekey()
