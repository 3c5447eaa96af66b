"""How many placements a cycle may make."""

from __future__ import annotations

import pytest

from schedulerd.core.language.facts.fact import CycleRan
from schedulerd.daemon.runtime.owner import CYCLE_SECONDS, PLACEMENTS_MIN, Pace


def after(*seconds_each: float, placements_max: int = 10_000) -> int:
    """The next bound after cycles in which each placement took so long."""
    pace = Pace(placements_max)
    for seconds in seconds_each:
        pace.took(seconds * pace.placements, [CycleRan(pace.placements, 0, more=True)])
    return pace.placements


@pytest.mark.parametrize("seconds_each", [10e-6, 20e-6, 100e-6])
def test_a_cycle_takes_what_it_is_to_take_however_fast_the_machine_is(seconds_each: float) -> None:
    assert after(*[seconds_each] * 50) == pytest.approx(CYCLE_SECONDS / seconds_each, rel=0.02)


def test_it_is_bounded_both_ways() -> None:
    assert after(*[1e-9] * 100, placements_max=400) == 400
    assert after(*[1.0] * 100) == PLACEMENTS_MIN
    assert Pace(1).placements == 1


def test_one_pause_hardly_counts_and_a_cycle_without_placements_not_at_all() -> None:
    usual = [20e-6] * 50
    assert after(*usual, 40e-6) > 0.85 * after(*usual)
    pace = Pace(10_000)
    before = pace.placements
    pace.took(1.0, [CycleRan(0, 3, more=False)])
    pace.took(1.0, [])
    assert pace.placements == before
