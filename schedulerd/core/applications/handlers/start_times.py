"""In a state-aware leaf, an application that has been blocked for long lets the next one start.

Whether an application is blocked is judged only at the end of a cycle that tried all asks. At other times it may look
as if it could start: room came free and no cycle has tried yet whether it is enough, or a reload entered all asks
again. That does not end the time for which it has been blocked, as no ask of it was allocated.
"""

from __future__ import annotations

from schedulerd.core.state.alarm_events import StartTimeout
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.start_order import admit_next, is_blocked, start_candidate, start_deadline_ns
from schedulerd.core.state.step_context import StepContext


def on_timeout(context: StepContext, application: Application) -> None:
    """The application may have been blocked for the whole timeout: a cycle finds out whether it still is."""
    application.start_alarm = None
    partition = context.partition_of(application)
    partition.start_checks[application] = None
    partition.start_check_due = True


def on_all_tried(context: StepContext, partition: Partition) -> bool:
    """A cycle tried all asks. Notes which of the applications whose start others wait for are blocked, and lets the
    next one start after one that has been blocked for the whole timeout. One that is not blocked is checked again at
    the end of the next cycle. Returns whether it let one start."""
    partition.start_check_due = False
    let_start = False
    for application in list(partition.start_checks):
        if start_candidate(application.queue) is not application:
            del partition.start_checks[application]
        elif is_blocked(application):
            del partition.start_checks[application]
            let_start = _on_blocked(context, partition, application) or let_start
    return let_start


def _on_blocked(context: StepContext, partition: Partition, application: Application) -> bool:
    if application.blocked_since_ns is None:
        application.blocked_since_ns = context.now_ns
    deadline_ns = start_deadline_ns(application)
    assert deadline_ns is not None
    alarms, alarm = context.cluster.alarms, application.start_alarm
    if alarm is not None and alarm.deadline_ns != deadline_ns:
        alarms.cancel(alarm)
        alarm = application.start_alarm = None
    if deadline_ns <= context.now_ns:
        application.lets_next_start = True
        admit_next(partition, application.queue)
        return True
    if alarm is None:
        application.start_alarm = alarms.set(deadline_ns, StartTimeout(application))
    return False
