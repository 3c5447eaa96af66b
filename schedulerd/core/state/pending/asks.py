"""The pending asks of a partition: they enter the pending index and leave it, and the next one is found.

An application propagates the pending classes of its groups to its leaf queue, and queues propagate them to the root
(`parent_entity`). Every change of what is pending, of the application's state or of its gang comes through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Items
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.gang_order import before_growth, is_ahead
from schedulerd.core.state.pending.parent_entity import Block, ParentEntity
from schedulerd.core.state.pending.pending_index import Key
from schedulerd.core.state.pending.request_class import PendingClass, RequestClass
from schedulerd.core.state.quotas.quota_key import PLAIN, QuotaKey


def enqueue_all(partition: Partition, application: Application) -> None:
    """Enters all groups of the application again, after `reset_pending`."""
    application.update_limits()
    for group in application.groups.values():
        group.reset_position()
        group.priority = None
        group.pending_class = _pending_class(partition, application, group.request_class, placeholder=group.placeholder)
        _enqueue_new_group(partition, application, group)
    _reschedule_preemption(partition, application)


def enqueue(partition: Partition, application: Application, ask: Ask, count: int) -> None:
    """`count` more allocations of the ask are pending. With its first ones the ask enters its group."""
    group = ask.group
    if group is None:
        ask.request_class = partition.request_classes.current(ask.request_class)
        group = _enter_group(partition, application, ask)
    ask.pending += count
    group.change_pending(application.queue, count)
    if ask.predicate_history is not None:  # all of its pending allocations may have been awaiting predicate results
        update_predicate_wait(partition, application, ask)


def dequeue(partition: Partition, application: Application, ask: Ask, count: int) -> None:
    """`count` fewer allocations of the ask are pending. With its last ones the ask leaves its group."""
    group = ask.group
    assert group is not None
    ask.pending -= count
    group.change_pending(application.queue, -count)
    if not ask.pending:
        _leave_group(partition, application, ask, group)


def dequeue_several(partition: Partition, application: Application, group: AskGroup, counts: Mapping[Ask, int]) -> None:
    """As `dequeue` for several asks of one group, which has its position corrected once."""
    group.change_pending(application.queue, -sum(counts.values()))
    leaving = []
    for ask, count in counts.items():
        ask.pending -= count
        if not ask.pending:
            leaving.append(ask)
    if len(leaving) == len(group):
        group.keep_only(leaving[-1])
    else:
        for ask in leaving[:-1]:
            group.dequeue(ask)
    for ask in leaving[-1:]:
        _leave_group(partition, application, ask, group)


def requeue_group(partition: Partition, application: Application, group: AskGroup, request_class: RequestClass) -> bool:
    """As `requeue` for all asks of the group, of the same amounts; False, and nothing is done, if there is a group for
    them already, or the RM refused them."""
    request_class = partition.request_classes.current(request_class)
    if request_class is group.request_class:
        return True
    key = request_class, group.task_group, group.placeholder
    if key in application.groups or group.request_class.refused or partition.callbacks.predicates:
        return False
    is_enqueued = bool(group.needs)
    if is_enqueued:
        _dequeue_group(application, group)
    del application.groups[group.request_class, group.task_group, group.placeholder]
    application.groups[key] = group
    old, group.request_class = group.pending_class, request_class
    for ask in group:
        ask.request_class = request_class
    group.pending_class = _pending_class(partition, application, request_class, placeholder=group.placeholder)
    partition.request_classes.use(group.pending_class)
    partition.request_classes.disuse(old)
    partition.retry_timers.forget_class(old)
    if is_enqueued:
        _enqueue_group(application, group, group.key())
        partition.retry_timers.make_due_now(group.pending_class)
    return True


def requeue(
    partition: Partition, application: Application, ask: Ask, request_class: RequestClass, task_group: str
) -> None:
    """Moves the ask, which has pending allocations, to the group of another request class or task group."""
    count = ask.pending
    dequeue(partition, application, ask, count)
    ask.request_class, ask.task_group = request_class, task_group
    enqueue(partition, application, ask, count)


def _enter_group(partition: Partition, application: Application, ask: Ask) -> AskGroup:
    group_key = ask.group_key
    group = application.groups.get(group_key)
    gang = application.gang
    if group is None:
        pending_class = _pending_class(partition, application, ask.request_class, placeholder=ask.placeholder)
        group = application.groups[group_key] = AskGroup(pending_class, ask.task_group, placeholder=ask.placeholder)
        group.enqueue(ask)
        _enqueue_new_group(partition, application, group)
        if gang is not None and group.awaits_placeholders:
            gang.enqueue(group)
        elif gang is not None and gang.declared and group.placeholder:
            gang.slot_groups[group] = None
    else:
        group.enqueue(ask)
        if not group.is_behind(ask):
            _update_group(partition, application, group)
        if gang is not None and group.awaits_placeholders:
            gang.requeue(group)
    if group.request_class.refused:
        partition.refused_asks.add(application, ask)
    if group.pending_class.unschedulable:
        partition.retry_timers.schedule_reservation(group.pending_class, ask.asked_at_ns)
    if ask.spec.allow_preempt_other:
        schedule_preemption(partition, application, ask)
    if gang is not None:
        note_possible_swap(partition, application)
    return group


def _leave_group(partition: Partition, application: Application, ask: Ask, group: AskGroup) -> None:
    if group.request_class.refused:
        partition.refused_asks.discard(ask)
    group.dequeue(ask)
    gang = application.gang
    if group:
        if group.needs:
            _reposition(application, group)
        if gang is not None and group.awaits_placeholders:
            gang.requeue(group)
        return
    del application.groups[group.request_class, group.task_group, group.placeholder]
    timers = partition.retry_timers
    if not application.groups and (
        timers.attempts_due.times or timers.not_helped_by_reservation or timers.waiting_for_change
    ):
        timers.forget_application(application)
    _set_priority(application, group, None)
    if group.needs:
        _dequeue_group(application, group)
    partition.request_classes.disuse(group.pending_class)
    if timers.unreservable:
        timers.forget_class(group.pending_class)
    if gang is not None and group.awaits_placeholders:
        gang.dequeue(group)
        partition.denied.pop(group, None)
        partition.growth_held.pop(group, None)
    elif gang is not None and group.placeholder:
        gang.slot_groups.pop(group, None)


def schedule_preemption(partition: Partition, application: Application, ask: Ask) -> None:
    """Schedules a preemption attempt for the time at which the ask is old enough, if it may preempt others."""
    if ask.spec.allow_preempt_other and partition.spec.preemption_enabled and not ask.request_class.required_node:
        partition.retry_timers.attempts_due.set_earlier(application, preemption_from_ns(application, ask))


def preemption_from_ns(application: Application, ask: Ask) -> int:
    """The earliest time of a preemption attempt for the ask."""
    return max(ask.asked_at_ns + application.queue.properties.preemption_delay_ns, ask.preemption_retry_ns)


def _reschedule_preemption(partition: Partition, application: Application) -> None:
    """Schedules preemption attempts again for all groups, because asks that could not preempt when they were old enough
    may now."""
    for group in application.groups.values():
        if group.preempting_asks:
            schedule_preemption(partition, application, next(ask for ask in group if ask.spec.allow_preempt_other))


def update_predicate_wait(partition: Partition, application: Application, ask: Ask) -> None:
    """The number of allocations that await a predicate result changed. While all pending allocations of the ask do, the
    ask is not ready."""
    group = ask.group
    if group is None or group.awaits_predicate(ask) is (ask.unchecked <= 0):
        return
    if group.awaits_predicate(ask):
        group.end_predicate_wait(ask)
    else:
        group.await_predicate(ask)
    _update_group(partition, application, group)
    if application.gang is not None and group.awaits_placeholders:
        application.gang.requeue(group)
        note_possible_swap(partition, application)
    partition.touch(application.queue)


def reclassify(partition: Partition, application: Application, ask: Ask, *, refused: bool) -> None:
    """Moves the ask to the refused variant of its request class (`refused`), or back to the ordinary one."""
    request_class = partition.request_classes.refused_variant(ask.request_class, refused=refused)
    requeue(partition, application, ask, request_class, ask.task_group)
    for one in application.queue.path_to_root:  # its queues may have another highest priority now
        one.rekey()


def note_possible_swap(partition: Partition, application: Application) -> None:
    """Notes the application if a swap may be possible now: it has an idle placeholder and a real ask for it."""
    if application in partition.swaps:
        return
    if application.gang is not None and application.propagates_demand and application.gang.next_swap() is not None:
        partition.swaps[application] = None


def is_schedulable(partition: Partition, application: Application, group: AskGroup) -> bool:
    """Whether the group belongs in the pending index: it has a ready ask, and `admits_group`."""
    return group.has_ready and admits_group(partition, application, group)


def admits_group(partition: Partition, application: Application, group: AskGroup) -> bool:
    """Real asks wait while placeholders of their gang are pending (SEMANTICS G3), and while their task group has all
    members that it may have, or for a gang before its growth; placeholders wait for an earlier priority gang."""
    if group.placeholder:
        return gang_ahead(partition, application) is None
    gang = application.gang
    if gang is None or not gang.declared:
        return gang is None or not gang.waits
    return not (gang.waits or gang.is_full(group.task_group) or group in partition.growth_held)


def hold_growth_back(partition: Partition, application: Application, group: AskGroup) -> bool:
    """Whether the group, which is next, has to wait for a gang that is ahead (`gang_order.before_growth`); if so, it
    does from now on."""
    ahead = before_growth(partition, application, group)
    if ahead is None:
        return False
    partition.growth_held[group] = application, ahead
    _update_group(partition, application, group)
    return True


def try_growth_again(partition: Partition) -> None:
    """Something moved: groups that wait for a gang ahead are tried again."""
    held, partition.growth_held = partition.growth_held, {}
    partition.growth_tried_at = partition.moves
    for group, (application, _) in held.items():
        _update_group(partition, application, group)


def gang_ahead(partition: Partition, application: Application) -> Application | None:
    """The application with the priority gang, if the placeholders of this application must wait for it; else None."""
    first = partition.priority_gang
    return first if first is not None and first is not application and is_ahead(first, application) else None


def update_groups(partition: Partition, application: Application, *, placeholders: bool) -> None:
    """Whether the groups of placeholders (or of real asks, if not `placeholders`) are schedulable may have changed."""
    partition.check_reservations(application)
    _reschedule_preemption(partition, application)
    for group in application.groups.values():
        if group.placeholder is placeholders:
            _update_group(partition, application, group)


def _enqueue_new_group(partition: Partition, application: Application, group: AskGroup) -> None:
    partition.request_classes.use(group.pending_class)
    if is_schedulable(partition, application, group):
        key = group.key()
        _set_priority(application, group, -key[0])
        _enqueue_group(application, group, key)


def _update_group(partition: Partition, application: Application, group: AskGroup) -> None:
    """Corrects the group in the pending index: its first ready ask changed, it got or lost its last one, or it may be
    schedulable now, or no longer."""
    if not is_schedulable(partition, application, group):
        _set_priority(application, group, None)
        if group.needs:
            _dequeue_group(application, group)
    elif group.needs:
        _reposition(application, group)
    else:
        key = group.key()
        _set_priority(application, group, -key[0])
        _enqueue_group(application, group, key)
        partition.retry_timers.make_due_now(group.pending_class)


def _reposition(application: Application, group: AskGroup) -> None:
    """Corrects the place of the group in the pending index: its first ready ask changed, or it lost its last one."""
    if group.has_ready:
        key = group.key()
        _set_priority(application, group, -key[0])
        application.pending_index.rekey(group, key)
    else:
        _set_priority(application, group, None)
        _dequeue_group(application, group)


def _enqueue_group(application: Application, group: AskGroup, key: Key) -> None:
    application.enqueue(group, key, group.pending_class)
    group.set_counted(application.queue, counted=group.pending_class in application.needs)


def _dequeue_group(application: Application, group: AskGroup) -> None:
    application.dequeue(group, group.pending_class)
    group.set_counted(application.queue, counted=False)


def _set_priority(application: Application, group: AskGroup, priority: int | None) -> None:
    if priority == group.priority:
        return
    before = application.priority
    application.set_priority(group, priority)
    if application.priority != before and application.priority is not None:
        application.rekey()


def update_pending_classes(partition: Partition, application: Application) -> None:
    """Replaces the pending classes of its groups where their quota key changed: because it started, for example, or its
    gang passed the gate."""
    request_classes = partition.request_classes
    for group in application.groups.values():
        old = group.pending_class
        new = _pending_class(partition, application, group.request_class, placeholder=group.placeholder)
        if old is new:
            continue
        is_enqueued = bool(group.needs)
        if is_enqueued:
            _dequeue_group(application, group)
        request_classes.use(new)
        request_classes.disuse(old)
        partition.retry_timers.forget_class(old)
        group.pending_class = new
        if is_enqueued:
            _enqueue_group(application, group, group.key())
            partition.retry_timers.make_due_now(new)


def _pending_class(
    partition: Partition, application: Application, request_class: RequestClass, *, placeholder: bool
) -> PendingClass:
    """The pending class of a request class with the quota key of this application."""
    starts = (
        application.limited_starts and application.state is ApplicationState.ACCEPTED and not application.usage_ledgers
    )
    gate: Items = ()
    if placeholder and application.gang_alarm is None:
        whole = application.gang_total
        gate = (application.gang.still_to_come(whole) if application.gang is not None else whole).canonical()
    together = application.gang.gathering.all_or_none if placeholder and application.gang is not None else ()
    key = (
        PLAIN
        if application.limit_subject is None and not starts and not gate and not together
        else QuotaKey(application.limit_subject, starts, gate, together)
    )
    return partition.request_classes.pending_class(request_class, key)


def on_state_changed(partition: Partition, application: Application) -> None:
    """Its state changed, so its asks may be schedulable now, or no longer.

    While they are not, blocks from above are not kept up to date here, so blocks that were propagated here are
    forgotten first.
    """
    if application.limited_starts:
        update_pending_classes(partition, application)
    for pending_class in list(application.pending_index.blocked_by):
        application.pending_index.unblock(pending_class)
    if application.gang is not None:
        partition.gangs_touched[application] = None
    note_possible_swap(partition, application)
    partition.check_reservations(application)
    propagates_demand = application.propagates_demand
    if propagates_demand:
        _reschedule_preemption(partition, application)
    for pending_class in application.pending_index.pending_classes():
        if propagates_demand and pending_class not in application.needs:
            application.queue.enqueue(application, application.key(), pending_class)
            partition.retry_timers.make_due_now(pending_class)
        elif not propagates_demand and pending_class in application.needs:
            application.queue.dequeue(application, pending_class)
    for group in application.groups.values():
        group.set_counted(application.queue, counted=bool(group.needs) and group.pending_class in application.needs)


def set_priority_gang(partition: Partition, application: Application | None) -> None:
    """Makes all open gangs that are later than this one wait, and no others; None: no gang has to wait."""
    partition.priority_gang = application
    for one in partition.open_gangs:
        update_groups(partition, one, placeholders=True)
        for queue in one.queue.path_to_root:
            queue.rekey()


Candidate: TypeAlias = tuple[Application, AskGroup, Block | None]
"""The ask group whose first ask to try now, with its application and the nearest block of its pending class above.

