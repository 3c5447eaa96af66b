"""The daemon's metrics: fed with facts and with what the shell measures, read by a scrape.

A `labels()` call of the client library costs more than placing a pod may, so counting is done on plain integers (see
`tally.py`) and a collector turns them into metric families at a scrape. What is scraped is one consistent
moment, because scrape and scheduler share a loop.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Protocol, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from schedulerd import __version__
from schedulerd.build import core_build
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.rules.states import StateCount
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.instant import Instant
from schedulerd.observe import families
from schedulerd.observe.callback_tally import CallbackTally
from schedulerd.observe.event_record import EventCounts
from schedulerd.observe.exposition import Pace, Queues, queue_families, tally_families, with_parents
from schedulerd.observe.families import Family
from schedulerd.observe.histogram import Histogram
from schedulerd.observe.holdings import PartitionKey, QueueKey, QueueTally
from schedulerd.observe.partition_gauges import partition_families, pending_by_state
from schedulerd.observe.queue_quotas import QueueQuota, QuotaWalk, quota_families
from schedulerd.observe.samples import counters, gauges, histograms
from schedulerd.observe.series import Series
from schedulerd.observe.tally import ReloadResult, Tally

ItemT = TypeVar("ItemT")
Buffer: TypeAlias = Literal["inbox", "outbox"]

APPLICATIONS_COUNTED_MAX = 500
"""Applications whose pending asks are counted by state for a scrape in one go."""
QUEUES_COPIED_MAX = 2_000
"""Queues whose counts are copied in one go: some 10 ms."""
_DEPTH_FAMILIES: Mapping[str, Family] = {"inbox": families.INBOX_DEPTH, "outbox": families.OUTBOX_DEPTH}


@dataclass(frozen=True, slots=True)
class JournalCounts:
    """How far a journal is that was asked for."""

    is_recording: bool
    written_bytes: int
    waiting_bytes: int


class OtherFamilies(Protocol):
    """Families under names of another scheduler, made for one scrape of what is counted for ours."""

    def on_loop(
        self, tally: Tally, cycles: Histogram, partitions: Sequence[Partition], events: EventCounts
    ) -> Iterator[Iterable[Metric]]:
        """Those without queues, in parts. `cycles` are the durations of scheduling cycles."""

    def by_queue(
        self,
        leaves: Queues,
        total: Mapping[QueueKey, QueueTally],
        quotas: Iterable[QueueQuota],
        capacities: Mapping[PartitionKey, Mapping[str, int]],
    ) -> Iterator[Metric]:
        """Those of queues. `leaves` has each queue without those below it, `total` with them. To be iterated after
        `on_loop`, in another thread."""


MakeOthers: TypeAlias = Callable[[int, Counter[str], Pace], OtherFamilies]
"""A family has at most so many series; the counter is told how many were left out, by family."""


class Metrics:
    """Counts what happens and exposes it in `registry`, next to the metrics of the process and of Python itself.

    Not safe for threads: call everything, a scrape included, on the loop that owns the scheduler.
    """

    def __init__(self, series_max: int = sys.maxsize, make_others: MakeOthers | None = None) -> None:
        """`series_max` is how many series a family has at most; more are left out, and added up. `make_others` is
        called for each scrape."""
        self._series_max = series_max
        self._make_others = make_others
        self.left_out: Mapping[str, int] = {}
        """How many series the last scrape left out, by the name of their family."""
        self._tally = Tally()
        self._cycle_duration = Histogram(families.CYCLE_DURATION.bounds_seconds)
        self._loop_lag = Histogram(families.LOOP_LAG.bounds_seconds)
        self._step_durations: dict[str, Histogram] = {}
        self._depths: dict[Family, Callable[[], int]] = {}
        self._checksums: Callable[[], Iterable[tuple[str, str]]] = lambda: ()
        self._queue_files: Callable[[], Mapping[str, bool]] = dict
        self._resource_managers: Callable[[], Iterable[ResourceManager]] = lambda: ()
        self._event_counts: Callable[[], EventCounts] = EventCounts
        self._refusals: Callable[[], Mapping[tuple[str, str], int]] = dict
        self._journal: Callable[[], JournalCounts] | None = None
        self.callbacks = CallbackTally()
        """Counts of the callback streams; the callback service adds to them."""
        self.registry = CollectorRegistry()
        self.registry.register(_FamiliesCollector(lambda: chain.from_iterable(self._own_parts(_at_once))))
        self._others: Sequence[Collector] = (
            ProcessCollector(registry=self.registry),
            PlatformCollector(registry=self.registry),
            GCCollector(registry=self.registry),
        )

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """Counts facts, in order.

        `now` is when the turn that caused them ended: it ends the placement latency of the allocations among them.
        """
        self._tally.observe(facts, now)

    def reload(self, rm_id: str, result: ReloadResult, wall_ns: int) -> None:
        """Counts a reload that ended before the scheduler heard of it, which no fact tells."""
        self._tally.reload(rm_id, result, wall_ns)

    def placements(self, rm_id: str, partition: str) -> int:
        """Allocations made for asks of a partition so far."""
        return self._tally.counters[families.PLACEMENTS].get((rm_id, partition), 0)

    def cycle_seconds(self, seconds: float) -> None:
        """Counts a scheduling cycle that held the loop for so long."""
        self._cycle_duration.observe(seconds)

    def loop_lag_seconds(self, seconds: float) -> None:
        """Counts a timer that the loop ran so long after it was due."""
        self._loop_lag.observe(seconds)

    def step_seconds(self, command_name: str, seconds: float) -> None:
        """Counts a step of the scheduler that took so long; `command_name` is the class of the command."""
        histogram = self._step_durations.get(command_name)
        if histogram is None:
            histogram = self._step_durations[command_name] = Histogram(families.STEP_DURATION.bounds_seconds)
        histogram.observe(seconds)

    def watch_depth(self, name: Buffer, depth: Callable[[], int]) -> None:
        """Lets every scrape ask `depth` how many items wait in the buffer `name`.

        Until that is done the buffer has no sample. Raises `ValueError` for any other name.
        """
        family = _DEPTH_FAMILIES.get(name)
        if family is None:
            raise ValueError(f"watch_depth: no buffer {name!r}; allowed are {', '.join(_DEPTH_FAMILIES)}")
        self._depths[family] = depth

    def watch_checksums(self, checksums: Callable[[], Iterable[tuple[str, str]]]) -> None:
        """Lets every scrape ask for the checksum of the queue file that each resource manager lives by, by its id."""
        self._checksums = checksums

    def watch_queue_files(self, validity: Callable[[], Mapping[str, bool]]) -> None:
        """Lets every scrape ask which queue files can be used, by policy group."""
        self._queue_files = validity

    def watch_events(self, counts: Callable[[], EventCounts]) -> None:
        """Lets every scrape ask for the counts of events; until that is done they are zero."""
        self._event_counts = counts

    def watch_refusals(self, counts: Callable[[], Mapping[tuple[str, str], int]]) -> None:
        """Lets every scrape ask how many calls were refused, by method and status; until that is done none were."""
        self._refusals = counts

    def watch_journal(self, counts: Callable[[], JournalCounts]) -> None:
        """Lets every scrape ask how far the journal is; a daemon that is to write none has no such samples."""
        self._journal = counts

    def watch_state(self, resource_managers: Callable[[], Iterable[ResourceManager]]) -> None:
        """Lets every scrape read the state of all resource managers; until that is done there are none."""
        self._resource_managers = resource_managers

    def parts(self, pace: Pace) -> Iterator[Iterable[Metric]]:
        """All metrics, in parts, for one scrape.

        To be iterated on the loop, which may turn between two parts: none of them holds it for long. The metrics in a
        part may be iterated later, in order, in another thread, where `pace` is called for what takes long. What is
        scraped without a turn between the parts is of one moment.
        """
        yield from self._own_parts(pace)
        for collector in self._others:
            yield collector.collect()

    def _own_parts(self, pace: Pace) -> Iterator[Iterable[Metric]]:
        states = self._tally.resource_managers.values()
        series = Series(self._series_max, sum(state is not ResourceManagerState.STOPPED for state in states))
        for metric in self._families(series):
            yield (metric,)
        counts = []
        for count in [StateCount(one, rm.state) for rm in self._resource_managers() for one in rm.partitions.values()]:
            while count.advance(APPLICATIONS_COUNTED_MAX):
                yield ()
            counts.append(count)
        yield pending_by_state(counts, series, pace)
        partitions = [one for rm in self._resource_managers() for one in rm.partitions.values()]
        walks = [QuotaWalk(one) for one in partitions]
        for walk in walks:
            while walk.advance(QUEUES_COPIED_MAX):
                yield ()
        quotas = [quota for walk in walks for quota in walk.found]
        others = None if self._make_others is None else self._make_others(self._series_max, series.left_out, pace)
        if others is not None:
            yield from others.on_loop(self._tally, self._cycle_duration, partitions, self._event_counts())
        capacities = {key: dict(nodes.capacity) for key, nodes in self._tally.nodes.items()}
        queues = list(self._tally.queues.items())
        copies: list[tuple[QueueKey, QueueTally]] = []
        for start in range(0, len(queues), QUEUES_COPIED_MAX):
            copies.extend((key, queue.copy()) for key, queue in queues[start : start + QUEUES_COPIED_MAX])
            yield ()

        def by_queue() -> Iterator[Metric]:
            """To be iterated in another thread."""
            total = with_parents(copies, capacities.items(), pace)
            yield from queue_families(total, series, pace)
            yield from quota_families(quotas, series, pace)
            if others is not None:
                yield from others.by_queue(copies, total, quotas, capacities)

        yield by_queue()
        yield self._left_out_families(series)

    def _left_out_families(self, series: Series) -> Iterator[Metric]:
        """To be iterated when all others are."""
        self.left_out = dict(series.left_out)
        yield gauges(families.SERIES_LEFT_OUT, [((name,), count) for name, count in self.left_out.items()])

    def _families(self, series: Series) -> Iterator[Metric]:
        """All but those by queue."""
        yield gauges(families.BUILD_INFO, [((__version__, core_build()), 1)])
        for family, depth in self._depths.items():
            yield gauges(family, [((), depth())])
        yield series.gauges(families.CONFIG_INFO, [(labels, 1) for labels in self._checksums()])
        validity = self._queue_files().items()
        yield series.gauges(families.QUEUE_FILE_VALID, [((group,), is_valid) for group, is_valid in validity])
        yield from tally_families(self._tally, series)
        yield from partition_families(
            (one for rm in self._resource_managers() for one in rm.partitions.values()), series
        )
        yield from self.callbacks.families()
        yield counters(families.CALLS_REFUSED, self._refusals().items())
        yield from self._journal_families()
        events = self._event_counts()
        yield counters(families.EVENTS_RECORDED, [((), events.recorded)])
        yield counters(families.EVENTS_SUPPRESSED, [((), events.suppressed)])
        yield counters(families.EVENTS_LOST, [((), events.lost)])
        yield counters(families.EVENTS_FAILED, [((), events.failed)])
        yield gauges(families.EVENT_FOLLOWERS, [((), events.followers)])
        yield histograms(families.CYCLE_DURATION, {(): self._cycle_duration})
        yield histograms(families.LOOP_LAG, {(): self._loop_lag})
        yield histograms(families.STEP_DURATION, {(name,): value for name, value in self._step_durations.items()})

    def _journal_families(self) -> Iterator[Metric]:
        if self._journal is not None:
            counts = self._journal()
            yield gauges(families.JOURNAL_RECORDING, [((), counts.is_recording)])
            yield counters(families.JOURNAL_WRITTEN, [((), counts.written_bytes)])
            yield gauges(families.JOURNAL_WAITING, [((), counts.waiting_bytes)])


def _at_once(items: Iterable[ItemT]) -> Iterable[ItemT]:
    return items


class _FamiliesCollector(Collector):
    """The collector that the client library calls at every scrape."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()

    def describe(self) -> Iterable[Metric]:
        """All families that may ever be collected, so that a second metric of the same name is refused at once."""
        return [
            Metric(family.name.removesuffix("_total"), family.documentation, family.kind)
            for family in families.FAMILIES
        ]
