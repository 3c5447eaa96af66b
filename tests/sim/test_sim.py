"""A few seeds of each world, every step judged; together they have to reach every situation there is to be seen."""

from __future__ import annotations

from functools import cache

import pytest

from schedulerd.core import cycle
from schedulerd.core.preemption.handlers import quota_preemption
from schedulerd.core.reservations.handlers import new_reservations
from tests.loops import each_seed
from tests.sim.__main__ import report
from tests.sim.observations import Observations
from tests.sim.simulation import Failure, simulate

SEEDS = (2, 3, 1)
NIGHTLY = (*range(4, 13), 47, 59)
STEPS = 600


@cache
def outcome(seed: int) -> tuple[Failure | None, Observations]:
    """Both tests need it and neither depends on the other having run."""
    seen = Observations()
    _, failure = simulate(seed, STEPS, seen)
    return failure, seen


@each_seed(SEEDS, few=0, nightly=NIGHTLY)
def test_nothing_goes_wrong(seed: int) -> None:
    failure, _ = outcome(seed)
    assert failure is None, report(seed, failure)


@each_seed([2], few=0, nightly=[5, 8])
def test_nothing_goes_wrong_where_bounds_are_reached(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In worlds of this size that takes smaller bounds."""
    monkeypatch.setattr(new_reservations, "RETRY_LIST_MAX", 2)
    monkeypatch.setattr(cycle, "BLOCKED_MAX", 3)
    monkeypatch.setattr(quota_preemption, "VISITS_PER_SLICE", 3)
    monkeypatch.setattr(quota_preemption, "VICTIMS_PER_SLICE", 1)
    _, failure = simulate(seed, STEPS, Observations())
    assert failure is None, report(seed, failure)


@pytest.mark.nightly
def test_every_situation_was_reached() -> None:
    seen = Observations()
    for seed in (*SEEDS, *NIGHTLY):
        seen.update(outcome(seed)[1])
    assert seen.missing() == []
