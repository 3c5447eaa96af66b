"""Demand that is taken from any history of the simulator, however mad, is played in another world without a mistake.

What a resource manager got there differs; what it wanted, and how long each pod ran, does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from schedulerd.config import matches
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import TerminationType, UpdateAllocations
from schedulerd.core.language.facts.fact import Allocated, Released
from schedulerd.core.scheduler import Scheduler
from schedulerd.replay.demand import Demand
from schedulerd.replay.derivation import derive
from schedulerd.replay.names import ApplicationName, PodName, application_of, pod_of
from schedulerd.replay.outcome import Measure
from schedulerd.replay.playback import Step
from schedulerd.replay.what_if import WhatIf
from tests.loops import each_seed
from tests.sim.clusters import TIMEOUTS
from tests.sim.observations import Observations
from tests.sim.simulation import EVERY_WORLD, History, new_scheduler, simulate

STEPS = 300
STEPS_MAX = 50_000
"""More than this, and it does not come to an end."""


def history(seed: int) -> History:
    made, failure = simulate(seed, STEPS, Observations(), EVERY_WORLD, is_faulty=seed % 2 == 1)
    assert failure is None
    return made


def played(history: History, scheduler: Scheduler) -> Iterator[Step]:
    for number, (now_ns, command) in enumerate(history, start=1):
        yield Step(number, now_ns, command, scheduler.step(now_ns, command))


def other_world(demand: Demand) -> tuple[list[Step], Scheduler]:
    numbers = count(1)
    scheduler = Scheduler(TIMEOUTS, lambda: f"other-{next(numbers)}", matches)
    steps: list[Step] = []
    for step in WhatIf(demand, scheduler):
        steps.append(step)
        assert len(steps) <= STEPS_MAX
    return steps, scheduler


@each_seed(range(3), few=0, nightly=range(3, len(EVERY_WORLD)))
def test_any_history_has_a_demand_that_can_be_played(seed: int) -> None:
    recorded = history(seed)
    scheduler, measure = new_scheduler(), Measure()
    demand = derive(played(recorded, scheduler), scheduler, placements_max=50)
    steps, other = other_world(demand)
    assert violations(other) == []
    assert [step.now_ns for step in steps] == sorted(step.now_ns for step in steps)
    for step in steps:
        measure.observe(step)
    assert all(queue.never_placed >= 0 for queue in measure.outcome().queues.values())
    ran = list(run_times(demand, steps))
    assert ran
    assert [one for one in ran if one.ran_ns not in one.recorded_ns] == []


class Ran(NamedTuple):
    """How long a pod ran that ended by itself, and how long those of its ask did in the record."""

    application: ApplicationName
    key: str
    ran_ns: int
    recorded_ns: set[int | None]
    """With what is expected of one that has no counterpart."""


def run_times(demand: Demand, steps: list[Step]) -> Iterator[Ran]:
    placed_ns: dict[PodName, int] = {}
    for step in steps:
        for fact in step.facts:
            if isinstance(fact, Allocated):
                placed_ns[pod_of(fact)] = step.now_ns
            elif isinstance(fact, Released) and _ends_by_itself(step, fact):
                name, key = application_of(fact), fact.allocation_key
                yield Ran(name, key, step.now_ns - placed_ns[pod_of(fact)], recorded_ns(demand, name, key))


def _ends_by_itself(step: Step, fact: Released) -> bool:
    wished = fact.termination is TerminationType.STOPPED_BY_RM and isinstance(step.command, UpdateAllocations)
    return wished and not fact.placeholder


def recorded_ns(demand: Demand, name: ApplicationName, key: str) -> set[int | None]:
    its = [one for one in demand.applications if one.name == name]
    return {run.run_ns for one in its for run in one.runs.get(key, [])} | {one.usual_run_ns for one in its}
