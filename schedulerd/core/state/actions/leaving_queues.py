"""An application leaves its queue, which may then be one that nobody needs."""

from __future__ import annotations

from schedulerd.core.state.alarm_events import QueueCleanupDue
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.start_order import admit_next
from schedulerd.core.state.step_context import StepContext


def leave(context: StepContext, application: Application) -> None:
    """Removes the application from its queue. If queues are no longer needed, sets the alarm to remove them."""
    partition = context.partition_of(application)
    queue = application.queue
    partition.applications.pop(application.application_id, None)
    queue.applications.pop(application.application_id, None)
    queue.set_priority(application, None)
    partition.touch(queue)
    admit_next(partition, queue)
    watch(context, partition)


def watch(context: StepContext, partition: Partition) -> None:
    """Sets the alarm to remove unneeded queues, if there are any."""
    if partition.cleanup_alarm is None and any(queue.is_unneeded for queue in partition.root.subtree()):
        deadline_ns = context.now_ns + context.cluster.timeouts.cleanup_ns
        partition.cleanup_alarm = context.cluster.alarms.set(deadline_ns, QueueCleanupDue(partition))
