"""Amounts: what a missing name means, and that ledgers change in place while values do not."""

from __future__ import annotations

import pytest

from schedulerd.core.language.resources import Limits, Resources


def test_a_missing_resource_is_none_of_it() -> None:
    assert Resources()["gpu"] == 0
    assert Resources(memory=1).lacks((("gpu", 1),)) == "gpu"


def test_reading_a_missing_name_does_not_add_it() -> None:
    amounts = Resources(memory=1)
    assert amounts["gpu"] == 0
    assert list(amounts) == ["memory"]


def test_zeros_do_not_make_a_difference() -> None:
    assert Resources(memory=1, gpu=0) == Resources(memory=1)
    assert Resources(memory=1, gpu=0) == {"memory": 1}
    assert Resources(memory=1, gpu=2) != Resources(memory=1)
    assert Resources(memory=1) != "memory"
    assert Resources(gpu=0).is_zero()


def test_a_ledger_cannot_be_a_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Resources())


def test_canonical_items_are_sorted_and_without_zeros() -> None:
    assert Resources(vcore=2, gpu=0, memory=1).canonical() == (("memory", 1), ("vcore", 2))
    assert list(Resources(vcore=2, gpu=0, memory=1).nonzero()) == ["memory", "vcore"]


def test_add_and_subtract_change_a_ledger_in_place() -> None:
    ledger = Resources(memory=5)
    ledger.add((("memory", 2), ("vcore", 1)), times=3)
    assert ledger == {"memory": 11, "vcore": 3}
    ledger.subtract((("memory", 20),))
    assert ledger["memory"] == -9


def test_plus_minus_and_times_leave_their_operands_alone() -> None:
    some, other = Resources(memory=5), Resources(memory=2, vcore=1)
    assert some.plus(other) == {"memory": 7, "vcore": 1}
    assert some.minus(other) == {"memory": 3, "vcore": -1}
    assert some.times(3) == {"memory": 15}
    assert (some, other) == ({"memory": 5}, {"memory": 2, "vcore": 1})


def test_lacks_names_the_first_that_is_short() -> None:
    have = Resources(memory=10, vcore=1)
    assert have.lacks((("memory", 10), ("vcore", 1))) is None
    assert have.lacks((("memory", 11), ("vcore", 2))) == "memory"
    assert have.lacks(()) is None


def test_a_missing_limit_is_unlimited_and_zero_is_none() -> None:
    assert Limits().exceeded_by({"memory": 10**30}, (("memory", 10**30),)) is None
    assert Limits(gpu=0).exceeded_by({}, (("gpu", 1),)) == "gpu"


def test_a_limit_may_be_reached_but_not_passed() -> None:
    limit = Limits(memory=10)
    assert limit.exceeded_by({"memory": 7}, (("memory", 3),)) is None
    assert limit.exceeded_by({"memory": 7}, (("memory", 4),)) == "memory"


def test_usage_over_a_limit_blocks_only_what_asks_for_that_type() -> None:
    limit = Limits(memory=10, vcore=10)
    assert limit.exceeded_by({"memory": 99}, (("vcore", 1),)) is None
    assert limit.exceeded_by({"memory": 99}, (("memory", 0), ("vcore", 1))) is None


def test_tightest_takes_the_smaller_of_each() -> None:
    assert Limits(memory=10, vcore=1).tightest({"memory": 5, "gpu": 0}) == {"memory": 5, "vcore": 1, "gpu": 0}


def test_left_is_negative_where_usage_is_over() -> None:
    assert Limits(memory=10, vcore=5).left({"memory": 12, "gpu": 3}) == {"memory": -2, "vcore": 5}
