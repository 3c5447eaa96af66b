"""Dynamic queues: created for an application, and removed when they are no longer needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from schedulerd.core.applications.rules import namespace_tags
from schedulerd.core.applications.rules.queue_placement import RECOVERY_QUEUE, Placement
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.state.actions import queue_changes
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import update_pending_classes
from schedulerd.core.state.step_context import StepContext


def leaf_for(context: StepContext, partition: Partition, placement: Placement, tags: Mapping[str, str]) -> Queue:
    """The leaf queue of a placement. It is created, with its parents, if it does not exist, and gets the quotas in the
    namespace tags.

    The tags apply only to dynamic queues, and were checked before. A missing tag changes nothing.
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
    queue.update_nearest_max()
    queue_changes.changed(context, partition, queue, before)
    partition.moves += 1
    partition.note_free_quota(queue)
    partition.touch(queue)
    return queue


def report(
    context: StepContext, partition: Partition, queue: Queue, old: Mapping[str, str], tags: Mapping[str, str]
) -> None:
    """An application of the leaf says anew what its namespace has (SEMANTICS I26). The newest report wins. What its
    last report (`old`) set, and this one does not say, is what it would be without tags."""
    if not _has_namespace(queue):
        return
    before = queue_changes.rules(queue)
    queue.max, queue.guaranteed, queue.max_applications = _reported(queue, old, tags)
    queue.update_nearest_max()
    queue_changes.changed(context, partition, queue, before)
    if queue.max_applications != before.maxapplications:
        for application in queue.applications.values():
            application.update_limited_starts()
            update_pending_classes(partition, application)
    partition.moves += 1
    partition.note_free_quota(queue)
    partition.touch(queue)


def is_news(queue: Queue, old: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    """Whether a report would change the leaf."""
    return _has_namespace(queue) and _reported(queue, old, tags) != (
        queue.max,
        queue.guaranteed,
        queue.max_applications,
    )


def _reported(queue: Queue, old: Mapping[str, str], tags: Mapping[str, str]) -> tuple[Limits, Resources, int]:
    """Max, guarantee and number of applications of a leaf after a report that has no mistake."""
    assert queue.parent is not None
    plain = queue.parent.planned(queue.name, is_leaf=True)
    plain.be_removed()
    quota, guaranteed = namespace_tags.quota(tags), namespace_tags.guaranteed(tags)
    count = namespace_tags.max_applications(tags)
    lifts_max = bool(namespace_tags.quota(old))
    lifts_guaranteed = bool(namespace_tags.guaranteed(old))
    lifts_count = namespace_tags.max_applications(old) is not None
    return (
        Limits(quota) if quota else plain.max if lifts_max else queue.max,
        Resources(guaranteed) if guaranteed else plain.guaranteed if lifts_guaranteed else queue.guaranteed,
        count if count is not None else plain.max_applications if lifts_count else queue.max_applications,
    )


def planned_path(placement: Placement) -> str:
    """The path of the leaf queue of a placement, which may not exist yet."""
    return ".".join((placement.queue.path, *(name.lower() for name in placement.create)))


@contextmanager
def planned_leaf(placement: Placement) -> Iterator[Queue]:
    """The leaf queue of a placement. If it does not exist: one like it, outside the tree, for the time of the block."""
    queue = placement.queue
    planned = []
    for at, name in enumerate(placement.create, start=1):
        queue = queue.planned(name, is_leaf=at == len(placement.create))
        planned.append(queue)
    try:
        yield queue
    finally:
        for one in planned:
            one.be_removed()


def max_with(leaf: Queue, tags: Mapping[str, str]) -> Limits:
    """The max of the leaf queue after an application with these tags is placed there."""
    quota = namespace_tags.quota(tags) if _has_namespace(leaf) else None
    return Limits(quota) if quota else leaf.max


def _has_namespace(leaf: Queue) -> bool:
    return not leaf.managed and leaf.name != RECOVERY_QUEUE


def clean(context: StepContext, partition: Partition) -> None:
    """Removes all unneeded queues now."""
    context.cluster.alarms.cancel(partition.cleanup_alarm)
    partition.cleanup_alarm = None
    queue_changes.removed(context, partition, partition.root.drop_unneeded())
