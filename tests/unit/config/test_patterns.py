"""Regular expressions of filters: what they mean, and that none takes long."""

from __future__ import annotations

import re

import pytest

from schedulerd.config import matches
from schedulerd.config.patterns import CHARACTERS_MAX, KEPT_MAX, _compiled, program_size
from tests.loops import each_row


@each_row(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^b$", "b", True),
        ("^b$", "b\n", False),
        ("^[[:digit:]]{3}$", "123", True),
        (r"^\d$", "٣", False),
        (r"^\pN$", "٣", True),
        ("^.$", "é", True),
        ("(?i)^É$", "é", True),
        ("é", "\ud800é", True),
        ("^.$", "\ud800", True),
        ("x*", "", True),
        (r"a\z", "a", True),
    ],
)
def test_a_pattern_matches_anywhere_in_a_text(pattern: str, text: str, found: bool) -> None:
    assert program_size(pattern) > 0
    assert matches(pattern, text) is found


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a[(", "missing ]: [("),
        ("(?<=a)b*", "invalid perl operator: (?<"),
        (r"(a)\1", r"invalid escape sequence: \1"),
        ("é*" * (CHARACTERS_MAX // 2) + "x", f"it has {CHARACTERS_MAX + 1} characters; at most {CHARACTERS_MAX} are"),
        ("\ud800*", "it has a character that Unicode does not have"),
        (r"\pL{1000}", "pattern too large"),
    ],
)
def test_a_text_that_is_no_pattern_is_refused_with_the_reason(
    pattern: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        program_size(pattern)
    assert capfd.readouterr() == ("", ""), "nothing of it goes to stderr"


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "(a?){30}a{30}$"])
def test_a_pattern_that_backtracking_never_ends_with_is_answered(pattern: str) -> None:
    """The time limit of the test is the assertion: `re` would need longer than the universe has."""
    assert not matches(pattern, "a" * 1000 + "!")


def test_so_many_compiled_patterns_are_kept() -> None:
    for number in range(KEPT_MAX + 10):
        assert matches(f"^a{number}$", f"a{number}")
    assert _compiled.cache_info().currsize == KEPT_MAX