The nearest block, so that what is propagated below is always unblocked together with what is directly above it.
"""


def next_ask(partition: Partition) -> Candidate | None:
    """The ask to try now, or None if nothing pending could be allocated as far as is known.

    Down the tree by fairness, then by the leaf's order, then by priority and age. What turns out to be impossible is
    recorded where the reason is, and then it is not found again until that changes.
    """
    queue = partition.root
    blocked_above: list[ParentEntity] = []
    while True:
        entity = queue.pending_index.first()
        if entity is None:
            return None
        if queue.pending_index.blocked_by:
            blocked_above.append(queue)
        if not isinstance(entity, Queue):
            break
        queue = entity
    assert isinstance(entity, Application)
    group = entity.pending_index.first()
    assert isinstance(group, AskGroup)
    for ancestor in reversed(blocked_above):
        block = ancestor.pending_index.blocked_by.get(group.pending_class)
        if block is not None:
            return entity, group, block
    return entity, group, None


def propagate(block: Block, application: Application, pending_class: PendingClass) -> None:
    """Repeats a block from further up on this path, so the cycle does not find the class here again."""
    ancestors: tuple[ParentEntity, ...] = (application, *application.queue.path_to_root)
    for ancestor in ancestors:
        if ancestor is block.origin:
            return
        if pending_class not in ancestor.pending_index.blocked_by:
            ancestor.propagate(pending_class, block)
