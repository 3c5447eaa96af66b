"""Queues that an operator stops and starts.

A stopped queue takes no new applications, and finishes what it has: its applications may still ask, and their asks are
allocated. So a stop touches neither ledgers nor the pending index.
"""

from __future__ import annotations

from functools import partial

from schedulerd.core.applications.rules.queue_placement import RECOVERY_QUEUE
from schedulerd.core.language import checks
from schedulerd.core.language.checks import Mistake, shown
from schedulerd.core.language.facts.fact import ItemIgnored, RejectCode
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.state.actions import queue_changes
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext


def check(context: StepContext, rm: ResourceManager, command: SetQueueStopped) -> Change:
    """Stops or starts the queue, or ignores the command with the reason."""
    found = stoppable(rm, command.partition, command.queue)
    if isinstance(found, Mistake):
        return partial(ignore, context, rm, command, found)
    return partial(_set, context, *found, command)


def ignore(context: StepContext, rm: ResourceManager, command: SetQueueStopped, mistake: Mistake) -> None:
    name = rm.known_partition_name(command.partition)
    context.emit(ItemIgnored(rm.rm_id, name, command.queue, mistake.code, mistake.reason))


def stoppable(rm: ResourceManager, partition_name: str, path: str) -> tuple[Partition, Queue] | Mistake:
    """The queue of this path, or why it cannot be stopped or started."""
    partition = rm.partition(partition_name)
    if partition is None:
        return checks.unknown_partition(partition_name, rm.partitions)
    queue = partition.root.find(path)
    if queue is None:
        return Mistake(RejectCode.INVALID_FIELD, f"queue: {shown(path)} does not exist; give its full path")
    if queue.name == RECOVERY_QUEUE:
        reason = f"queue: {queue.written} cannot be stopped; it is for applications that have to be taken"
        return Mistake(RejectCode.INVALID_FIELD, reason)
    return partition, queue


def _set(context: StepContext, partition: Partition, queue: Queue, command: SetQueueStopped) -> None:
    before = queue_changes.rules(queue)
    queue.stopped = command.stopped
    queue_changes.changed(context, partition, queue, before, by=command.by)
    queue_changes.watch_unneeded(context, partition)
