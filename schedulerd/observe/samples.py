"""Samples -> metric families of the client library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from schedulerd.observe.families import Family
from schedulerd.observe.histogram import Histogram

Samples: TypeAlias = Iterable[tuple[Sequence[str], float]]
"""Values of the labels of a family, in its order, and what is counted or measured."""


def counters(family: Family, samples: Samples) -> Metric:
    return _filled(CounterMetricFamily(family.name, family.documentation, labels=family.labels), samples)


def gauges(family: Family, samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(family.name, family.documentation, labels=family.labels), samples)


def _filled(metric: CounterMetricFamily | GaugeMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric


def histograms(family: Family, series: Mapping[tuple[str, ...], Histogram]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.documentation, labels=family.labels, unit="seconds")
    for labels, histogram in series.items():
        metric.add_metric(labels, buckets=histogram.buckets(), sum_value=histogram.total)
    return metric
