"""Queues that come and go by themselves: created for an application, and removed when nobody needs them any longer."""

from __future__ import annotations

import json
from collections.abc import Mapping

from schedulerd.core.alarms import AlarmKind
from schedulerd.core.decide.placement import RECOVERY_QUEUE, Placement, tag
from schedulerd.core.handlers import queue_changes
from schedulerd.core.model.application import Application
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.resources import Limits, Resources
from schedulerd.core.turn import Turn

QUOTA_TAG = "namespace.resourcequota"
GUARANTEED_TAG = "namespace.resourceguaranteed"
MAX_APPLICATIONS_TAG = "namespace.resourcemaxapps"


def leaf_for(turn: Turn, partition: Partition, placement: Placement, tags: Mapping[str, str]) -> Queue:
    """The leaf of a placement, created with its parents if it does not exist, with the quotas its namespace has now.

    The tags of a namespace hold on dynamic queues only; what they say in a form that is not understood, or a quota of
    nothing but zeroes, changes nothing.
    """
    queue = placement.queue
    for at, name in enumerate(placement.create, start=1):
        queue = queue.create(name, is_leaf=at == len(placement.create))
        queue_changes.added(turn, partition, [queue])
    if queue.managed or queue.name == RECOVERY_QUEUE:
        return queue
    before = queue_changes.rules(queue)
    quota, guaranteed = _amounts(tag(tags, QUOTA_TAG)), _amounts(tag(tags, GUARANTEED_TAG))
    most = tag(tags, MAX_APPLICATIONS_TAG)
    if quota:
        queue.max = Limits(quota)
    if guaranteed:
        queue.guaranteed = Resources(guaranteed)
    if most.isdecimal():
        queue.max_applications = int(most)
    queue_changes.changed(turn, partition, queue, before)
    partition.moves += 1
    partition.note_free_quota(queue)
    partition.touch(queue)
    return queue


def take_back(turn: Turn, partition: Partition, placement: Placement) -> None:
    """Nobody comes to the leaf of this placement: what was created for it goes."""
    for name in placement.create[:1]:
        created = placement.queue.children.pop(name)
        queue_changes.removed(turn, partition, reversed(created.subtree()))


def leave(turn: Turn, application: Application) -> None:
    """The application is in its queue no longer; queues that nobody needs now have a while left."""
    queue = application.queue
    assert queue is not None
    application.partition.applications.pop(application.application_id, None)
    queue.applications.pop(application.application_id, None)
    queue.show_priority(application, None)
    application.partition.touch(queue)
    queue.give_turn()
    watch(turn, application.partition)


def watch(turn: Turn, partition: Partition) -> None:
    """Sets the time after which empty queues that nobody needs are removed, if there are any."""
    if partition.cleanup_alarm is None and any(queue.is_unneeded for queue in partition.root.subtree()):
        deadline_ns = turn.now_ns + turn.cluster.timeouts.cleanup_ns
        partition.cleanup_alarm = turn.cluster.alarms.set(deadline_ns, AlarmKind.CLEANUP, partition)


def clean(turn: Turn, partition: Partition) -> None:
    """Removes them now."""
    turn.cluster.alarms.cancel(partition.cleanup_alarm)
    partition.cleanup_alarm = None
    queue_changes.removed(turn, partition, partition.root.drop_unneeded())


def _amounts(text: str) -> dict[str, int]:
    """The amounts of a serialised SI resource, `{"resources": {"memory": {"value": 30}}}`; empty if it says nothing."""
    try:
        resources = json.loads(text)["resources"]
        amounts = {str(name): int(quantity["value"]) for name, quantity in resources.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    return amounts if any(amounts.values()) and all(amount >= 0 for amount in amounts.values()) else {}
