"""A few seeds of the world in which queues are stopped and started, every step judged."""

from __future__ import annotations

import pytest

from schedulerd.core.language.facts.fact import ApplicationRejected
from schedulerd.core.state.model.queue import Queue
from tests.sim.observations import Observations
from tests.sim.simulation import Failure, History, new_scheduler, simulate
from tests.sim.stopping_world import StoppingWorld

SEEDS = range(1, 6)
STEPS = 300


def play(seed: int) -> tuple[History, Failure | None]:
    return simulate(seed, STEPS, Observations(), (StoppingWorld,), is_faulty=True)


@pytest.mark.slow
def test_nothing_goes_wrong() -> None:
    refused = 0
    for seed in SEEDS:
        history, failure = play(seed)
        assert failure is None, (seed, failure.problems)
        scheduler = new_scheduler()
        facts = [fact for now_ns, command in history for fact in scheduler.step(now_ns, command)]
        refused += sum(isinstance(fact, ApplicationRejected) and "is stopped" in fact.reason for fact in facts)
    assert refused > 5, "hardly an application met a stopped queue"


@pytest.mark.slow
def test_queues_that_are_stopped_and_take_applications_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Queue, "stopped_by", lambda _: None)
    found = [failure.problems for seed in SEEDS if (failure := play(seed)[1]) is not None]
    assert any("is stopped, and" in problem for problems in found for problem in problems)
