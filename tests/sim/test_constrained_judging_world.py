"""A few seeds of the worlds where asks are choosy and resource managers have a say; they reach what only both do."""

from __future__ import annotations

import pytest

from tests.loops import each_seed
from tests.sim.constrained_judging_world import EXPECTED, WORLDS
from tests.sim.outcomes import Outcomes

OUTCOMES = Outcomes(WORLDS, 400, (2, 5, 6, 8, 10, 11))


@each_seed(OUTCOMES.seeds[:1], few=0, nightly=OUTCOMES.seeds[1:])
def test_nothing_goes_wrong(seed: int) -> None:
    assert OUTCOMES.problems(seed) == []


@pytest.mark.nightly
def test_every_situation_was_reached() -> None:
    assert OUTCOMES.never_seen(EXPECTED) == []
