"""The metrics of Apache YuniKorn, by its names, types and labels, for its dashboards and alerts (`docs/metrics.md`).

Everything is computed at a scrape from what is counted for our own metrics; without `--yunikorn-metrics` nothing is.
YuniKorn has no labels for resource managers and partitions, so those are added up. Several names break Prometheus'
conventions (gauges called `_total`, seconds called milliseconds, queues in names): they are as its dashboards expect.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from prometheus_client.metrics_core import GaugeMetricFamily, HistogramMetricFamily, Metric

from schedulerd.core.language.lifecycles import ApplicationState, NodeState
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.observe import families
from schedulerd.observe.event_record import EventCounts
from schedulerd.observe.exposition import ROOT, Pace, Queues
from schedulerd.observe.families import Family, Kind
from schedulerd.observe.histogram import Histogram
from schedulerd.observe.holdings import PartitionKey, QueueKey, QueueTally
from schedulerd.observe.queue_quotas import QueueQuota
from schedulerd.observe.samples import counters, gauges
from schedulerd.observe.series import label_value
from schedulerd.observe.tally import Tally

NODES_COUNTED_MAX = 1_000
"""Nodes that are counted by their use in one go."""

RANGES = ("[0,10%]", *(f"({share}%,{share + 10}%]" for share in range(10, 100, 10)))
"""Values of the label `range`: shares of a node that are in use."""

BOUNDS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Bounds of all histograms, in seconds whatever their names say."""


def _family(name: str, kind: Kind, labels: tuple[str, ...], documentation: str) -> Family:
    return Family(f"yunikorn_{name}", kind, labels, documentation)


def _latency(name: str, documentation: str, labels: tuple[str, ...] = ()) -> Family:
    return _family(f"scheduler_{name}_milliseconds", Kind.HISTOGRAM, labels, documentation)


CONTAINERS = _family(
    "scheduler_container_allocation_attempt_total",
    Kind.COUNTER,
    ("state",),
    "Allocations made and ended, asks rejected, and items whose check failed.",
)
SUBMISSIONS = _family(
    "scheduler_application_submission_total",
    Kind.COUNTER,
    ("result",),
    "Applications that were taken, that were accepted in a queue, and that were rejected.",
)
APPLICATIONS = _family(
    "scheduler_application_total",
    Kind.GAUGE,
    ("state",),
    "Applications by state; completed and failed ones since the start.",
)
NODES = _family("scheduler_node", Kind.GAUGE, ("state",), "Nodes by state; failed and removed ones since the start.")
NODE_USAGE = _family(
    "scheduler_<resource>_node_usage_total", Kind.GAUGE, ("range",), "Nodes by the share of the resource in use."
)
SCHEDULING_LATENCY = _latency("scheduling_latency", "Time of a scheduling cycle, in seconds.")
SCHEDULING_CYCLE = _latency("scheduling_cycle", "Time of a scheduling cycle, in seconds.")
TRYNODE_LATENCY = _latency(
    "trynode_latency", "Time that the resource manager took to judge a node for an ask, in seconds."
)
TRYNODE_EVALUATION = _latency("trynode_evaluation", "Never observed: nodes are not tried one by one.")
TRYPREEMPTION_LATENCY = _latency("trypreemption_latency", "Never observed: the time is part of the scheduling cycle.")
SORTING_LATENCY = _latency(
    "node_sorting_latency", "Never observed: queues and applications are kept sorted.", ("level",)
)
QUEUE_APP = _family("queue_app", Kind.GAUGE, ("queue", "state"), "Applications of the leaf queue by state.")
QUEUE_APP_TOTAL = _family(
    "queue_app_total", Kind.COUNTER, ("queue", "state"), "Applications of the leaf queue that reached an end."
)
QUEUE_RESOURCE = _family(
    "queue_resource",
    Kind.GAUGE,
    ("queue", "state", "resource"),
    "Guarantee, maximum, use and demand of the queue, what it is releasing, and how many applications may run.",
)
NAMED_APP = _family("<queue>_queue_app", Kind.GAUGE, ("state",), QUEUE_APP.documentation)
NAMED_RESOURCE = _family("<queue>_queue_resource", Kind.GAUGE, ("state", "resource"), QUEUE_RESOURCE.documentation)
NAMED_CONTAINER = _family(
    "<queue>_queue_container", Kind.COUNTER, ("state",), "Allocations made and ended in the leaf queue."
)
EVENTS_CREATED = _family("event_total_created", Kind.GAUGE, (), "Events, those that are left out as repeated included.")
EVENTS_STORED = _family("event_total_stored", Kind.GAUGE, (), "Events that were recorded.")
EVENTS_NOT_STORED = _family("event_total_not_stored", Kind.GAUGE, (), "Events that were left out as repeated.")

