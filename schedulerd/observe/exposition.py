"""Turns counts into the metric families of the client library, at scrape time.

Amounts are kept per queue as facts name it; here they are summed over parents, so a scrape pays for the tree and a
placement does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.core.specs import SECOND_NS
from schedulerd.observe import families
from schedulerd.observe.families import Family
from schedulerd.observe.histogram import Histogram
from schedulerd.observe.holdings import QueueKey, QueueTally
from schedulerd.observe.preemption_tally import PreemptionTally
from schedulerd.observe.tally import Tally

Samples: TypeAlias = Iterable[tuple[tuple[str, ...], float]]


def tally_families(tally: Tally) -> Iterator[Metric]:
    for family, counts in tally.counters.items():
        yield counters(family, counts.items())
    yield histograms(families.PLACEMENT_LATENCY, {(): tally.placement_latency})
    yield histograms(families.GANG_COMPLETE, {(): tally.gang_complete})
    yield from _preemption_families(tally.preemption)
    yield histograms(families.VERDICT_WAIT, {(): tally.verdicts.waits})
    yield from _queue_families(tally)
    yield from _node_families(tally)
    reloads = tally.last_reloads.items()
    yield gauges(families.LAST_RELOAD, [((rm_id,), last.at_ns / SECOND_NS) for rm_id, last in reloads])
    yield gauges(families.LAST_RELOAD_SUCCESSFUL, [((rm_id,), last.successful) for rm_id, last in reloads])
    states = list(tally.resource_managers.values())
    yield gauges(families.RESOURCE_MANAGERS, [((state,), states.count(state)) for state in ResourceManagerState])


def _preemption_families(tally: PreemptionTally) -> Iterator[Metric]:
    queues = tally.queues.items()
    yield counters(families.PREEMPTIONS, [(key, queue.preemptions) for key, queue in queues])
    yield counters(families.PREEMPTION_VICTIMS, [(key, queue.victims) for key, queue in queues])
    quota = ((key, outcome, n) for key, queue in queues for outcome, n in queue.quota_preemptions.items())
    yield counters(families.QUOTA_PREEMPTIONS, [((*key, outcome), n) for key, outcome, n in quota])
    yield gauges(families.RESERVATIONS, tally.held.items())
    yield histograms(families.PREEMPTION_ROOM_MADE, {(): tally.room_made})


def _queue_families(tally: Tally) -> Iterator[Metric]:
    queues = _with_parents(tally)
    yield gauges(families.PENDING_ASKS, [(key, queue.pending_asks) for key, queue in queues.items() if queue.pending])
    gangs = [(key, queue) for key, queue in queues.items() if queue.has_gangs]
    yield gauges(families.PARKED_ASKS, [(key, queue.parked_asks) for key, queue in gangs])
    yield gauges(families.PENDING_PLACEHOLDERS, [(key, queue.pending_placeholders) for key, queue in gangs])
    yield gauges(families.ALLOCATED_PLACEHOLDERS, [(key, queue.allocated_placeholders) for key, queue in gangs])
    pending = ((key, name, amount) for key, queue in queues.items() for name, amount in queue.pending.items())
    yield gauges(families.PENDING, [((*key, name), amount) for key, name, amount in pending])
    allocated = ((key, name, amount) for key, queue in queues.items() for name, amount in queue.allocated.items())
    yield gauges(families.ALLOCATED, [((*key, name), amount) for key, name, amount in allocated])
    applications = ((key, state, n) for key, queue in queues.items() for state, n in queue.applications.items())
    yield gauges(families.APPLICATIONS, [((*key, state.lower()), count) for key, state, count in applications])


def _with_parents(tally: Tally) -> dict[QueueKey, QueueTally]:
    """What is in each queue and below it. The root is there, with zeros, for all that the partition's nodes offer."""
    total: dict[QueueKey, QueueTally] = {}
    for (rm_id, partition), nodes in tally.nodes.items():
        root = total[rm_id, partition, "root"] = QueueTally()
        for name in nodes.capacity:
            root.pending[name] = root.allocated[name] = 0
    for (rm_id, partition, path), queue in tally.queues.items():
        while True:
            total.setdefault((rm_id, partition, path), QueueTally()).add(queue)
            path, dot, _ = path.rpartition(".")
            if not dot:
                break
    return total


def _node_families(tally: Tally) -> Iterator[Metric]:
    states = ((key, state, count) for key, nodes in tally.nodes.items() for state, count in nodes.states.items())
    yield gauges(families.NODES, [((*key, state), count) for key, state, count in states])
    capacity = ((key, name, amount) for key, nodes in tally.nodes.items() for name, amount in nodes.capacity.items())
    yield gauges(families.CAPACITY, [((*key, name), amount) for key, name, amount in capacity])
    occupied = ((key, name, amount) for key, nodes in tally.nodes.items() for name, amount in nodes.occupied.items())
    yield gauges(families.OCCUPIED, [((*key, name), amount) for key, name, amount in occupied])


def counters(family: Family, samples: Samples) -> Metric:
    metric = CounterMetricFamily(family.name, family.documentation, labels=family.labels)
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric


def gauges(family: Family, samples: Samples) -> Metric:
    metric = GaugeMetricFamily(family.name, family.documentation, labels=family.labels)
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric


def histograms(family: Family, series: Mapping[tuple[str, ...], Histogram]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.documentation, labels=family.labels, unit="seconds")
    for labels, histogram in series.items():
        metric.add_metric(labels, buckets=histogram.buckets(), sum_value=histogram.total)
    return metric
