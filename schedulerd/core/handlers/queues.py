"""Queues that come and go by themselves: created for an application, and removed when nobody needs them any longer."""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.core.alarm_events import QueueCleanupDue
from schedulerd.core.decide import namespace_tags
from schedulerd.core.decide.queue_placement import RECOVERY_QUEUE, Placement
from schedulerd.core.handlers import queue_changes
from schedulerd.core.model.application import Application
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.resources import Limits, Resources
from schedulerd.core.step_context import StepContext


def leaf_for(context: StepContext, partition: Partition, placement: Placement, tags: Mapping[str, str]) -> Queue:
    """The leaf of a placement, created with its parents if it does not exist, with the quotas its namespace has now.

    The tags of a namespace hold on dynamic queues only, and were found readable before; a tag that is not there changes
    nothing.
    """
    queue = placement.queue
    for at, name in enumerate(placement.create, start=1):
        queue = queue.create(name, is_leaf=at == len(placement.create))
        queue_changes.added(context, partition, [queue])
    if not _has_namespace(queue):
        return queue
    before = queue_changes.rules(queue)
    guaranteed, most = namespace_tags.guaranteed(tags), namespace_tags.max_applications(tags)
    queue.max = max_with(queue, tags)
    if guaranteed:
        queue.guaranteed = Resources(guaranteed)
    if most is not None:
        queue.max_applications = most
    queue_changes.changed(context, partition, queue, before)
    partition.moves += 1
    partition.note_free_quota(queue)
    partition.touch(queue)
    return queue


def planned_leaf(placement: Placement) -> Queue:
    """The leaf of a placement; if it does not exist, one like it, which the tree does not have."""
    queue = placement.queue
    for at, name in enumerate(placement.create, start=1):
        queue = queue.planned(name, is_leaf=at == len(placement.create))
    return queue


def max_with(leaf: Queue, tags: Mapping[str, str]) -> Limits:
    """The max of a leaf when an application with these tags has come to it."""
    quota = namespace_tags.quota(tags) if _has_namespace(leaf) else None
    return Limits(quota) if quota else leaf.max


def _has_namespace(leaf: Queue) -> bool:
    return not leaf.managed and leaf.name != RECOVERY_QUEUE


def leave(context: StepContext, application: Application) -> None:
    """The application is in its queue no longer; queues that nobody needs now have a while left."""
    queue = application.queue
    application.partition.applications.pop(application.application_id, None)
    queue.applications.pop(application.application_id, None)
    queue.show_priority(application, None)
    application.partition.touch(queue)
    queue.admit_next()
    watch(context, application.partition)


def watch(context: StepContext, partition: Partition) -> None:
    """Sets the time after which empty queues that nobody needs are removed, if there are any."""
    if partition.cleanup_alarm is None and any(queue.is_unneeded for queue in partition.root.subtree()):
        deadline_ns = context.now_ns + context.cluster.timeouts.cleanup_ns
        partition.cleanup_alarm = context.cluster.alarms.set(deadline_ns, QueueCleanupDue(partition))


def clean(context: StepContext, partition: Partition) -> None:
    """Removes them now."""
    context.cluster.alarms.cancel(partition.cleanup_alarm)
    partition.cleanup_alarm = None
    queue_changes.removed(context, partition, partition.root.drop_unneeded())