FAMILIES = (
    *(CONTAINERS, SUBMISSIONS, APPLICATIONS, NODES, NODE_USAGE),
    *(SCHEDULING_LATENCY, SCHEDULING_CYCLE, SORTING_LATENCY),
    *(TRYNODE_LATENCY, TRYNODE_EVALUATION, TRYPREEMPTION_LATENCY),
    *(QUEUE_APP, QUEUE_APP_TOTAL, QUEUE_RESOURCE, NAMED_APP, NAMED_RESOURCE, NAMED_CONTAINER),
    *(EVENTS_CREATED, EVENTS_STORED, EVENTS_NOT_STORED),
)
"""`<resource>` and `<queue>` stand for a name in which `_` replaces all but letters, digits and `_`."""

_A = ApplicationState
_TOTALLED = (_A.RUNNING, _A.RESUMING, _A.FAILING, _A.COMPLETING)
Sums: TypeAlias = dict[tuple[str, ...], float]


class NodeUsage:
    """Counts nodes by how much of each resource is in use, in slices."""

    def __init__(self, partitions: Iterable[Partition], resources_max: int) -> None:
        """At most `resources_max` resources are counted; `left_out` has how many are not."""
        self._nodes: Iterator[Node] = iter([node for one in partitions for node in one.nodes.values()])
        self._resources_max = resources_max
        self._left_out: set[str] = set()
        self.counts: dict[str, list[int]] = {}
        """By resource: nodes in each of `RANGES`."""

    @property
    def left_out(self) -> int:
        return len(self._left_out)

    def advance(self, nodes_max: int) -> bool:
        """Counts up to `nodes_max` further nodes; False when none are left."""
        for node in islice(self._nodes, nodes_max):
            self._count(node)
            nodes_max -= 1
        return not nodes_max

    def _count(self, node: Node) -> None:
        for name, capacity in node.capacity.items():
            if capacity <= 0:
                continue
            if name not in self.counts:
                if len(self.counts) >= self._resources_max:
                    self._left_out.add(name)
                    continue
                self.counts[name] = [0] * len(RANGES)
            tenths = -(-min(node.allocated[name], capacity) * len(RANGES) // capacity)
            self.counts[name][max(0, tenths - 1)] += 1


def _scheduler_families(
    tally: Tally, cycles: Histogram, node_usage: NodeUsage, events: EventCounts, entered: Counter[str]
) -> Iterator[Metric]:
    """All families that have no queue, but `APPLICATIONS`."""
    count = tally.counters
    rejected = {kind: sum(n for key, n in count[families.REJECTIONS].items() if key[1] == kind) for kind in _REJECTED}
    attempts = {
        "allocated": sum(count[families.PLACEMENTS].values()),
        "released": sum(count[families.RELEASES].values()),
        "rejected": rejected["ask"],
        "error": sum(count[families.CHECKS_FAILED].values()),
    }
    yield counters(CONTAINERS, [((state,), number) for state, number in attempts.items()])
    results = {"new": entered["new"], "accepted": entered["accepted"], "rejected": rejected["application"]}
    yield counters(SUBMISSIONS, [((result,), number) for result, number in results.items()])
    states: Counter[NodeState] = Counter()
    for nodes in tally.nodes.values():
        states.update(nodes.states)
    by_state = {
        "active": sum(states.values()),
        "draining": states[NodeState.DRAINING],
        "failed": rejected["node"],
        "decommissioned": sum(nodes.removed for nodes in tally.nodes.values()),
    }
    yield gauges(NODES, [((state,), number) for state, number in by_state.items()])
    yield from _usage_families(node_usage)
    none = Histogram(BOUNDS)
    for family, histogram in (
        *((SCHEDULING_LATENCY, cycles), (SCHEDULING_CYCLE, cycles), (TRYNODE_LATENCY, tally.results.waits)),
        *((TRYNODE_EVALUATION, none), (TRYPREEMPTION_LATENCY, none)),
    ):
        yield _histograms(family, [()], histogram)
    yield _histograms(SORTING_LATENCY, [("app",), ("queue",)], none)
    yield gauges(EVENTS_CREATED, [((), events.recorded + events.suppressed)])
    yield gauges(EVENTS_STORED, [((), events.recorded)])
    yield gauges(EVENTS_NOT_STORED, [((), events.suppressed)])


_REJECTED = ("node", "application", "ask")


def _applications_entered(tally: Tally) -> Counter[str]:
    """How many applications entered a state since the start, by the state in lower case."""
    entered: Counter[str] = Counter()
    for (_rm_id, _partition, state), number in tally.counters[families.APPLICATION_TRANSITIONS].items():
        entered[state] += number
    return entered


def _usage_families(node_usage: NodeUsage) -> Iterator[Metric]:
    by_name: defaultdict[str, list[int]] = defaultdict(lambda: [0] * len(RANGES))
    for resource, numbers in node_usage.counts.items():
        name = NODE_USAGE.name.replace("<resource>", _in_name(resource))
        by_name[name] = [one + other for one, other in zip(by_name[name], numbers, strict=True)]
    for name, numbers in by_name.items():
        made = GaugeMetricFamily(name, NODE_USAGE.documentation, labels=NODE_USAGE.labels)
        for share, number in zip(RANGES, numbers, strict=True):
            made.add_metric((share,), number)
        yield made


def _histograms(family: Family, label_values: Iterable[tuple[str, ...]], histogram: Histogram) -> Metric:
    made = HistogramMetricFamily(family.name, family.documentation, labels=family.labels)
    for labels in label_values:
        made.add_metric(labels, buckets=histogram.buckets_at(BOUNDS), sum_value=histogram.total)
    return made


class YunikornFamilies:
    """All families, of one scrape (`schedulerd.observe.metrics.OtherFamilies`)."""

    def __init__(self, series_max: int, left_out: Counter[str], pace: Pace) -> None:
        """A family has at most `series_max` series, those of the first queues; `left_out` counts the others."""
        self._series_max = series_max
        self._left_out = left_out
        self._pace = pace
        self._entered: Counter[str] = Counter()

    def on_loop(
        self, tally: Tally, cycles: Histogram, partitions: Sequence[Partition], events: EventCounts
    ) -> Iterator[Iterable[Metric]]:
        usage = NodeUsage(partitions, max(1, self._series_max // len(RANGES)))
        while usage.advance(NODES_COUNTED_MAX):
            yield ()
        self._left_out[NODE_USAGE.name] += usage.left_out * len(RANGES)
        self._entered = _applications_entered(tally)
        yield list(_scheduler_families(tally, cycles, usage, events, self._entered))

    def by_queue(
        self,
        leaves: Queues,
        total: Mapping[QueueKey, QueueTally],
        quotas: Iterable[QueueQuota],
        capacities: Mapping[PartitionKey, Mapping[str, int]],
    ) -> Iterator[Metric]:
        applications: Sums = {}
        over: Sums = {}
        containers: Sums = {}
        states: Counter[ApplicationState] = Counter()
        for (_rm_id, _partition, path), queue in self._pace(leaves):
            states.update(queue.applications)
            for state, number in queue.applications.items():
                self._add(QUEUE_APP, applications, (path, _shown(state)), number)
            for state, number in queue.ended.items():
                self._add(QUEUE_APP_TOTAL, over, (path, state.lower()), number)
            for name, number in (("allocated", queue.placed), ("released", queue.released)):
                self._add(NAMED_CONTAINER, containers, (path, name), number)
        resources = self._resources(total, quotas, capacities)
        states[_A.RUNNING] += states[_A.STARTING]
        shown: dict[str, int] = {state.lower(): states[state] for state in _TOTALLED}
        shown |= {state.lower(): self._entered[state.lower()] for state in (_A.COMPLETED, _A.FAILED)}
        yield gauges(APPLICATIONS, [((state,), number) for state, number in shown.items()])
        yield gauges(QUEUE_APP, applications.items())
        yield _exactly(QUEUE_APP_TOTAL, over)
        yield gauges(QUEUE_RESOURCE, resources.items())
        for family, sums in ((NAMED_APP, applications), (NAMED_RESOURCE, resources), (NAMED_CONTAINER, containers)):
            yield from self._named(family, sums)

    def _resources(
        self,
        total: Mapping[QueueKey, QueueTally],
        quotas: Iterable[QueueQuota],
        capacities: Mapping[PartitionKey, Mapping[str, int]],
    ) -> Sums:
        sums: Sums = {}

        def add(path: str, state: str, amounts: Mapping[str, int]) -> None:
            for resource, amount in amounts.items():
                self._add(QUEUE_RESOURCE, sums, (path, state, resource), amount)

        for capacity in capacities.values():
            add(ROOT, "max", capacity)
        for key, guaranteed, most, max_applications, leaving in self._pace(quotas):
            add(key[2], "guaranteed", guaranteed)
            add(key[2], "max", most)
            add(key[2], "maxRunningApps", {"apps": max_applications})
            add(key[2], "preempting", leaving)
        for (_rm_id, _partition, path), queue in self._pace(total.items()):
            add(path, "allocated", queue.allocated)
            add(path, "pending", queue.pending)
        return sums

    def _add(self, family: Family, sums: Sums, labels: tuple[str, ...], number: float) -> None:
        labels = tuple(label_value(one) for one in labels)
        if labels in sums:
            sums[labels] += number
        elif len(sums) < self._series_max:
            sums[labels] = number
        else:
            self._left_out[family.name] += 1

    def _named(self, family: Family, sums: Sums) -> Iterator[Metric]:
        """One family for each queue: its path is in the name."""
        by_name: defaultdict[str, Sums] = defaultdict(lambda: defaultdict(float))
        for (path, *labels), number in self._pace(sums.items()):
            if path:  # an application that was rejected before it had a queue
                by_name[family.name.replace("<queue>", _in_name(path))][tuple(labels)] += number
        for name, samples in by_name.items():
            yield _exactly(Family(name, family.kind, family.labels, family.documentation), samples)


def _exactly(family: Family, samples: Mapping[tuple[str, ...], float]) -> Metric:
    """A family under exactly its name.

    The formats want counters to be called `_total`, and OpenMetrics leaves that out of the name of the family: the
    counter of `queue_app_total` and the gauge `queue_app` would be one family. So the type of counters is not told.
    """
    made = Metric(family.name, family.documentation, "unknown" if family.kind is Kind.COUNTER else family.kind)
    for labels, number in samples.items():
        made.add_sample(family.name, dict(zip(family.labels, labels, strict=True)), number)
    return made


def _shown(state: ApplicationState) -> str:
    """YuniKorn has no state for applications that have one allocation only."""
    return (_A.RUNNING if state is _A.STARTING else state).lower()


def _in_name(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", label_value(text))
