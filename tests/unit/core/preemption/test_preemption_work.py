"""What the search for victims costs, counted and not timed, on small versions of the benchmark's own clusters.

The benchmark's check comes with it: that each decision is legal, and the least harmful that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import pytest

from benchmarks import full_clusters
from benchmarks.decisions import Talk, prepare, visits
from benchmarks.decisions_check import check
from benchmarks.full_clusters import LARGE_AND_ODD, ODD, FullCluster
from benchmarks.in_process import new_asks
from benchmarks.measurement import WrongResult
from benchmarks.workload import RM_ID, Ask
from benchmarks.workloads import POD
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import Command, RingAlarms, RunCycle, UpdateAllocations
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.preemption.handlers import preemption
from schedulerd.core.preemption.rules.node_candidates import PORTION

p = partial(full_clusters.p, nodes=60, leaves=12, rich=4)
p_dense = partial(p, dense=True)
p_mixed = partial(p, mixed=True, ask_size=ODD)
p_dense_mixed = partial(p, dense=True, mixed=True, ask_size=LARGE_AND_ODD)
p_none = partial(full_clusters.p_none, nodes=60, leaves=12)
p_daemons = partial(full_clusters.p_daemons, nodes=60, asks=20)

Victims = tuple[tuple[str, str], ...]


class CountingTalk(Talk):
    """Notes how much each cycle looked at since the time went on last: that is when the asks were old enough."""

    def __init__(self, cluster: FullCluster) -> None:
        super().__init__(prepare(cluster))
        self.cycles: list[int] = []

    def step(self, command: Command) -> None:
        if isinstance(command, RingAlarms):
            self.cycles.clear()
        before = visits(self.scheduler)
        super().step(command)
        if isinstance(command, RunCycle):
            self.cycles.append(visits(self.scheduler) - before)


def decide_all(cluster: FullCluster, others: Iterable[Ask] = ()) -> CountingTalk:
    """All decisions about the asks of the cluster, while these `others` wait that may have nobody ended."""
    talk = CountingTalk(cluster)
    talk.step(UpdateAllocations(RM_ID, new_asks(others)))
    talk.run_cycles()
    talk.ask(cluster.asks)
    talk.wait_for_decisions(len(cluster.asks))
    return talk


def visits_for(cluster: FullCluster, others: Iterable[Ask] = ()) -> int:
    return sum(decide_all(cluster, others).cycles)


@pytest.mark.parametrize(
    "build", [p, p_dense, p_mixed, p_dense_mixed, partial(p_dense_mixed, asks=8), p_none, p_daemons]
)
def test_decisions_are_legal_and_of_the_lowest_cost(build: Callable[[], FullCluster]) -> None:
    cluster = build()
    talk = decide_all(cluster)
    talk.confirm()
    check(cluster, talk.facts, violations(talk.scheduler))


def one_less(cluster: FullCluster, decision: Preempted) -> Victims:
    return decision.victims[1:]


def one_more(cluster: FullCluster, decision: Preempted) -> Victims:
    ended = {uuid for _, uuid in decision.victims}
    other = next(one for one in cluster.running if one.node_id == decision.node_id and one.uuid not in ended)
    return *decision.victims, (cluster.applications[other.application_id], other.uuid)


def no_victims(cluster: FullCluster, decision: Preempted) -> Victims:
    return (("root.q000", "u-nobody"),)


@pytest.mark.parametrize(("change", "said"), [(one_less, "too little"), (one_more, "would do"), (no_victims, "nobody")])
def test_the_check_finds_wrong_victims(change: Callable[[FullCluster, Preempted], Victims], said: str) -> None:
    cluster = p_dense_mixed()
    talk = decide_all(cluster)
    talk.confirm()
    for fact in talk.facts:
        if isinstance(fact, Preempted):
            fact.victims = change(cluster, fact)
    with pytest.raises(WrongResult, match=said):
        check(cluster, talk.facts, [])


def test_queues_within_their_guarantee_cost_a_visit_each_and_what_runs_in_them_none() -> None:
    walks = 3  # for whether there are victims, for who they are, and when it is decided
    few, many = visits_for(p_dense(leaves=12)), visits_for(p_dense(leaves=60))
    assert few < many <= few + walks * (60 - 12)


def test_it_costs_the_same_however_many_asks_wait() -> None:
    waiting = [Ask("app-010", f"waits-{number}", POD) for number in range(1_000)]
    assert visits_for(p_mixed(), waiting) == visits_for(p_mixed(), waiting[:100])


@pytest.mark.parametrize("build", [p, p_dense, p_mixed, p_dense_mixed])
def test_a_decision_costs_no_more_than_nodes_and_victims_do(build: Callable[..., FullCluster]) -> None:
    once = visits_for(build(nodes=120))
    assert visits_for(build(nodes=240)) <= 2 * once
    assert visits_for(build(nodes=480)) <= 4 * once


def test_to_refuse_at_once_visits_the_queues_only() -> None:
    once = visits_for(p_none())
    assert once <= 12 + len(p_none().asks)
    assert visits_for(p_none(nodes=240)) == once


def test_for_a_required_node_only_that_node_is_looked_at() -> None:
    once = visits_for(p_daemons())
    assert visits_for(p_daemons(nodes=240)) == once


@pytest.mark.parametrize("build", [partial(p_dense_mixed, asks=8), partial(p_daemons, asks=60)])
def test_a_cycle_stops_after_a_slice_of_that(build: Callable[[], FullCluster], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemption, "VISITS_PER_SLICE", 100)
    talk = decide_all(build())
    assert sum(talk.cycles) > 1_000
    assert max(talk.cycles) <= 100 + PORTION
    assert sum(visited >= 100 for visited in talk.cycles) >= sum(talk.cycles) / (100 + PORTION) - 1
