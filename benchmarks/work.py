"""What the core did, counted: exact on every machine, where a time is not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from statistics import median

from schedulerd.core.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Work:
    """Of a run, or per placement."""

    asks_tried: float
    """How often a node was looked for, or a quota found short."""
    nodes_visited: float
    """Nodes and blocks of nodes visited."""
    queues_rekeyed: float
    """Places given anew among their siblings, in a line and among the heads of lines. The next two are of applications
    and groups."""
    applications_rekeyed: float
    groups_rekeyed: float
    """Of asks that are alike, in their application."""
    nodes_rekeyed: float
    """Places given anew in the order of nodes."""
    facts: float
    blocks: float
    """Of memory, that the interpreter took and has not given back: what is there for good."""

    @classmethod
    def median(cls, works: Iterable[Work]) -> Work:
        """Of each count by itself."""
        return cls(*map(median, zip(*map(astuple, works), strict=True)))

    def since(self, before: Work) -> Work:
        return Work(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))

    def per(self, placements: int) -> Work:
        return Work(*(total / placements for total in astuple(self)))


def node_visits(scheduler: Scheduler) -> int:
    """Nodes and blocks of nodes visited since the scheduler began."""
    return sum(partition.node_order.visits for partition in scheduler.cluster.partitions())


def work_so_far(scheduler: Scheduler, facts: int) -> Work:
    """Since the scheduler began, which has said so many facts."""
    blocks = sys.getallocatedblocks()
    partitions = list(scheduler.cluster.partitions())
    queues = [queue for partition in partitions for queue in partition.root.subtree()]
    applications = [application for partition in partitions for application in partition.applications.values()]
    return Work(
        asks_tried=sum(partition.asks_tried for partition in partitions),
        nodes_visited=node_visits(scheduler),
        queues_rekeyed=sum(queue.pending_index.places_given for queue in queues if not queue.is_leaf),
        applications_rekeyed=sum(queue.pending_index.places_given for queue in queues if queue.is_leaf),
        groups_rekeyed=sum(application.pending_index.places_given for application in applications),
        nodes_rekeyed=sum(partition.node_order.places_given for partition in partitions),
        facts=facts,
        blocks=blocks,
    )
