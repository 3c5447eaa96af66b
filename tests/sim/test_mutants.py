"""Every mutant of the catalogue is found by the seed that is known to find it, each in a process of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.sim.mutants.__main__ import found_wrong
from tests.sim.mutants.catalogue import MUTANTS
from tests.sim.mutants.mutation import Mutant, Seed, put_in
from tests.sim.observations import Observations
from tests.sim.simulation import EVERY_WORLD, simulate

pytestmark = pytest.mark.interpreted

MUTANTS_MIN = 25
LONGEST = dict(sorted(mutant.finder for mutant in MUTANTS if isinstance(mutant.finder, Seed)))
"""By seed, the most moves that a mutant takes: what is last of those of a seed."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_it_is_found(mutant: Mutant) -> None:
    assert found_wrong(mutant) != ""


@pytest.mark.parametrize(("seed", "steps"), LONGEST.items())
def test_nothing_is_found_in_the_core_as_it_is(seed: int, steps: int) -> None:
    """So it is the mutants that these seeds find."""
    _, failure = simulate(seed, steps, Observations(), EVERY_WORLD, is_faulty=True)
    assert failure is None, failure.problems


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_it_breaks_one_line(mutant: Mutant) -> None:
    before = _source(mutant).splitlines()
    after = mutant.broken(_source(mutant)).splitlines()
    assert before != after
    assert len([line for line in before if line not in after]) <= 1


def test_there_are_enough_and_none_is_there_twice() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({mutant[1:4] for mutant in MUTANTS}) == len(MUTANTS)


def test_a_text_that_is_not_there_once_is_a_mistake() -> None:
    mutant = MUTANTS[0]
    for text in ("no such line", "def "):
        with pytest.raises(ValueError, match="times in"):
            mutant._replace(text=text).broken(_source(mutant))


def test_a_mutant_comes_before_the_core() -> None:
    with pytest.raises(RuntimeError, match="imported already"):
        put_in(MUTANTS[0])


def _source(mutant: Mutant) -> str:
    spec = importlib.util.find_spec(mutant.module_name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text()
