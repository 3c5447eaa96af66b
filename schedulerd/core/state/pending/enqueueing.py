"""Enters the ask groups of an application into the pending index, and removes them.

An application propagates the pending classes of its groups to its leaf queue, and queues propagate them to the root
(`parent_entity`). Every change of what is pending, of the application's state or of its gang comes through here.
"""

from __future__ import annotations

from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Items
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.request_class import PendingClass, RequestClass
from schedulerd.core.state.quotas.quota_key import PLAIN, QuotaKey


def enqueue_all(partition: Partition, application: Application) -> None:
    """Enters all groups of the application again, after `reset_pending`."""
    application.update_limits()
    for group in application.groups.values():
        group.reset_position()
        group.priority = None
        group.pending_class = _pending_class(partition, application, group.request_class, placeholder=group.placeholder)
        _enqueue(partition, application, group)
    _reschedule_preemption(partition, application)


def enqueue(partition: Partition, application: Application, ask: Ask) -> None:
    """The ask has pending allocations: adds it to its group, which is created if needed."""
    group_key = ask.group_key
    group = application.groups.get(group_key)
    if group is not None:
        group.add(ask)
        if not group.is_behind(ask):
            application.pending_index.rekey(group, group.key())
            _show_priority(partition, application, group)
            if not group.needs and is_schedulable(partition, application, group):
                _offer(partition, application, group)
        if application.gang is not None and group.task_group and not group.placeholder:
            application.gang.line_up(group)
    else:
        pending_class = _pending_class(partition, application, ask.request_class, placeholder=ask.placeholder)
        group = application.groups[group_key] = AskGroup(pending_class, ask.task_group, placeholder=ask.placeholder)
        group.add(ask)
        _enqueue(partition, application, group)
        if application.gang is not None and group.task_group and not group.placeholder:
            application.gang.wait(group)
    if ask.pending:
        group.demand(application.queue, ask.pending)
    if group.request_class.refused:
        partition.refused_asks.add(application, ask)
    if group.pending_class.unschedulable:
        partition.retry_timers.schedule_reservation(group.pending_class, ask.asked_at_ns)
    if ask.spec.allow_preempt_other:
        schedule_preemption(partition, application, ask)
    if application.gang is not None:
        note_possible_swap(partition, application)


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


def dequeue(partition: Partition, application: Application, ask: Ask) -> None:
    """The ask has nothing pending any more, or moves to another group: removes it from its group."""
    group = ask.group
    assert group is not None
    if ask.pending:
        group.demand(application.queue, -ask.pending)
    if group.request_class.refused:
        partition.refused_asks.discard(ask)
    group.discard(ask)
    if group.has_ready and group.needs:
        key = group.key()
        if -key[0] != group.priority:
            _show_priority(partition, application, group)
        application.pending_index.rekey(group, key)
    else:
        _show_priority(partition, application, group)
    if group:
        if not group.has_ready or not group.needs:
            _requeue(partition, application, group)
        if application.gang is not None and group.task_group and not group.placeholder:
            application.gang.line_up(group)
        return
    del application.groups[group.request_class, group.task_group, group.placeholder]
    if not application.groups:
        timers = partition.retry_timers
        if timers.attempts_due.times or timers.not_helped_by_reservation or timers.waiting_for_change:
            timers.forget_application(application)
    if group.needs:
        application.remove_demand(group, group.pending_class)
        _count(application, group)
    partition.request_classes.disuse(group.pending_class)
    if partition.retry_timers.unreservable:
        partition.retry_timers.forget_class(group.pending_class)
    if application.gang is not None and group.task_group and not group.placeholder:
        del application.gang.task_group(group.task_group).waiting[group]
        partition.denied.pop(group, None)


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
    _show_priority(partition, application, group)
    _requeue(partition, application, group)
    if application.gang is not None and group.task_group and not group.placeholder:
        application.gang.line_up(group)
        note_possible_swap(partition, application)
    partition.touch(application.queue)


