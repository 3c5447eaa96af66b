"""What placeholders mean to their application: its real asks wait until no placeholder is pending (SEMANTICS G3).

Called for each ask for placeholders and for each placeholder that is allocated.
"""

from __future__ import annotations

from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import note_possible_swap, set_priority_gang, update_groups


def expect(partition: Partition, application: Application, ask: Ask, change: int) -> None:
    """The number of pending placeholders of the ask changes by `change`."""
    gang = _gang(application, ask.asked_at_ns)
    task_group = gang.task_group(ask.task_group)
    task_group.wanted += change
    if not task_group.placeholder_resources:
        task_group.placeholder_resources = ask.request_class.resources
    gang.asked.add(ask.request_class.items, change)
    _count(partition, application, gang, change)


def has(partition: Partition, application: Application, placeholder: Allocation, *, was_pending: bool) -> None:
    """A placeholder was allocated, or (`was_pending` is False) is an existing allocation that the RM reported."""
    gang = _gang(application, placeholder.ask.asked_at_ns)
    if not was_pending:
        gang.first_asked_ns, gang.completion_untold = None, False
    task_group = gang.task_group(placeholder.spec.task_group)
    task_group.placed += 1
    if not task_group.placeholder_resources:
        task_group.placeholder_resources = placeholder.request_class.resources
    gang.add_idle(task_group, placeholder)
    if was_pending:
        gang.asked.subtract(placeholder.request_class.items)
        _count(partition, application, gang, -1)
    else:
        task_group.wanted += 1
        partition.gangs_touched[application] = None
        note_possible_swap(partition, application)


def take_back(partition: Partition, application: Application, placeholder: Allocation) -> None:
    """The allocation of a placeholder is undone in its step: it is pending again."""
    gang = application.gang
    assert gang is not None
    task_group = gang.task_groups[placeholder.spec.task_group]
    task_group.placed -= 1
    task_group.drop_idle(placeholder)
    gang.asked.add(placeholder.request_class.items)
    _count(partition, application, gang, 1)


def _gang(application: Application, now_ns: int) -> Gang:
    """The gang of the application; created if there is none."""
    if application.gang is None:
        gang = application.gang = Gang()
        gang.first_asked_ns = now_ns
        for group in application.groups.values():
            if group.task_group and not group.placeholder:
                gang.enqueue(group)
        for allocation in application.allocations.values():
            if allocation.spec.task_group:
                gang.held.add(allocation.request_class.items)
    return application.gang


def _count(partition: Partition, application: Application, gang: Gang, change: int) -> None:
    """Changes the number of pending placeholders. While it is above 0, the application is an open gang and its real
    asks are not in the pending index."""
    waited = gang.pending > 0
    gang.pending += change
    gang.demands += 1
    partition.gangs_changed = True
    partition.gangs_touched[application] = None
    if partition.retry_timers.not_helped_by_reservation:
        partition.retry_timers.retry_application(application)
    waits = gang.pending > 0
    if waits == waited:
        return
    if waits:
        partition.open_gangs[application] = None
    else:
        del partition.open_gangs[application]
        if partition.priority_gang is application:
            set_priority_gang(partition, None)
    update_groups(partition, application, placeholders=False)
    note_possible_swap(partition, application)
