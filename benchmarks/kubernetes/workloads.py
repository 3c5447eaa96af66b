"""What there is to run, by name, and how its runs become lines of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from benchmarks.kubernetes import compare, cost, large
from benchmarks.kubernetes.cluster import Workload
from benchmarks.kubernetes.compare import RivalSummary
from benchmarks.kubernetes.cost import CostSummary
from benchmarks.kubernetes.large import LargeSummary
from benchmarks.runs import repeat

KubernetesSummary: TypeAlias = RivalSummary | CostSummary | LargeSummary

BESIDE = {
    "k": Workload("k", nodes=100, pods=2_000),
    "k-gangs": Workload("k-gangs", nodes=100, pods=2_000, gangs=4),
}
COSTS = {"k-cost": Workload("k-cost", nodes=100, pods=4_000)}
LARGE = {
    "k-large": Workload("k-large", nodes=5_000, pods=50_000),
    "k-200": Workload("k-200", nodes=200, pods=4_000),
    "k-1000": Workload("k-1000", nodes=1_000, pods=20_000),
}
NAMES = (*BESIDE, *COSTS, *LARGE)
USUAL = ("k", "k-gangs", "k-cost", "k-large")
"""What the word kubernetes stands for."""


def measure(names: Iterable[str], times: int, done: Callable[[str], None]) -> list[KubernetesSummary]:
    """Raises what a run raises."""
    found: list[KubernetesSummary] = []
    for name in names:
        if name in BESIDE:
            found += compare.summaries(name, list(repeat(partial(compare.run, BESIDE[name]), times)))
        elif name in COSTS:
            found.append(CostSummary.of(name, list(repeat(partial(cost.run, COSTS[name]), times))))
        else:
            found.append(LargeSummary.of(name, list(repeat(partial(large.run, LARGE[name]), times))))
        done(name)
    return found


def rows(summaries: Sequence[object]) -> list[list[Mapping[str, str]]]:
    """Those of each table."""
    kinds = (RivalSummary, CostSummary, LargeSummary)
    return [[one.row() for one in summaries if isinstance(one, kind)] for kind in kinds]
