"""The least harmful set of victims, against all sets; and what is still right where there is no time to look at all.

The sets and what is right of them are spelled out beside the unit tests.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulerd.core.preemption.rules import victims
from schedulerd.core.preemption.rules.budget import Budget
from schedulerd.core.preemption.rules.victims import Candidate, smallest_set
from tests.property.trees import seeds
from tests.unit.core.preemption.test_victims import UNIT, candidates, is_enough, is_spared, order, sets

CANDIDATES_MAX = 8


class Choice:
    """Some candidates below a parent with two leaves, or where nothing is guaranteed; and what has to come free."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        parent, one, other = self._budget(), self._budget(), self._budget()
        ways = ((), (one, parent), (other, parent), (one,))
        below = self.random.choices(ways, k=self.random.randint(1, CANDIDATES_MAX))
        kinds, priorities = self.random.choice(((0,), (0, 0, 1, 2))), self.random.choice(((0,), (0, 0, 1)))
        self.candidates = candidates(
            *({name: self.random.choice((0, 1, 2, 3, 5)) for name in UNIT} for _ in below),
            ranks=[(self.random.choice(kinds), self.random.choice(priorities)) for _ in below],
            budgets=below,
        )
        self.budgets = (parent, one, other)
        self.need = {name: self.random.randint(1, 9) for name in UNIT if self.random.random() < 0.8}

    def __repr__(self) -> str:
        return f"Choice({self.seed})"

    def _budget(self) -> Budget:
        return Budget({name: self.random.randint(-1, 12) for name in UNIT if self.random.random() < 0.6})

    def found(self) -> list[Candidate] | None:
        """What the search comes to; the budgets are as before then."""
        before = [dict(one.left) for one in self.budgets]
        found = smallest_set(self.candidates, self.need, UNIT)
        assert [one.left for one in self.budgets] == before
        return None if found is None else [one for one in self.candidates if one.allocation in found.victims]

    def is_right(self, taken: list[Candidate]) -> bool:
        return is_enough(taken, self.need) and is_spared(taken, self.need)


choices = st.builds(Choice, seeds)


def check_best(choice: Choice) -> str:
    right = [taken for taken in map(list, sets(choice.candidates)) if choice.is_right(taken)]
    found = choice.found()
    if found is None:
        assert right == []
        return "none"
    assert found in right
    assert order(found, choice.candidates) == min(order(taken, choice.candidates) for taken in right)
    return "several" if len(found) > 1 else "at most one"


def check_in_haste(choice: Choice) -> str:
    """Whatever the search did not look at, nobody is taken who need not be."""
    found = choice.found()
    if found is None:
        may = [one for one in choice.candidates if not one.budgets]
        assert not is_enough(may, choice.need), "whom no guarantee protects is enough"
        return "none"
    assert choice.is_right(found)
    assert not any(is_enough([one for one in found if one is not spared], choice.need) for spared in found)
    return "several" if len(found) > 1 else "at most one"


def test_it_is_the_best_of_all_sets() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=300)
    @given(choices)
    def check(choice: Choice) -> None:
        seen[check_best(choice)] += 1

    check()
    assert min(seen["none"], seen["several"], seen["at most one"]) >= 20


@pytest.mark.parametrize("bounds", [{"STEPS_MAX": 4}, {"STEPS_MAX": 12}, {"KINDS_MAX": 0}], ids=str)
def test_in_haste_it_is_one_of_them_without_needless_victims(
    bounds: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in bounds.items():
        monkeypatch.setattr(victims, name, most)
    seen: Counter[str] = Counter()

    @settings(max_examples=150)
    @given(choices)
    def check(choice: Choice) -> None:
        seen[check_in_haste(choice)] += 1

    check()
    assert min(seen["none"], seen["several"], seen["at most one"]) >= 10
