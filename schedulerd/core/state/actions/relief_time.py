"""The time that a queue above a lowered max has to shrink by itself, before its excess is preempted (quota relief).

Off by default: the partition must allow it (`quotapreemptionenabled`) and the queue must have a
`quota.preemption.delay`. The time starts when the queue is found above its max. Lowering the max again does not restart
it; a new delay moves its end. One alarm of the queue is for all of it: the end of the delay, the next pass over the
queue, and the next slice of a pass.
"""

from __future__ import annotations

from schedulerd.core.state.alarm_events import QuotaReliefDue, ReliefPass
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import StepContext


def watch(context: StepContext, partition: Partition, queue: Queue) -> None:
    """Starts, keeps or stops the time of the queue after a change of its max, its delay or its use."""
    delay_ns = queue.properties.quota_preemption_delay_ns
    is_watched = partition.spec.quota_preemption_enabled and delay_ns > 0 and queue.managed and not queue.draining
    if not is_watched or not queue.max or not queue.excess():
        forget(context, queue)
        return
    if queue.above_max_since_ns is None:
        queue.above_max_since_ns = context.now_ns
    ring_at(context, partition, queue, max(context.now_ns, queue.above_max_since_ns + delay_ns))


def watch_all(context: StepContext, partition: Partition) -> None:
    for queue in partition.root.subtree():
        watch(context, partition, queue)


def forget(context: StepContext, queue: Queue) -> None:
    """Stops quota relief of the queue, if there is one."""
    queue.above_max_since_ns = None
    _cancel(context, queue)


def _cancel(context: StepContext, queue: Queue) -> None:
    alarm = queue.above_max_alarm
    event = alarm.event if alarm is not None else None
    if isinstance(event, QuotaReliefDue) and event.relief is not None:
        event.relief.end()
    context.cluster.alarms.cancel(alarm)
    queue.above_max_alarm = None


def ring_at(
    context: StepContext, partition: Partition, queue: Queue, deadline_ns: int, relief: ReliefPass | None = None
) -> None:
    """A pass over the queue begins at that time, or `relief` goes on; another pass ends."""
    alarm = queue.above_max_alarm
    if alarm is None or not alarm.live or alarm.deadline_ns != deadline_ns:
        _cancel(context, queue)
        queue.above_max_alarm = context.cluster.alarms.set(deadline_ns, QuotaReliefDue(partition, queue, relief))
