"""What `/metrics` shows: the counts of the API client and of the shim, as metric families of the client library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from schedulerd.kubernetes.api import ApiMetrics, Urgency
from schedulerd.kubernetes.api import resources as r
from schedulerd.kubernetes.api.metrics import Histogram
from schedulerd.kubernetes.api.writes import Bind, Create, Delete, Patch, PatchVolume, Result, WriteEvent
from schedulerd.kubernetes.cluster.model import ApplicationState
from schedulerd.kubernetes.cluster.pod_lifecycle import ON_NODE, UNALLOCATED, PodState
from schedulerd.kubernetes.election import Leadership
from schedulerd.kubernetes.shim import families as f
from schedulerd.kubernetes.shim.families import Family, Kind
from schedulerd.kubernetes.shim.journaling import Recording
from schedulerd.kubernetes.shim.shim import Shim
from schedulerd.kubernetes.shim.watches import COSCHEDULING, SCHEDULING_GROUPS, WATCHED

Values = Iterable[tuple[Sequence[str], float]]

# Alerts count what increases, and the first sample of a series is no increase. So the series that alerts are about are
# there before anything is counted.
WRITES = tuple(write.kind for write in (Bind, Create, Delete, Patch, PatchVolume, WriteEvent))
REQUESTS = (
    *((m, one.resource.plural) for one in (*WATCHED, COSCHEDULING, *SCHEDULING_GROUPS) for m in ("GET", "WATCH")),
    *((method, r.PODS.plural) for method in ("POST", "PATCH", "DELETE")),
    *((method, r.EVENTS.plural) for method in ("POST", "PATCH")),
    *(("PATCH", one.plural) for one in (r.PERSISTENT_VOLUMES, r.PERSISTENT_VOLUME_CLAIMS, r.POD_GROUPS)),
)
"""Methods and resources of the requests that need rights."""
_FORBIDDEN = {(*request, "403"): 0 for request in REQUESTS}
_WRITES_BY_RESULT = {(kind, result.value): 0 for kind in WRITES for result in Result}


def registry(
    metrics: ApiMetrics,
    shim: Callable[[], Shim | None],
    clock: Callable[[], float],
    leadership: Leadership | None = None,
    scheduler_names: Sequence[str] = (),
    recording: Recording | None = None,
) -> CollectorRegistry:
    """With the metrics of the process and of Python. `clock` is that of the event loop. Without a `leadership` there
    is no leader election."""
    made = CollectorRegistry()
    made.register(_Collector(metrics, shim, clock, leadership, scheduler_names, recording))
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=made)
    return made


class _Collector(Collector):
    def __init__(
        self,
        metrics: ApiMetrics,
        shim: Callable[[], Shim | None],
        clock: Callable[[], float],
        leadership: Leadership | None,
        scheduler_names: Sequence[str],
        recording: Recording | None,
    ) -> None:
        self._metrics = metrics
        self._scheduler_names = scheduler_names
        self._shim = shim
        self._leadership = leadership
        self._clock = clock
        self._recording = recording

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield _values(f.INFO, [((name,), 1) for name in self._scheduler_names])
        yield from _of_shim(self._shim())
        yield from _of_lease(self._leadership)
        yield from _of_requests(self._metrics)
        yield from _of_watches(self._metrics, self._clock())
        yield from _of_writes(self._metrics)
        yield from _of_journal(self._recording)


def _of_shim(shim: Shim | None) -> Iterator[Metric]:
    if shim is None:
        yield _single(f.READY, 0)
        return
    model, client = shim.cluster.model, shim.client
    yield _single(f.READY, not shim.waits_for)
    pods = Counter(PodState.BOUND if pod.state in ON_NODE else pod.state for pod in model.pods.values())
    yield _values(f.PODS, (((state.value,), pods[state]) for state in PodState if state not in UNALLOCATED))
    applications = Counter(one.state for one in model.applications.values())
    yield _values(f.APPLICATIONS, (((state.value,), applications[state]) for state in ApplicationState))
    yield _values(f.WATCH_FAILING, (((name,), problem != "") for name, problem in shim.watch_problems.items()))
    yield _single(f.NODES, len(model.nodes.known))
    yield _histograms(f.BINDING, [((), shim.binding_times.seconds)])
    if shim.takeover_s is not None:
        yield _single(f.TAKEOVER, shim.takeover_s)
    yield _single(f.DAEMON_RESUMED, client.times_resumed if client is not None else 0)
    yield _single(f.DAEMON_RESYNCED, client.times_resynced if client is not None else 0)


def _of_lease(leadership: Leadership | None) -> Iterator[Metric]:
    if leadership is None:
        yield _single(f.LEADER, 1)
        return
    yield _single(f.LEADER, leadership.is_leader)
    yield _single(f.LEASE_SECONDS_LEFT, max(0.0, leadership.seconds_left()))
    yield _values(f.LEASE_RENEWALS, [((result,), count) for result, count in leadership.renewals.items()])
    yield _single(f.LEASE_TRANSITIONS, leadership.transitions)


def _of_requests(metrics: ApiMetrics) -> Iterator[Metric]:
    yield _values(f.REQUESTS, (_FORBIDDEN | metrics.requests).items())
    yield _histograms(f.REQUEST_DURATION, metrics.request_seconds.items())
    yield _single(f.UNAUTHORIZED, metrics.unauthorized)


def _of_watches(metrics: ApiMetrics, now_s: float) -> Iterator[Metric]:
    yield _values(f.WATCH_EVENTS, metrics.watch_events.items())
    yield _values(f.WATCH_BYTES, _by_resource(metrics.watch_bytes))
    yield _values(f.WATCHES_ENDED, metrics.watches.items())
    yield _values(f.LISTS, metrics.lists.items())
    yield _values(f.OBJECTS_FOUND_DELETED, _by_resource(metrics.replaced))
    yield _values(f.OBJECTS_UNDECODABLE, _by_resource(metrics.undecodable))
    yield _values(f.OBJECTS, _by_resource(metrics.objects))
    silence = {name: now_s - heard_s for name, heard_s in metrics.last_contact.items()}
    yield _values(f.WATCH_SILENCE, _by_resource(silence))


def _of_writes(metrics: ApiMetrics) -> Iterator[Metric]:
    yield _values(f.WRITES, (_WRITES_BY_RESULT | metrics.writes).items())
    yield _values(f.WRITE_RETRIES, metrics.write_retries.items())
    yield _histograms(f.WRITE_WAIT, [((kind,), one) for kind, one in metrics.write_wait_seconds.items()])
    names = [urgency.name.lower() for urgency in Urgency]
    yield _values(f.WRITES_QUEUED, [((name,), metrics.queued(name)) for name in names])
    yield _single(f.WRITES_IN_FLIGHT, metrics.in_flight())
    yield _values(f.LOST_ANSWERS, metrics.lost_answers.items())
    yield _values(f.WRITE_BUGS, [((kind,), metrics.write_bugs.get(kind, 0)) for kind in {*WRITES, *metrics.write_bugs}])
    yield _single(f.EVENTS_DROPPED, metrics.events_dropped)
    yield _single(f.REASONS_WRITTEN, metrics.reasons_written())
    yield _single(f.REASONS_WAITING, metrics.reasons_waiting())


def _of_journal(recording: Recording | None) -> Iterator[Metric]:
    """Nothing without a journal, and until it is begun."""
    if recording is None or not recording.state:
        return
    journal = recording.journal
    yield _single(f.JOURNAL_RECORDING, journal is not None and journal.is_open)
    yield _single(f.JOURNAL_WRITTEN, 0 if journal is None else journal.written_bytes)
    yield _single(f.JOURNAL_ENTRIES, 0 if journal is None else journal.written_entries)
    yield _single(f.JOURNAL_WAITING, 0 if journal is None else journal.waiting)


def _by_resource(values: Mapping[str, float]) -> Values:
    return [((resource,), value) for resource, value in values.items()]


def _single(family: Family, value: float) -> Metric:
    return _values(family, [((), value)])


def _values(family: Family, values: Values) -> Metric:
    type_ = CounterMetricFamily if family.kind is Kind.COUNTER else GaugeMetricFamily
    metric = type_(family.name, family.documentation, labels=family.labels)
    for labels, value in values:
        metric.add_metric(labels, value)
    return metric


def _histograms(family: Family, series: Iterable[tuple[Sequence[str], Histogram]]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.documentation, labels=family.labels, unit="seconds")
    for labels, one in series:
        bounds = (*map(floatToGoString, one.bounds), "+Inf")
        buckets = list(zip(bounds, map(float, accumulate(one.counts)), strict=True))
        metric.add_metric(labels, buckets=buckets, sum_value=one.total)
    return metric
