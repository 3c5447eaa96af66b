"""A hundred seeds of all worlds with faults, every step judged: many short ones, and some that get to every fault."""

from __future__ import annotations

from functools import cache

import pytest

from tests.sim.__main__ import report
from tests.sim.faults import KINDS
from tests.sim.observations import Observations
from tests.sim.simulation import EVERY_WORLD, Failure, simulate

SEEDS = range(1, 100)
STEPS = 20
LONG_SEEDS = (*range(1, len(EVERY_WORLD) + 1), 13)
LONG_STEPS = 200


@cache
def outcome(seed: int) -> tuple[Failure | None, Observations]:
    seen = Observations()
    steps = LONG_STEPS if seed in LONG_SEEDS else STEPS
    _, failure = simulate(seed, steps, seen, EVERY_WORLD, is_faulty=True)
    return failure, seen


@pytest.mark.slow
@pytest.mark.parametrize("world", range(len(EVERY_WORLD)), ids=[world.__name__ for world in EVERY_WORLD])
def test_nothing_goes_wrong(world: int) -> None:
    for seed in SEEDS:
        if seed % len(EVERY_WORLD) == world:
            failure, _ = outcome(seed)
            assert failure is None, report(seed, failure)


@pytest.mark.slow
def test_every_fault_was_injected() -> None:
    seen = Observations()
    for seed in LONG_SEEDS:
        seen.join(outcome(seed)[1])
    assert [kind for kind in KINDS if not seen.faults[kind]] == []
