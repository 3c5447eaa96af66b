"""Every mutant is found by all that has to find it, and mutants that do not fit the core are no mutants."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedulerd.core.gangs.handlers import gangs
from schedulerd.core.language.resources import Limits
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.queue import Queue
from tests.mutants.catalogue import MUTANTS
from tests.mutants.changes import Change, Compares, Constant, DoesNotFit, Replaced, Within, gives, nothing
from tests.mutants.finders import Found, UnitTested
from tests.mutants.mutant import Mutant, OwnFault
from tests.mutants.rules import Rule

pytestmark = pytest.mark.interpreted

FEW = Limits(memory=10)


PLAYED = [pytest.param(one, id=one.name) for one in MUTANTS]


# That nothing is found in the core as it is, so that it is the mutants which are found, is what the finders' own tests
# say: tests/sim/test_faults.py plays the same histories.
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", PLAYED)
def test_it_is_found(mutant: Mutant) -> None:
    assert all(mutant.found())


def test_every_rule_has_mutants_and_none_is_there_twice() -> None:
    assert {mutant.rule for mutant in MUTANTS} == set(Rule)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


# How they are put in


def exceeded(by: int) -> bool:
    return FEW.exceeded_by({}, [("memory", by)]) is not None


def test_a_replaced_function_is_replaced_for_all_callers_and_only_for_a_while() -> None:
    exceeded_by = FEW.exceeded_by
    with Replaced(Limits.exceeded_by, lambda original, limits, used, items: not original(limits, used, items)).put_in():
        assert exceeded_by({}, [("memory", 10)])
        assert not exceeded_by({}, [("memory", 11)])
    assert exceeded(11)
    assert not exceeded(10)


def test_within_another_function_it_is_another_one_only_there() -> None:
    with Within(exceeded, Limits.exceeded_by, nothing).put_in() as calls:
        assert not exceeded(11)
        assert FEW.exceeded_by({}, [("memory", 11)]) == "memory"
    assert calls.count == 1
    assert exceeded(11)


def test_a_comparison_compares_otherwise() -> None:
    with Compares(Limits.exceeded_by, ("used", "amount", "limit"), ">=").put_in():
        assert exceeded(10)
        assert not exceeded(9)
    assert not exceeded(10)


def test_a_constant_is_another_one() -> None:
    before = gangs.DEADLOCK_CHECK_SPACING_NS
    with Constant(gangs, "DEADLOCK_CHECK_SPACING_NS", 1).put_in():
        assert gangs.DEADLOCK_CHECK_SPACING_NS == 1
    assert before == gangs.DEADLOCK_CHECK_SPACING_NS


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Compares(Limits.exceeded_by, ("used", "gone"), ">="), "is there 0 times"),
        (Compares(Limits.exceeded_by, ("limit",), ">="), "is there 2 times"),
        (Compares(Limits.exceeded_by, ("used", "amount", "limit"), ">"), "is > already"),
        (Constant(gangs, "gone", 1), "there is no schedulerd.core.gangs.handlers.gangs.gone"),
        (Replaced(Limits.exceeded_by, lambda original, limits, used: None), "is called otherwise"),
        (Within(commit.free, Queue.find, lambda original: None), "is called otherwise"),
        (Replaced(len, gives(0)), "is not a function in Python"),
    ],
    ids=lambda value: value.place if not isinstance(value, str) else "",
)
def test_what_does_not_fit_the_core_is_a_mistake(change: Change, why: str) -> None:
    with pytest.raises(DoesNotFit, match=why):
        change.put_in()


def a_mutant(by: Callable[..., object], test: Callable[[], object]) -> Mutant:
    return Mutant("of a test", Rule.QUOTAS, Replaced(Limits.exceeded_by, by), (UnitTested(test),))


def test_a_mutant_that_falls_over_itself_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnitTested, "find", lambda _: Found("KeyError", f"{__file__}"))
    with pytest.raises(OwnFault):
        a_mutant(nothing, lambda: exceeded(11)).found()


def test_a_mutant_that_nothing_comes_to_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert a_mutant(nothing, lambda: None).found() == [""]
    assert "never came to schedulerd.core.language.resources.Limits.exceeded_by" in capsys.readouterr().out
