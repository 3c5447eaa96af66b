"""Reads metrics as Prometheus does: through the text of the exposition."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schedulerd.core.language.facts.fact import Fact
from schedulerd.observe.metrics import Metrics
from tests.instants import at

Samples: TypeAlias = dict[tuple[str, ...], float]


def after(*happened: Fact, now_ns: int = 0) -> Metrics:
    """Metrics that know of these facts and of nothing else."""
    metrics = Metrics()
    metrics.observe(happened, at(now_ns))
    return metrics


def text(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def samples(metrics: Metrics, name: str) -> Samples:
    """Every sample of that name: the values of its labels, in the order of the labels' names, and its value."""
    return all_samples(metrics)[name]


def all_samples(metrics: Metrics) -> defaultdict[str, Samples]:
    """The samples of every name; none for a name that is not there."""
    found: defaultdict[str, Samples] = defaultdict(dict)
    for family in text_string_to_metric_families(text(metrics)):
        for sample in family.samples:
            key = tuple(sample.labels[label] for label in sorted(sample.labels))
            assert key not in found[sample.name], f"{sample.name} has two samples with labels {key}"
            found[sample.name][key] = sample.value
    return found
