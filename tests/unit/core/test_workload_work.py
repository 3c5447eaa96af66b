"""What a placement costs in each of the benchmarks' workloads, counted on small versions of them.

A count above its bound here is work that was not there before. Where something became cheaper, lower the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache, partial

import pytest

from benchmarks import workloads
from benchmarks.declared_gangs import dn, t
from benchmarks.in_process import Drive, Script, carry_out
from benchmarks.large_cluster import f
from benchmarks.workload import Workload
from schedulerd.core.language.commands import RingAlarms, RunCycle
from tests.unit.core.test_work import BLOCK_AND_NODE, PLACEMENTS_MAX, ask, calls_during, place, start, step

pytestmark = pytest.mark.interpreted

Build = Callable[[], Workload]

COUNTS = ("asks_tried", "nodes_visited", "queues_rekeyed", "applications_rekeyed", "groups_rekeyed", "nodes_rekeyed")
"""With facts, all of `Work` but memory, which depends on the interpreter."""

MOST: Mapping[str, tuple[Build, tuple[float, ...]]] = {
    "u": (partial(workloads.u, 100, 1_000), (1, 2, 2.01, 0.01, 2, 1, 2.02)),
    "u-bulk": (partial(workloads.u, 100, 1_000, in_bulk=True), (1, 2, 2, 0.01, 0.01, 1, 1.02)),
    "a": (partial(workloads.a, 100, 1_000), (1, 2, 2.01, 0.01, 2, 1, 2.02)),
    "m": (partial(workloads.m, 100, 1_000, 50), (1, 2, 2.01, 0.06, 2, 1, 2.16)),
    "b": (partial(workloads.b, 10, 100, 1_000, 100), (1, 2, 2.01, 1.92, 2, 1, 2.31)),
    "c": (partial(workloads.c, 300, 1_000), (1.02, 2.01, 2.02, 0.02, 2.02, 1, 3.02)),
    "d": (partial(workloads.d, 100, 1_000), (0.5, 1, 1.05, 0.05, 2.02, 1.5, 3.55)),
    "dn": (partial(dn, 100, 1_000), (0.02, 1.05, 0.06, 0.03, 0.04, 1, 2.17)),
    "e": (partial(workloads.e, 2, 100, 20), (1, 2, 2.01, 0.01, 2, 1, 2.02)),
    "e2": (partial(workloads.e, 20, 100, 20), (1, 2, 2.01, 0.03, 2, 1, 2.08)),
    "f": (partial(f, 200, 3, 20), (1.33, 2, 6.08, 0.36, 0, 1, 1.16)),
    "t": (partial(t, 4_096, 12), (0.03, 0, 0.08, 0.03, 0.04, 1, 2.15)),
}
"""A small version of each workload, and the most that is done in it per placement, facts last."""

GROWN: Mapping[str, tuple[str, Build]] = {
    "u: nodes": ("u", partial(workloads.u, 400, 1_000)),
    "u: asks": ("u", partial(workloads.u, 100, 4_000)),
    "u-bulk: asks": ("u-bulk", partial(workloads.u, 100, 4_000, in_bulk=True)),
    "a: nodes": ("a", partial(workloads.a, 400, 1_000)),
    "a: asks": ("a", partial(workloads.a, 100, 4_000)),
    "m: applications": ("m", partial(workloads.m, 100, 4_000, 200)),
    "b: queues": ("b", partial(workloads.b, 40, 400, 4_000, 100)),
    "b: applications": ("b", partial(workloads.b, 10, 400, 4_000, 100)),
    "c: nodes": ("c", partial(workloads.c, 1_200, 1_000)),
    "c: asks": ("c", partial(workloads.c, 300, 4_000)),
    "d: nodes": ("d", partial(workloads.d, 400, 1_000)),
    "d: gangs": ("d", partial(workloads.d, 100, 4_000)),
    "dn: nodes": ("dn", partial(dn, 400, 1_000)),
    "dn: gangs": ("dn", partial(dn, 100, 4_000)),
    "e: nodes": ("e", partial(workloads.e, 2, 400, 20)),
    "e2: applications": ("e2", partial(workloads.e, 80, 400, 20)),
    "f: nodes": ("f", partial(f, 800, 3, 20)),
    "f: queues": ("f", partial(f, 200, 4, 20)),
}
"""Four times as large in one thing; for queues of f, 64 leaves instead of 27."""

GROWTH_MAX = 0.03
"""Per placement: what is done once for a block of nodes, or when a queue has come to its end."""


def work(workload: Workload) -> dict[str, float]:
    """Per placement; all asks come in one request, so that an application waits until its last one is placed."""
    workload = replace(workload, asks_per_request=len(workload.asks))
    drive = Drive(start(workload), workload.placed_max, clock_ns=lambda: 0)
    measured = carry_out(Script.of(workload), drive)
    assert measured.work is not None
    counts = asdict(measured.work.per(measured.placements))
    return {what: counts[what] for what in (*COUNTS, "facts")}


@pytest.mark.parametrize(("build", "most"), MOST.values(), ids=MOST.keys())
def test_a_placement_costs_no_more_than_it_did(build: Build, most: tuple[float, ...]) -> None:
    done = work(build())
    bounds = dict(zip(done, most, strict=True))
    assert {what: count for what, count in done.items() if count > bounds[what]} == {}
    assert done["nodes_rekeyed"] >= 0.5, "each placement changes a node, members of a gang on one node change it once"


@cache
def ungrown_work(name: str) -> dict[str, float]:
    return work(MOST[name][0]())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "build"), GROWN.values(), ids=GROWN.keys())
def test_a_placement_costs_no_more_where_there_is_more_of_something(name: str, build: Build) -> None:
    once, grown = ungrown_work(name), work(build())
    assert {what: count for what, count in grown.items() if count > once[what] + GROWTH_MAX} == {}


def calls_in_a_cycle(workload: Workload, placed_before: int) -> int:
    """How many functions are called for a hundred placements, after so many others, while all asks are there."""
    scheduler = start(workload)
    ask(scheduler, workload.asks)
    assert step(scheduler, RunCycle(placed_before)) == placed_before
    made = 0

    def cycle() -> None:
        nonlocal made
        made = step(scheduler, RunCycle(PLACEMENTS_MAX))

    calls = calls_during(cycle)
    assert made == PLACEMENTS_MAX
    return calls


def test_fair_queues_cost_about_as_many_calls_however_many_there_are() -> None:
    once = calls_in_a_cycle(workloads.b(10, 100, 1_000, 100), 200)
    assert calls_in_a_cycle(workloads.b(80, 800, 8_000, 100), 1_600) <= 1.1 * once


def test_a_placement_in_a_large_tree_with_quotas_costs_at_most_twice_the_calls_of_one_in_two_queues() -> None:
    two_queues = calls_in_a_cycle(workloads.u(100, 1_000), 200)
    assert calls_in_a_cycle(f(200, 3, 60), 400) <= 2 * two_queues


@pytest.mark.parametrize("applications", [2, 20])
def test_a_single_ask_costs_the_same_however_large_and_full_the_cluster_is(applications: int) -> None:
    def cost(nodes: int) -> tuple[int, int, int]:
        workload = workloads.e(applications, nodes, singles=1)
        drive = Drive(start(workload), clock_ns=lambda: 0)
        script = Script.of(workload)
        for command in script.asks:
            drive.handle(command)
        before = drive.work()
        calls = calls_during(lambda: drive.handle(script.single_asks[0]))
        done = drive.work().since(before)
        return int(done.asks_tried), int(done.nodes_visited), calls

    once = cost(nodes=100)
    assert once[:2] == (1, BLOCK_AND_NODE)
    assert cost(nodes=400) == once


def test_unschedulable_asks_are_visited_when_they_are_due_and_then_never_again() -> None:
    def cost(asks: int) -> tuple[int, int]:
        """How often time made somebody look, and how many functions were called, until nobody waits for a time."""
        workload = workloads.h(asks)
        scheduler = start(workload)
        ask(scheduler, workload.asks)
        assert place(scheduler) == 1
        rings = calls = 0
        while (deadline_ns := scheduler.next_deadline_ns()) is not None:
            rings += 1
            calls += calls_during(partial(scheduler.step, deadline_ns, RingAlarms()))
            while scheduler.wants_cycle():
                calls += calls_during(partial(scheduler.step, deadline_ns, RunCycle(PLACEMENTS_MAX)))
        return rings, calls

    rings, calls = cost(1_000)
    more_rings, more_calls = cost(4_000)
    assert more_rings == rings
    assert more_calls <= 1.1 * calls


def test_asks_that_are_larger_than_any_node_are_not_looked_for_on_each() -> None:
    def calls(nodes: int) -> int:
        workload = replace(workloads.h(100), nodes=nodes)
        scheduler = start(workload)
        ask(scheduler, workload.asks)
        assert place(scheduler) == 1
        deadline_ns = scheduler.next_deadline_ns()
        assert deadline_ns is not None
        scheduler.step(deadline_ns, RingAlarms())
        return calls_during(lambda: scheduler.step(deadline_ns, RunCycle(PLACEMENTS_MAX)))

    assert calls(800) - calls(400) <= 5 * 400, "each node is looked at once, for what is the largest"
