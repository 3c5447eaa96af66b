"""A few seeds of the worlds where asks are choosy and resource managers have a say; they reach what only both do."""

from __future__ import annotations

from functools import cache

import pytest

from tests.sim.constrained_judging_world import EXPECTED, WORLDS
from tests.sim.observations import Observations
from tests.sim.simulation import Failure, simulate

SEEDS = (2, 5, 6, 8, 10, 11)
STEPS = 400


@cache
def outcome(seed: int) -> tuple[Failure | None, Observations]:
    seen = Observations()
    _, failure = simulate(seed, STEPS, seen, WORLDS)
    return failure, seen


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_goes_wrong(seed: int) -> None:
    failure, _ = outcome(seed)
    assert failure is None, failure.problems


def test_every_situation_was_reached() -> None:
    seen = Observations()
    for seed in SEEDS:
        seen.update(outcome(seed)[1])
    assert [sight for sight in EXPECTED if not seen[sight]] == []
