"""When asks without a node are due for a reservation, or asks for a preemption attempt (`pending.retry_timers`)."""

from __future__ import annotations

from schedulerd.core.state.alarm_events import RetryDue
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.request_class import PendingClass
from schedulerd.core.state.step_context import StepContext


def mark_unschedulable(context: StepContext, partition: Partition, pending_class: PendingClass, first: Ask) -> None:
    """Marks the class as unschedulable and sets its retry timer. `first` is the ask that would be allocated next."""
    partition.mark_unschedulable(pending_class)
    timers, delay_ns = partition.retry_timers, context.cluster.timeouts.reservation_delay_ns
    timers.schedule_reservation(pending_class, first.asked_at_ns)
    if pending_class.request_class.required_node or first.asked_at_ns + delay_ns <= context.now_ns:
        timers.has_due = True


def schedule_alarm(context: StepContext, partition: Partition) -> None:
    """Arranges that the next cycle, or an alarm, collects what is due next."""
    timers = partition.retry_timers
    next_ns = timers.next_ns()
    if next_ns is None:
        context.cluster.alarms.cancel(timers.alarm)
        return
    if next_ns <= context.now_ns:
        timers.has_due = True
    elif timers.alarm is None or not timers.alarm.live or next_ns < timers.alarm.deadline_ns:
        context.cluster.alarms.cancel(timers.alarm)
        timers.alarm = context.cluster.alarms.set(next_ns, RetryDue(partition))
