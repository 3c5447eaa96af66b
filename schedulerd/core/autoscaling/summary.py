"""Outstanding asks as plain values, for autoscalers, metrics and state dumps.

Asks are one kind if they ask for the same resources and demand the same of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.autoscaling.rules.outstanding import outstanding, outstanding_asks
from schedulerd.core.language.resources import Items
from schedulerd.core.state.constraints.constraint import Constraint
from schedulerd.core.state.constraints.node_class_attributes import is_node_class
from schedulerd.core.state.constraints.node_selector import selector
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import Cluster


@dataclass(frozen=True, slots=True)
class OutstandingView:
    """Equal outstanding asks: they lack nothing but room on nodes (SI 2021-02 `OutstandingResourceRequest`)."""

    resources: dict[str, int]
    """Amounts of each allocation."""
    count: int
    """Number of allocations of that size that a larger cluster would run."""
    queue: str
    """The lowest queue that contains all of them."""
    node_selector: str
    """Their demands on node attributes, as a label selector; '' if none."""
    affinity_scope: str
    """The node attribute that forms the groups of their affinity; '' if they have none."""


def outstanding_requests(partition: Partition) -> list[OutstandingView]:
    """The outstanding asks, one view for each kind, by queue."""
    counts: dict[tuple[Items, Constraint | None], tuple[Queue, int]] = {}
    for leaf, pending_class, _, count in outstanding(partition):
        kind = pending_class.items, pending_class.request_class.constraint
        queue, before = counts.get(kind, (leaf, 0))
        counts[kind] = _common(queue, leaf), before + count
    found = [
        OutstandingView(
            queue=queue.path,
            resources=dict(items),
            node_selector=selector(one for one in constraint.node if not is_node_class(one.key))
            if constraint is not None
            else "",
            affinity_scope=constraint.affinity.scope if constraint is not None and constraint.affinity else "",
            count=count,
        )
        for (items, constraint), (queue, count) in counts.items()
    ]
    return sorted(
        found, key=lambda one: (one.queue, list(one.resources.items()), one.node_selector, one.affinity_scope)
    )


def asks(cluster: Cluster, rm_id: str, partition: str) -> list[tuple[str, str, int]]:
    """(application, key, count) of all outstanding asks, sorted. Unbounded, so for tests and tools only.

    Raises KeyError if the RM or the partition is unknown.
    """
    found = outstanding_asks(cluster.resource_managers[rm_id].partitions[partition])
    return sorted((application.application_id, ask.key, count) for application, ask, count in found)


def _common(one: Queue, other: Queue) -> Queue:
    """The lowest queue that contains both."""
    return next(queue for queue in one.path_to_root if queue in other.path_to_root)
