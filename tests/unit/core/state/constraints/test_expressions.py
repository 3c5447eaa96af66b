"""Expressions on keys and values: when they hold, and how that is said."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import Expression, Operator
from schedulerd.core.state.constraints.expressions import all_hold, canonical, first_unmet, why_unmet
from tests.unit.core.constraint_builders import has, lacks, none_of, one_of


@pytest.mark.parametrize(
    ("expression", "listed", "other", "missing"),
    [
        (one_of("zone", "a", "b"), True, False, False),
        (none_of("zone", "a", "b"), False, True, True),
        (has("zone"), True, True, False),
        (lacks("zone"), False, False, True),
    ],
)
def test_operators(expression: Expression, listed: bool, other: bool, missing: bool) -> None:
    found = [all_hold((expression,), values) for values in ({"zone": "b"}, {"zone": "c"}, {"gpu": "a"})]
    assert found == [listed, other, missing]


def test_all_expressions_are_to_hold_and_the_first_that_does_not_is_named() -> None:
    demanded = (has("gpu"), one_of("zone", "a"))
    values: dict[str, str] = {}
    assert first_unmet(demanded, values.get) == demanded[0]
    values["gpu"] = ""
    assert first_unmet(demanded, values.get) == demanded[1]
    values["zone"] = "a"
    assert first_unmet(demanded, values.get) is None
    assert all_hold((), {})


def test_the_same_demands_are_equal_in_any_order() -> None:
    one = canonical([one_of("zone", "b", "a", "b"), Expression("gpu", Operator.EXIST, ("ignored",))])
    assert one == canonical([has("gpu"), one_of("zone", "a", "b"), has("gpu")])
    assert one == (has("gpu"), one_of("zone", "a", "b"))


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (one_of("zone", "a"), "zone is not a"),
        (one_of("zone", "a", "b", "c", "d", "e"), "zone is not (a,b,c or 2 more)"),
        (none_of("zone", "a", "b"), "zone is (a,b)"),
        (has("gpu"), "no gpu"),
        (lacks("spot"), "spot is set"),
    ],
)
def test_what_does_not_hold_is_said_in_the_same_words_for_all(expression: Expression, said: str) -> None:
    assert why_unmet(expression, lambda _: None) == said
