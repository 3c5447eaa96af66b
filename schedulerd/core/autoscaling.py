"""What a larger cluster would run, as plain values: for autoscalers, metrics and the dump of the state.

Asks are told apart as placement tells them apart: by their resources, and by what they demand of nodes.
"""

from __future__ import annotations

from schedulerd.core.decide.outstanding import outstanding, outstanding_asks
from schedulerd.core.model.constraint import Constraint
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.queue import Queue
from schedulerd.core.node_selector import selector
from schedulerd.core.resources import Items
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import OutstandingView


def outstanding_requests(partition: Partition) -> list[OutstandingView]:
    """One for each kind of ask that lacks nothing but room on nodes, queue by queue."""
    counts: dict[tuple[Items, Constraint | None], tuple[Queue, int]] = {}
    for leaf, pending_class, _, count in outstanding(partition):
        kind = pending_class.items, pending_class.request_class.constraint
        queue, before = counts.get(kind, (leaf, 0))
        counts[kind] = _common(queue, leaf), before + count
    found = [
        OutstandingView(
            queue=queue.path,
            resources=dict(items),
            node_selector=selector(constraint.node) if constraint is not None and constraint.node else "",
            affinity_scope=constraint.affinity.scope if constraint is not None and constraint.affinity else "",
            count=count,
        )
        for (items, constraint), (queue, count) in counts.items()
    ]
    return sorted(
        found, key=lambda one: (one.queue, list(one.resources.items()), one.node_selector, one.affinity_scope)
    )


def asks(scheduler: Scheduler, rm_id: str, partition: str) -> list[tuple[str, str, int]]:
    """(application, key, count) of each outstanding ask, sorted: all of them, so for tests and tools, not for a daemon.

    Raises KeyError if the RM or the partition is unknown.
    """
    found = outstanding_asks(scheduler.cluster.resource_managers[rm_id].partitions[partition])
    return sorted((application.application_id, ask.key, count) for application, ask, count in found)


def _common(one: Queue, other: Queue) -> Queue:
    """The deepest queue that both are in."""
    return next(queue for queue in one.path_to_root if queue in other.path_to_root)
