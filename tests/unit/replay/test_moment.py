from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.specs import SECOND_NS
from schedulerd.replay.moment import MomentInvalid, duration_text, offset_text, parse_moment, time_text

START_NS = 1_700_000_000 * SECOND_NS


@pytest.mark.parametrize(
    ("text", "after_ns"),
    [
        ("0", 0),
        ("12.5", 12_500_000_000),
        ("0.000001", 1_000),
        ("2023-11-14T22:13:21Z", SECOND_NS),
        ("2023-11-14T22:13:21", SECOND_NS),
        ("2023-11-14T23:13:21.25+01:00", 1_250_000_000),
        ("2023-11-15", 6_400 * SECOND_NS),
    ],
)
def test_a_moment_is_seconds_since_the_start_or_a_time(text: str, after_ns: int) -> None:
    assert parse_moment(text, START_NS) == START_NS + after_ns


@pytest.mark.parametrize("text", ["", "noon", "1:30", "nan", "inf", "2023-13-01"])
def test_what_is_no_moment_is_told_what_is_one(text: str) -> None:
    with pytest.raises(MomentInvalid, match="is not a time: write seconds since the start"):
        parse_moment(text, START_NS)


@given(st.integers(0, 2**61))
def test_what_is_printed_can_be_given_back(at_ns: int) -> None:
    assert parse_moment(time_text(at_ns), START_NS) == at_ns // 1_000 * 1_000


@given(st.integers(0, 10**15))
def test_an_offset_can_be_given_back_to_the_millisecond(after_ns: int) -> None:
    at_ns = START_NS + after_ns
    assert abs(parse_moment(offset_text(at_ns, START_NS), START_NS) - at_ns) <= 500_001


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ms"),
        (1_234_567, "1.23 ms"),
        (999_000_000, "999 ms"),
        (12_340_000_000, "12.34 s"),
        (4_321 * SECOND_NS, "4,321 s"),
    ],
)
def test_lengths_of_time_are_short(duration_ns: int, text: str) -> None:
    assert duration_text(duration_ns) == text
