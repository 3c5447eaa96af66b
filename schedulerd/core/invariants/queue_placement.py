"""What must hold of the tree of queues, and of the removal of queues that are not needed."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition


def queue_tree(partition: Partition) -> Iterator[str]:
    """Only leaves have applications, only parents have queues that do not drain, and unneeded queues are removed."""
    for queue in partition.root.subtree():
        if queue.is_leaf and any(not child.draining for child in queue.children.values()):
            yield f"{queue.path} is a leaf and has queues that are not draining"
        if not queue.is_leaf and queue.applications:
            yield f"{queue.path} is a parent and has applications"
        if queue.is_unneeded and partition.cleanup_alarm is None:
            yield f"{queue.path} is not needed, and no alarm removes it"
        yield from _inherited(queue)


def _inherited(queue: Queue) -> Iterator[str]:
    """A queue has from those above it what a queue that is created now would have."""
    nearest_max = {name: most for one in reversed(queue.path_to_root) for name, most in one.max.items()}
    if queue.nearest_max != nearest_max:
        yield f"the nearest max at {queue.path} is {dict(queue.nearest_max)}, not {nearest_max}"
    if not queue.managed and queue.parent is not None:
        now = queue.parent.planned(queue.name, is_leaf=queue.is_leaf)
        now.be_removed()
        if (queue.properties, queue.template) != (now.properties, now.template):
            yield f"{queue.path} has not the properties that it inherits"


def alarms(partition: Partition) -> Iterator[Alarm | None]:
    alarm = partition.cleanup_alarm
    yield alarm if alarm is not None and alarm.live else None
