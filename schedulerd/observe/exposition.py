"""Turns counts into the metric families of the client library, at scrape time.

Amounts are kept per queue as facts name it; here they are summed over parents, so a scrape pays for the tree and a
placement does not. With many queues that takes long: it is done with copies, by another thread than the loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeAlias, TypeVar

from prometheus_client.metrics_core import Metric

from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.observe import families
from schedulerd.observe.families import Family
from schedulerd.observe.holdings import PartitionKey, QueueKey, QueueTally
from schedulerd.observe.preemption_tally import PreemptionTally
from schedulerd.observe.samples import Samples, counters, gauges, histograms
from schedulerd.observe.series import Series
from schedulerd.observe.tally import Tally

ROOT = "root"

ItemT = TypeVar("ItemT")
Queues: TypeAlias = Iterable[tuple[QueueKey, QueueTally]]
QueueResources: TypeAlias = tuple[PartitionKey, Iterable[str]]
"""Names of the resources in a partition."""


class Pace(Protocol):
    """Gives the same items; what takes long stops between two of them, so that others have the interpreter."""

    def __call__(self, items: Iterable[ItemT]) -> Iterable[ItemT]: ...


def tally_families(tally: Tally, series: Series) -> Iterator[Metric]:
    """All families but those of `queue_families`."""
    for family, counts in tally.counters.items():
        yield series.counters(family, counts.items()) if family.labels else counters(family, counts.items())
    yield histograms(families.PLACEMENT_LATENCY, {(): tally.placement_latency})
    yield histograms(families.GANG_COMPLETE, {(): tally.gang_complete})
    yield series.gauges(families.GANG_STATES, tally.gang_states.items())
    yield from _preemption_families(tally.preemption, series)
    yield histograms(families.PREDICATE_WAIT, {(): tally.results.waits})
    yield from _node_families(tally, series)
    reloads = tally.last_reloads.items()
    yield series.gauges(families.LAST_RELOAD, [((rm_id,), last.wall_ns / SECOND_NS) for rm_id, last in reloads])
    yield series.gauges(families.LAST_RELOAD_SUCCESSFUL, [((rm_id,), last.successful) for rm_id, last in reloads])
    states = list(tally.resource_managers.values())
    yield gauges(families.RESOURCE_MANAGERS, [((state,), states.count(state)) for state in ResourceManagerState])


def _preemption_families(tally: PreemptionTally, series: Series) -> Iterator[Metric]:
    queues = tally.queues.items()
    yield series.counters(families.PREEMPTIONS, [(key, queue.preemptions) for key, queue in queues])
    yield series.counters(families.PREEMPTION_VICTIMS, [(key, queue.victims) for key, queue in queues])
    quota = ((key, outcome, n) for key, queue in queues for outcome, n in queue.quota_preemptions.items())
    yield series.counters(families.QUOTA_PREEMPTIONS, [((*key, outcome), n) for key, outcome, n in quota])
    yield series.gauges(families.RESERVATIONS, tally.held.items())
    yield histograms(families.PREEMPTION_ROOM_MADE, {(): tally.room_made})


def queue_families(total: Mapping[QueueKey, QueueTally], series: Series, pace: Pace) -> Iterator[Metric]:
    """The families by queue. `total` is what `with_parents` returned."""

    def of(value: Callable[[QueueTally], float], shown: Callable[[QueueTally], object]) -> Samples:
        return ((key, value(queue)) for key, queue in pace(total.items()) if shown(queue))

    def by_name(amounts: Callable[[QueueTally], Mapping[str, int]]) -> Samples:
        return (((*key, name), n) for key, queue in total.items() for name, n in pace(amounts(queue).items()))

    yield series.gauges(families.PENDING_ALLOCATIONS, of(lambda queue: queue.pending_asks, lambda queue: queue.pending))
    for family, value in _OF_GANGS.items():
        yield series.gauges(family, of(value, lambda queue: queue.has_gangs))
    yield series.gauges(families.PENDING, by_name(lambda queue: queue.pending))
    yield series.gauges(families.ALLOCATED, by_name(lambda queue: queue.allocated))
    states = by_name(lambda queue: {state.lower(): count for state, count in queue.applications.items()})
    yield series.gauges(families.APPLICATIONS, states)


_OF_GANGS: Mapping[Family, Callable[[QueueTally], int]] = {
    families.ASKS_AWAITING_PLACEHOLDER: lambda queue: queue.asks_awaiting_placeholder,
    families.PENDING_PLACEHOLDERS: lambda queue: queue.pending_placeholders,
    families.ALLOCATED_PLACEHOLDERS: lambda queue: queue.allocated_placeholders,
    families.PENDING_SLOTS: lambda queue: queue.pending_slots,
    families.HELD_SLOTS: lambda queue: queue.held_slots,
}


def with_parents(queues: Queues, resources: Iterable[QueueResources], pace: Pace) -> dict[QueueKey, QueueTally]:
    """Sums of each queue with all queues below it; a parent comes before its children. `queues` are copies.

    The root is included, with zeros, for all of `resources`, those of the partition's nodes.
    """
    total: dict[QueueKey, QueueTally] = {}
    for (rm_id, partition), names in resources:
        root = total[rm_id, partition, ROOT] = QueueTally()
        for name in names:
            root.pending[name] = root.allocated[name] = 0
    for (rm_id, partition, path), queue in pace(queues):
        end = 0
        while end >= 0:
            end = path.find(".", end + 1)
            above = path if end < 0 else path[:end]
            total.setdefault((rm_id, partition, above), QueueTally()).add(queue)
    return total


def _node_families(tally: Tally, series: Series) -> Iterator[Metric]:
    states = ((key, state, count) for key, nodes in tally.nodes.items() for state, count in nodes.states.items())
    yield series.gauges(families.NODES, [((*key, state), count) for key, state, count in states])
    capacity = ((key, name, amount) for key, nodes in tally.nodes.items() for name, amount in nodes.capacity.items())
    yield series.gauges(families.CAPACITY, [((*key, name), amount) for key, name, amount in capacity])
    occupied = ((key, name, amount) for key, nodes in tally.nodes.items() for name, amount in nodes.occupied.items())
    yield series.gauges(families.OCCUPIED, [((*key, name), amount) for key, name, amount in occupied])
