"""A test that is a loop plays all its rows or seeds, and names those that fail."""

from __future__ import annotations

import pytest

from tests.loops import each_row, each_seed


def test_all_rows_are_played_and_those_that_fail_are_named() -> None:
    played = []

    @each_row("a, b", [(1, 1), (2, 3), pytest.param(3, 4, id="three")])
    def test(a: int, b: int) -> None:
        played.append(a)
        assert a == b

    with pytest.raises(ExceptionGroup) as found:
        test()
    assert played == [1, 2, 3]
    assert [error.__notes__ for error in found.value.exceptions] == [["(2, 3)"], ["three"]]


def test_a_row_that_does_not_raise_what_it_should_stops_no_other_row() -> None:
    @each_row("text", ["1", "one", "2"])
    def test(text: str) -> None:
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(BaseExceptionGroup) as found:
        test()
    assert [error.__notes__ for error in found.value.exceptions] == [["'1'"], ["'2'"]]


def test_the_seed_that_fails_is_named() -> None:
    @each_seed(range(8), nightly=[9])
    def test(seed: int) -> None:
        assert seed < 6

    groups = [one.values[0] for one in test.pytestmark[0].args[1]]  # type: ignore[attr-defined]
    assert groups == [(0,), (1, 2, 3, 4, 5, 6, 7), (9,)]
    test(played=groups[0])
    with pytest.raises(AssertionError) as found:
        test(played=groups[1])
    assert found.value.__notes__ == ["seed 6"]
