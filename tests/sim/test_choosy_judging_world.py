"""A few seeds of the worlds where asks are choosy and resource managers have a say; they reach what only both do."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from tests.sim.choosy_judging_world import EXPECTED, WORLDS
from tests.sim.verdict_play import Play

SEEDS = (2, 5, 6, 8, 10, 11)


@cache
def outcome(seed: int) -> tuple[list[str], Counter[str]]:
    play = Play(WORLDS, seed)
    return play.problems(), play.seen


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_goes_wrong(seed: int) -> None:
    problems, _ = outcome(seed)
    assert problems == []


def test_every_situation_was_reached() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen.update(outcome(seed)[1])
    assert [sight for sight in EXPECTED if not seen[sight]] == []
