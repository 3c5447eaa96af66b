"""A few seeds of the world of gangs under limits, every step judged."""

from __future__ import annotations

import pytest

from schedulerd.core.language.facts.gangs import GangCompleted
from schedulerd.core.views import view
from tests.sim.limited_gang_world import LimitedGangWorld
from tests.sim.observations import Observations
from tests.sim.simulation import Failure, History, new_scheduler, simulate

SEEDS = range(1, 8)
STEPS = 300


def play(seed: int) -> tuple[History, Failure | None]:
    return simulate(seed, STEPS, Observations(), (LimitedGangWorld,), is_faulty=True)


@pytest.mark.slow
def test_nothing_goes_wrong() -> None:
    at_the_gate = complete = 0
    for seed in SEEDS:
        history, failure = play(seed)
        assert failure is None, (seed, failure.problems)
        scheduler = new_scheduler()
        for number, (now_ns, command) in enumerate(history):
            facts = scheduler.step(now_ns, command)
            complete += sum(isinstance(fact, GangCompleted) for fact in facts)
            for rm in () if number % 3 else view.resource_managers(scheduler.cluster):
                for partition in rm.partitions:
                    reasons = [ask.waiting_for for app in partition.applications for ask in app.asks]
                    at_the_gate += any("its limit" in one and "with the whole gang" in one for one in reasons)
    assert at_the_gate > 5
    assert complete > 3
