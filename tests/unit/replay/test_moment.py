from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.language.specs import SECOND_NS
from schedulerd.instant import Instant
from schedulerd.replay.moment import MomentInvalid, duration_text, offset_text, parse_end, time_text

START = Instant(7_000 * SECOND_NS, 1_700_000_000 * SECOND_NS)
DAY_NS = 86_400 * SECOND_NS


def ends(text: str, *, wall: bool) -> int:
    """The last nanosecond, after the start, that is not after the moment, by the clock that counts for it."""
    is_over, low, high = parse_end(text, START), -(2**61), 2**61
    while low < high:
        middle = (low + high + 1) // 2
        now = START._replace(wall_ns=START.wall_ns + middle) if wall else START._replace(monotonic_ns=START[0] + middle)
        low, high = (low, middle - 1) if is_over(now) else (middle, high)
    return low


@pytest.mark.parametrize(("text", "after_ns"), [("0", 0), ("12.5", 12_500_000_000), ("0.000001", 1_000)])
def test_a_number_is_seconds_after_the_start_by_the_monotonic_clock(text: str, after_ns: int) -> None:
    assert ends(text, wall=False) == after_ns
    is_over = parse_end(text, START)
    assert not is_over(Instant(START.monotonic_ns + after_ns, START.wall_ns + DAY_NS))
    assert is_over(Instant(START.monotonic_ns + after_ns + 1, START.wall_ns - DAY_NS))


@pytest.mark.parametrize(
    ("text", "after_ns"),
    [
        ("2023-11-14T22:13:21Z", SECOND_NS),
        ("2023-11-14T22:13:21", SECOND_NS),
        ("2023-11-14T23:13:21.25+01:00", 1_250_000_000),
        ("2023-11-15", 6_400 * SECOND_NS),
    ],
)
def test_a_time_is_that_of_the_wall_clock(text: str, after_ns: int) -> None:
    assert ends(text, wall=True) == after_ns
    is_over = parse_end(text, START)
    assert not is_over(Instant(START.monotonic_ns + DAY_NS, START.wall_ns + after_ns))
    assert is_over(Instant(START.monotonic_ns, START.wall_ns + after_ns + 1))


@pytest.mark.parametrize("text", ["", "noon", "1:30", "nan", "inf", "2023-13-01"])
def test_what_is_no_moment_is_told_what_is_one(text: str) -> None:
    with pytest.raises(MomentInvalid, match="is not a time: write seconds since the start"):
        parse_end(text, START)


@given(st.integers(0, 2**61))
def test_what_is_printed_can_be_given_back(at_ns: int) -> None:
    assert START.wall_ns + ends(time_text(at_ns), wall=True) == at_ns // 1_000 * 1_000


@given(st.integers(0, 10**15))
def test_an_offset_can_be_given_back_to_the_millisecond(after_ns: int) -> None:
    text = offset_text(START.monotonic_ns + after_ns, START.monotonic_ns)
    assert abs(ends(text, wall=False) - after_ns) <= 500_001


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
