"""Gauges that are read from the scheduler's state at a scrape.

They cannot be kept by adding and subtracting facts: whether an ask lacks nothing but room on nodes changes with
whatever else is placed, and no fact says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.metrics_core import Metric

from schedulerd.core.autoscaling.summary import outstanding_requests
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.rules.states import StateCount
from schedulerd.observe import families
from schedulerd.observe.exposition import Pace
from schedulerd.observe.series import Series


def pending_by_state(counts: Sequence[StateCount], series: Series, pace: Pace) -> Iterator[Metric]:
    """All states of each partition, also those that no ask is in; of leaf queues only those with asks.

    To be iterated when all is counted, in any thread.
    """
    found = (
        ((*count.partition_key, state.value), number) for count in counts for state, number in count.counts.items()
    )
    yield series.gauges(families.PENDING_ASKS, found)
    of_queues = (
        ((*count.partition_key, path, state.value), number)
        for count in counts
        for path, states in pace(count.by_queue.items())
        for state, number in states.items()
        if number
    )
    yield series.gauges(families.LEAF_PENDING_ASKS, of_queues)


def partition_families(partitions: Iterable[Partition], series: Series) -> Iterator[Metric]:
    """Costs a scrape by the request classes that find no node and the leaves where they wait, up to a bound."""
    unclaimed: list[tuple[tuple[str, ...], float]] = []
    counts: list[tuple[tuple[str, ...], float]] = []
    amounts: list[tuple[tuple[str, ...], float]] = []
    used: list[tuple[tuple[str, ...], float]] = []
    allocations_used: list[tuple[tuple[str, ...], float]] = []
    for partition in partitions:
        labels = partition.rm_id, partition.name
        unclaimed.append((labels, len(partition.unclaimed)))
        requests = outstanding_requests(partition)
        counts.append((labels, sum(one.count for one in requests)))
        total = Resources(dict.fromkeys(partition.total(), 0))
        for one in requests:
            for name, amount in one.resources.items():
                total[name] += amount * one.count
        amounts.extend(((*labels, name), amount) for name, amount in sorted(total.items()))
        for gauge, total_used in ((used, partition.used), (allocations_used, partition.allocations_used)):
            gauge.extend(((*labels, name), amount) for name, amount in sorted(total_used.items()))
    yield series.gauges(families.UNCLAIMED_ALLOCATIONS, unclaimed)
    yield series.gauges(families.OUTSTANDING, counts)
    yield series.gauges(families.OUTSTANDING_RESOURCES, amounts)
    yield series.gauges(families.USED, used)
    yield series.gauges(families.ALLOCATIONS_USED, allocations_used)