def reclassify(partition: Partition, application: Application, ask: Ask, *, refused: bool) -> None:
    """Moves the ask to the refused variant of its request class (`refused`), or back to the ordinary one."""
    dequeue(partition, application, ask)
    ask.request_class = partition.request_classes.refused_variant(ask.request_class, refused=refused)
    enqueue(partition, application, ask)
    update_predicate_wait(partition, application, ask)
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
    """Real asks wait while placeholders of their gang are pending (SEMANTICS G3); placeholders wait for an earlier
    priority gang."""
    if group.placeholder:
        return gang_ahead(partition, application) is None
    return application.gang is None or not application.gang.pending


def gang_ahead(partition: Partition, application: Application) -> Application | None:
    """The application with the priority gang, if the placeholders of this application must wait for it; else None."""
    first = partition.priority_gang
    return first if first is not None and first.age < application.age else None


def reevaluate(partition: Partition, application: Application, *, placeholders: bool) -> None:
    """Whether the groups of placeholders (or of real asks, if not `placeholders`) are schedulable may have changed."""
    partition.check_reservations(application)
    _reschedule_preemption(partition, application)
    for group in application.groups.values():
        if group.placeholder is placeholders and bool(group.needs) is not is_schedulable(partition, application, group):
            _show_priority(partition, application, group)
            if group.needs:
                application.remove_demand(group, group.pending_class)
            else:
                application.add_demand(group, group.key(), group.pending_class)
                partition.retry_timers.make_due_now(group.pending_class)
            _count(application, group)


def _enqueue(partition: Partition, application: Application, group: AskGroup) -> None:
    partition.request_classes.use(group.pending_class)
    _show_priority(partition, application, group)
    if is_schedulable(partition, application, group):
        application.add_demand(group, group.key(), group.pending_class)
        _count(application, group)


def _requeue(partition: Partition, application: Application, group: AskGroup) -> None:
    """Corrects the group in the pending index after its first ready ask changed, or after it got or lost its last
    one."""
    if group.has_ready:
        application.pending_index.rekey(group, group.key())
        if not group.needs and is_schedulable(partition, application, group):
            _offer(partition, application, group)
    elif group.needs:
        application.remove_demand(group, group.pending_class)
        _count(application, group)


def _offer(partition: Partition, application: Application, group: AskGroup) -> None:
    application.add_demand(group, group.key(), group.pending_class)
    partition.retry_timers.make_due_now(group.pending_class)
    _count(application, group)


def _count(application: Application, group: AskGroup) -> None:
    """Includes what is pending in the group in the counts of its class, or removes it, after its demand changed."""
    group.show(application.queue, counted=bool(group.needs) and group.pending_class in application.needs)


def _show_priority(partition: Partition, application: Application, group: AskGroup) -> None:
    before = application.priority
    application.show_priority(
        group, group.highest_priority() if is_schedulable(partition, application, group) else None
    )
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
        has_demand = bool(group.needs)
        if has_demand:
            application.remove_demand(group, old)
            _count(application, group)
        request_classes.use(new)
        request_classes.disuse(old)
        partition.retry_timers.forget_class(old)
        group.pending_class = new
        if has_demand:
            application.add_demand(group, group.key(), new)
            _count(application, group)
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
        whole = application.spec.placeholder_ask
        gate = (application.gang.still_to_come(whole) if application.gang is not None else whole).canonical()
    key = (
        PLAIN
        if application.limit_subject is None and not starts and not gate
        else QuotaKey(application.limit_subject, starts, gate)
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
            application.queue.add_demand(application, application.key(), pending_class)
            partition.retry_timers.make_due_now(pending_class)
        elif not propagates_demand and pending_class in application.needs:
            application.queue.remove_demand(application, pending_class)
    for group in application.groups.values():
        _count(application, group)


def set_priority_gang(partition: Partition, application: Application | None) -> None:
    """Makes all open gangs that are later than this one wait, and no others; None: no gang has to wait."""
    partition.priority_gang = application
    for one in partition.open_gangs:
        reevaluate(partition, one, placeholders=True)
        for queue in one.queue.path_to_root:
            queue.rekey()
