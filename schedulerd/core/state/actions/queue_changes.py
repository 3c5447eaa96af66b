"""Queues change: the facts about what changed in them, and applications that leave them.

The rules of a queue change in several places (a queue file, namespace tags, a template). So changes are found here, by
comparing the rules before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import Acl, LimitSpec, QueueProperties, TemplateSpec
from schedulerd.core.state.alarm_events import QueueCleanupDue
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.start_order import admit_next
from schedulerd.core.state.step_context import StepContext


class Rules(NamedTuple):
    """All rules that can change in a queue that stays. Names from `maxapplications` on are shown to people as they
    are."""

    is_leaf: bool
    max: Limits
    guaranteed: Resources
    managed: bool
    draining: bool
    stopped: bool
    maxapplications: int
    properties: QueueProperties
    limits: tuple[LimitSpec, ...]
    childtemplate: TemplateSpec | None
    submitacl: Acl
    adminacl: Acl


_TOLD_BY_NAME = Rules._fields[Rules._fields.index("maxapplications") :]


def rules(queue: Queue) -> Rules:
    """The current rules of the queue."""
    return Rules(
        is_leaf=queue.is_leaf,
        max=queue.max,
        guaranteed=queue.guaranteed,
        managed=queue.managed,
        draining=queue.draining,
        stopped=queue.stopped,
        maxapplications=queue.max_applications,
        properties=queue.properties,
        limits=queue.limits,
        childtemplate=queue.template,
        submitacl=queue.submit_acl,
        adminacl=queue.admin_acl,
    )


def added(context: StepContext, partition: Partition, queues: Iterable[Queue]) -> None:
    """Tells that queues were added, with their quotas."""
    for queue in queues:
        _say(context, partition, queue, QueueChange.ADDED)
        _say_quotas(context, partition, queue, Limits(), Resources())


def removed(context: StepContext, partition: Partition, queues: Iterable[Queue]) -> None:
    """Tells that queues were removed. The caller gives children before their parents."""
    for queue in queues:
        _say(context, partition, queue, QueueChange.REMOVED)


def changed(context: StepContext, partition: Partition, queue: Queue, before: Rules, by: str = "") -> None:
    """Tells what differs from `before`; sends nothing if nothing does. `by` names the operator who changed it."""
    after = rules(queue)
    if after == before:
        return
    if after.is_leaf != before.is_leaf:
        _say(context, partition, queue, QueueChange.TYPE)
    _say_quotas(context, partition, queue, before.max, before.guaranteed)
    told = [name for name in _TOLD_BY_NAME if getattr(after, name) != getattr(before, name)]
    sentences = [f"changed: {', '.join(told)}"] if told else []
    if after.managed and not before.managed:
        sentences.append("the queue file names it now")
    if after.draining != before.draining:
        sentences.append(
            "accepts nothing new, and is removed when it is empty" if after.draining else "accepts applications again"
        )
    if after.stopped != before.stopped:
        operator = f" by {by}" if by else ""
        takes = "takes no new applications, and finishes those it has" if after.stopped else "takes applications again"
        sentences.append(f"{'stopped' if after.stopped else 'started'}{operator}: {takes}")
    if sentences:
        _say(context, partition, queue, QueueChange.CONFIGURATION, message="; ".join(sentences))


def _say_quotas(context: StepContext, partition: Partition, queue: Queue, max: Limits, guaranteed: Resources) -> None:
    if queue.max != max:
        _say(context, partition, queue, QueueChange.MAX, queue.max)
    if queue.guaranteed != guaranteed:
        _say(context, partition, queue, QueueChange.GUARANTEED, queue.guaranteed)


def _say(
    context: StepContext,
    partition: Partition,
    queue: Queue,
    change: QueueChange,
    amounts: Mapping[str, int] | None = None,
    message: str = "",
) -> None:
    context.emit(
        QueueChanged(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            change=change,
            managed=queue.managed,
            is_leaf=queue.is_leaf,
            amounts=amounts or {},
            message=message,
        )
    )


def leave(context: StepContext, application: Application) -> None:
    """Removes the application from its queue. If queues are no longer needed, sets the alarm to remove them."""
    partition = context.partition_of(application)
    queue = application.queue
    partition.applications.pop(application.application_id, None)
    queue.applications.pop(application.application_id, None)
    queue.set_priority(application, None)
    partition.touch(queue)
    admit_next(partition, queue)
    watch_unneeded(context, partition)


def watch_unneeded(context: StepContext, partition: Partition) -> None:
    """Sets the alarm to remove unneeded queues, if there are any."""
    if partition.cleanup_alarm is None and any(queue.is_unneeded for queue in partition.root.subtree()):
        deadline_ns = context.now_ns + context.cluster.timeouts.cleanup_ns
        partition.cleanup_alarm = context.cluster.alarms.set(deadline_ns, QueueCleanupDue(partition))
