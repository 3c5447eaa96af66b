"""What a placement costs, counted and not timed: it must not grow with the nodes, nor with what is pending.

The workloads are the benchmarks' own, small; all asks are pending before the first is placed, which is the worst case.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from types import FrameType

import pytest

from benchmarks import workloads
from benchmarks.in_process import PARTITION, new_asks, placed, prepare, releases
from benchmarks.work import node_visits
from benchmarks.workload import RM_ID, Ask, Size, Workload
from benchmarks.workloads import POD
from schedulerd.core.language.commands import (
    AllocationRelease,
    Command,
    NodeAction,
    NodeUpdate,
    RunCycle,
    UpdateAllocations,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.resources import Resources
from schedulerd.core.scheduler import Scheduler

pytestmark = pytest.mark.interpreted

PLACEMENTS_MAX = 100
BLOCK_AND_NODE = 2
"""Visits of a placement that finds room at once: the first block of nodes and the first node in it."""
LARGE = Size(memory=200, vcore=20)
"""More than a node of `workloads.c` has."""

MORE_OF_MANY_SIZES = (("fifo", 80), ("fair", 1), ("fair", 80), ("drf", 1))
"""Order of applications, and how many sizes their asks have."""

Build = Callable[[int, int], Workload]


def start(workload: Workload) -> Scheduler:
    numbers = count()
    return prepare(workload, lambda: f"uuid-{next(numbers)}")


def step(scheduler: Scheduler, command: Command) -> int:
    """Returns how many allocations were made."""
    return sum(isinstance(fact, Allocated) for fact in scheduler.step(0, command))


def ask(scheduler: Scheduler, asks: Iterable[Ask]) -> None:
    step(scheduler, UpdateAllocations(RM_ID, new_asks(asks)))


def place(scheduler: Scheduler) -> int:
    """Runs cycles for as long as anything might be placed. Returns how many allocations were made."""
    placements = 0
    while scheduler.wants_cycle():
        placements += step(scheduler, RunCycle(PLACEMENTS_MAX))
    return placements


def calls_during(work: Callable[[], object]) -> int:
    """How many functions, ours and the interpreter's, were called; without collections, to which others may listen."""
    calls = 0

    def on_event(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    earlier = sys.getprofile()
    gc.disable()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(earlier)
        gc.enable()
    return calls


@pytest.mark.parametrize(("nodes", "asks"), [(50, 400), (200, 400), (50, 1_600)])
@pytest.mark.parametrize("build", [workloads.u, workloads.a])
def test_a_placement_visits_one_node(build: Build, nodes: int, asks: int) -> None:
    workload = build(nodes, asks)
    scheduler = start(workload)
    ask(scheduler, workload.asks)
    assert place(scheduler) == asks
    assert node_visits(scheduler) == BLOCK_AND_NODE * asks


@pytest.mark.parametrize("build", [workloads.u, workloads.a])
def test_a_cycle_calls_as_many_functions_whatever_waits_and_however_many_nodes_there_are(build: Build) -> None:
    def calls(nodes: int, asks: int) -> int:
        workload = build(nodes, asks)
        scheduler = start(workload)
        ask(scheduler, workload.asks)
        # What is done once, for the first allocation of a node or an application, is not what is counted.
        assert step(scheduler, RunCycle(nodes)) == nodes
        return calls_during(lambda: scheduler.step(0, RunCycle(PLACEMENTS_MAX)))

    once = calls(nodes=300, asks=2_000)
    assert once > PLACEMENTS_MAX
    assert calls(nodes=1_200, asks=2_000) == once
    assert calls(nodes=300, asks=8_000) == once


def test_a_cycle_calls_as_many_functions_however_many_applications_wait() -> None:
    def calls(applications: int) -> int:
        workload = workloads.m(nodes=300, asks=20 * applications, applications_count=applications)
        scheduler = start(workload)
        ask(scheduler, workload.asks)
        assert step(scheduler, RunCycle(workload.nodes)) == workload.nodes
        return calls_during(lambda: scheduler.step(0, RunCycle(PLACEMENTS_MAX)))

    assert calls(400) == calls(100)


@pytest.mark.parametrize(
    ("order", "sizes"),
    [("fifo", 1), ("drf", 80), *(pytest.param(*one, marks=pytest.mark.slow) for one in MORE_OF_MANY_SIZES)],
)
def test_a_cycle_calls_about_as_many_functions_however_many_applications_want_many_sizes(
    order: str, sizes: int
) -> None:
    def calls(applications: int) -> int:
        workload = workloads.m(nodes=300, asks=10 * applications, applications_count=applications)
        mixed = [
            replace(one, size=Size(memory=1 + 7 * number % sizes, vcore=1)) for number, one in enumerate(workload.asks)
        ]
        leaf = f"properties: {{application.sort.policy: {order}}}\n            resources:"
        scheduler = start(replace(workload, queue_file=workload.queue_file.replace("resources:", leaf)))
        ask(scheduler, mixed)
        assert step(scheduler, RunCycle(workload.nodes)) == workload.nodes
        needed = calls_during(lambda: scheduler.step(0, RunCycle(PLACEMENTS_MAX)))
        assert len(list(placed(scheduler))) == workload.nodes + PLACEMENTS_MAX
        return needed

    # Of four times the applications, more entries of the lines that are no longer true come to the top in these cycles;
    # each of them was put there once.
    assert calls(1_600) <= 1.35 * calls(400)


def test_a_cycle_calls_no_functions_for_applications_whose_asks_are_unschedulable() -> None:
    def calls(applications: int) -> int:
        workload = workloads.m(nodes=300, asks=applications, applications_count=applications)
        scheduler = start(replace(workload, node_size=workloads.SLOTS_10))
        ask(scheduler, [replace(one, size=LARGE) for one in workload.asks])
        assert place(scheduler) == 0
        ask(scheduler, [Ask("app-000", "small", POD, count=workload.nodes + PLACEMENTS_MAX)])
        assert step(scheduler, RunCycle(workload.nodes)) == workload.nodes
        return calls_during(lambda: scheduler.step(0, RunCycle(PLACEMENTS_MAX)))

    assert calls(400) == calls(100)


def gang_work(gangs: int, members: int) -> list[tuple[int, int, int]]:
    """Node visits, facts and function calls for a hundred placeholders, for as many real asks to await them, and for as
    many placeholders to be exchanged for them; all gangs are in the middle of the same."""
    workload = workloads.d(nodes=300, asks=gangs * members, members=members)
    scheduler = start(workload)
    work = []

    def note(command: Command) -> list[Fact]:
        facts: list[Fact] = []
        visits = node_visits(scheduler)
        calls = calls_during(lambda: facts.extend(scheduler.step(0, command)))
        work.append((node_visits(scheduler) - visits, len(facts), calls))
        return facts

    ask(scheduler, workload.asks)
    assert step(scheduler, RunCycle(workload.nodes)) == workload.nodes
    placeholders = note(RunCycle(PLACEMENTS_MAX))
    assert sum(isinstance(fact, Allocated) for fact in placeholders) == PLACEMENTS_MAX
    place(scheduler)
    ask(scheduler, workload.replacements)
    scheduler.step(0, RunCycle(PLACEMENTS_MAX))
    wanted = releases(note(RunCycle(PLACEMENTS_MAX)))
    assert len(wanted) == PLACEMENTS_MAX
    swapped = note(UpdateAllocations(RM_ID, releases=wanted))
    assert sum(isinstance(fact, Allocated) for fact in swapped) == PLACEMENTS_MAX
    return work


def test_the_members_of_gangs_cost_the_same_however_many_gangs_there_are() -> None:
    once = gang_work(gangs=20, members=50)
    assert gang_work(gangs=40, members=50) == gang_work(gangs=80, members=50) == once
    assert [visits for visits, _, _ in once] == [BLOCK_AND_NODE * PLACEMENTS_MAX, 0, 0]


def test_the_members_of_a_gang_cost_no_more_if_it_is_large() -> None:
    # Even the smallest of them is larger than what is placed and exchanged until the counting ends.
    once = gang_work(gangs=1, members=500)
    assert gang_work(gangs=1, members=1_000) == gang_work(gangs=1, members=2_000) == once


def test_asks_that_fit_no_node_cost_one_search_however_many_there_are() -> None:
    def visits_for_nothing(nodes: int, asks: int) -> int:
        workload = workloads.c(nodes, asks)
        scheduler = start(workload)
        ask(scheduler, workload.asks)
        placements = place(scheduler)
        assert placements == asks // 2
        return node_visits(scheduler) - BLOCK_AND_NODE * placements

    once = visits_for_nothing(nodes=1_000, asks=400)
    assert visits_for_nothing(nodes=1_000, asks=1_600) == once
    assert 0 < once < 1_000 // 10, "the search is by blocks of nodes, as all of them are too small alike"


@pytest.fixture
def waiting() -> Scheduler:
    """A hundred asks wait that fit no node; there is room for many small ones."""
    workload = replace(workloads.c(nodes=50, asks=4), asks=())
    scheduler = start(workload)
    ask(scheduler, [Ask("app-1", f"large-{number}", LARGE) for number in range(100)])
    assert place(scheduler) == 0
    return scheduler


def test_unschedulable_asks_are_not_tried_again_when_nothing_has_changed(waiting: Scheduler) -> None:
    visits = node_visits(waiting)
    assert not waiting.wants_cycle()
    assert waiting.step(0, RunCycle(PLACEMENTS_MAX)) == []
    assert node_visits(waiting) == visits


def test_more_asks_of_an_unschedulable_class_cost_no_search(waiting: Scheduler) -> None:
    visits = node_visits(waiting)
    ask(waiting, [Ask("app-2", f"more-{number}", LARGE) for number in range(100)])
    assert not waiting.wants_cycle()
    assert node_visits(waiting) == visits


def test_asks_that_fit_pay_nothing_for_the_unschedulable_ones(waiting: Scheduler) -> None:
    visits = node_visits(waiting)
    ask(waiting, [Ask("app-1", f"small-{number}", POD) for number in range(100)])
    assert place(waiting) == 100
    assert node_visits(waiting) == visits + 100 * BLOCK_AND_NODE


def test_room_that_is_too_small_requeues_no_unschedulable_asks(waiting: Scheduler) -> None:
    ask(waiting, [Ask("app-1", "small", POD)])
    place(waiting)
    visits = node_visits(waiting)
    (allocation,) = placed(waiting)
    release = AllocationRelease("app-1", PARTITION, allocation.uuid, allocation.key)
    waiting.step(0, UpdateAllocations(RM_ID, releases=[release]))
    assert not list(placed(waiting))
    assert place(waiting) == 0
    assert node_visits(waiting) == visits


def test_room_that_is_large_enough_requeues_them_once(waiting: Scheduler) -> None:
    three = Resources(memory=3 * LARGE.memory, vcore=3 * LARGE.vcore)
    waiting.step(0, UpdateNodes(RM_ID, [NodeUpdate("large-node", NodeAction.CREATE, capacity=three)]))
    assert place(waiting) == 3
    visits = node_visits(waiting)
    assert not waiting.wants_cycle()
    waiting.step(0, RunCycle(PLACEMENTS_MAX))
    assert node_visits(waiting) == visits


def test_asks_over_a_quota_cost_no_search() -> None:
    workload = workloads.u(nodes=50, asks=400)
    queue_file = workload.queue_file.replace("guaranteed: {memory: 100000, vcore: 10000}", "max: {memory: 100}")
    scheduler = start(replace(workload, queue_file=queue_file))
    ask(scheduler, [one for one in workload.asks if one.application_id == "app-1"])
    assert place(scheduler) == 100 // POD.memory
    assert node_visits(scheduler) == BLOCK_AND_NODE * 100 // POD.memory
    scheduler.step(0, RunCycle(PLACEMENTS_MAX))
    assert node_visits(scheduler) == BLOCK_AND_NODE * 100 // POD.memory


def test_on_a_full_cluster_a_freed_slot_is_found_at_once() -> None:
    workload = replace(workloads.c(nodes=500, asks=4), asks=())
    scheduler = start(workload)
    ask(scheduler, [Ask("app-1", "all", POD, count=5_000)])
    assert place(scheduler) == 5_000
    allocation = list(placed(scheduler))[2_500]
    release = AllocationRelease("app-1", PARTITION, allocation.uuid, allocation.key)
    scheduler.step(0, UpdateAllocations(RM_ID, releases=[release]))
    visits = node_visits(scheduler)
    ask(scheduler, [Ask("app-2", "next", POD)])
    assert place(scheduler) == 1
    assert node_visits(scheduler) == visits + BLOCK_AND_NODE
