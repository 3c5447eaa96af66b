"""What placeholders mean to their application: real asks wait until the last that was asked for is placed.

Booked with every ask for placeholders and every one that is placed (SEMANTICS G3).
"""

from __future__ import annotations

from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.gang import Gang


def expect(application: Application, ask: Ask, change: int) -> None:
    """`change` more placeholders of the ask are to be placed."""
    gang = _gang(application, ask.asked_at_ns)
    gang.task_group(ask.task_group).wanted += change
    gang.asked.add(ask.request_class.items, change)
    _count(application, gang, change)


def has(application: Application, placeholder: Allocation, *, was_pending: bool) -> None:
    """A placeholder was placed, or recovered."""
    gang = _gang(application, placeholder.ask.asked_at_ns)
    if not was_pending:
        gang.first_asked_ns, gang.awaits_full = None, False
    task_group = gang.task_group(placeholder.spec.task_group)
    task_group.placed += 1
    gang.add_idle(placeholder)
    if was_pending:
        gang.asked.subtract(placeholder.request_class.items)
        _count(application, gang, -1)
    else:
        task_group.wanted += 1
        application.partition.gangs_touched[application] = None
        application.note_possible_swap()


def _gang(application: Application, now_ns: int) -> Gang:
    """Its gang, from now on if it had none."""
    if application.gang is None:
        gang = application.gang = Gang()
        gang.first_asked_ns = now_ns
        for group in application.groups.values():
            if group.task_group and not group.placeholder:
                gang.wait(group)
        for allocation in application.allocations.values():
            if allocation.spec.task_group:
                gang.held.add(allocation.request_class.items)
    return application.gang


def _count(application: Application, gang: Gang, change: int) -> None:
    """While any are to be placed it is one of the open gangs, and its real asks are not looked at."""
    partition = application.partition
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
            partition.set_priority_gang(None)
    application.reevaluate(placeholders=False)
    application.note_possible_swap()
