from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.config.quantities import INT64_MAX, parse_amount, parse_duration_ns, parse_vcore

POWERS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
FACTORS = POWERS | BINARY
VCORE_FACTORS = {suffix: factor * 1000 for suffix, factor in FACTORS.items()} | {"m": 1}
DURATION_UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def parsed(parse: Callable[[str], int], text: str) -> int | None:
    try:
        return parse(text)
    except ValueError:
        return None


@given(st.integers(0, 2**70), st.sampled_from(sorted(FACTORS)), st.sampled_from(["", " ", "\t "]))
def test_an_amount_is_its_number_times_its_suffix_or_too_large(number: int, suffix: str, space: str) -> None:
    exact = number * FACTORS[suffix]
    assert parsed(parse_amount, f"{number}{space}{suffix}") == (exact if exact <= INT64_MAX else None)


@given(st.integers(0, 2**70), st.sampled_from(sorted(VCORE_FACTORS)))
def test_vcore_is_in_thousandths(number: int, suffix: str) -> None:
    exact = number * VCORE_FACTORS[suffix]
    assert parsed(parse_vcore, f"{number}{suffix}") == (exact if exact <= INT64_MAX else None)


@given(st.text(alphabet="0123456789kKMGTPEmi .,+-_exX٣\n", max_size=8))
def test_nothing_else_is_an_amount(text: str) -> None:
    """Any accepted text is digits and then a suffix: no sign, decimals, exponents or foreign digits."""
    for parse, factors in ((parse_amount, FACTORS), (parse_vcore, VCORE_FACTORS)):
        amount = parsed(parse, text)
        digits = text.rstrip("kKMGTPEmi \n")
        right = digits.isascii() and digits.isdigit() and text[len(digits) :].lstrip() in factors
        assert (amount is not None) == right


@pytest.mark.parametrize(
    "text", ["", " ", "-1", "+1", "1.5", "1e3", "0x10", "1_000", "10K", "10gi", "5m", "G", " 1", "1 G i", "٣"]
)
def test_what_is_no_amount_says_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity; write a whole number with an optional suffix"):
        parse_amount(text)


@pytest.mark.parametrize("text", ["0.5", "-4", "4 cores", "m", "1.5m", "4u"])
def test_what_is_no_vcore_says_what_would_be(text: str) -> None:
    with pytest.raises(
        ValueError, match="not a quantity; write whole cores like 4, or thousandths of a core like 500m"
    ):
        parse_vcore(text)


def test_int64_is_the_end() -> None:
    assert parse_amount(str(INT64_MAX)) == INT64_MAX
    assert parse_vcore(f"{INT64_MAX}m") == INT64_MAX
    assert parse_amount("0" * 5_000 + "7") == 7
    for text in (str(INT64_MAX + 1), "8Ei", "9" * 5_000):
        with pytest.raises(ValueError, match=r"too large: the most is 9223372036854775807$"):
            parse_amount(text)
    with pytest.raises(ValueError, match="too large: the most is 9223372036854775807 thousandths of a core"):
        parse_vcore(str(INT64_MAX // 1000 + 1))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(DURATION_UNITS_NS))), min_size=1, max_size=4))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    total_ns = sum(number * DURATION_UNITS_NS[unit] for number, unit in parts)
    text = "".join(f"{number}{unit}" for number, unit in parts)
    expected = total_ns if total_ns <= INT64_MAX else None
    assert parsed(parse_duration_ns, text) == expected
    assert parsed(parse_duration_ns, f"-{text}") == (None if expected is None else -expected)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("+0", 0),
        ("1.5h", 5400),
        (".5s", Fraction(1, 2)),
        ("1.s", 1),
        ("1h30m", 5400),
        ("300ms", Fraction(3, 10)),
        ("2µs", Fraction(2, 10**6)),
    ],
)
def test_durations_as_they_are_written(text: str, seconds: Fraction | int) -> None:
    assert parse_duration_ns(text) == seconds * 10**9


@pytest.mark.parametrize("text", ["", "30", "s", "1.5", "30 s", "--1s", "1d", ".s", "1e3s", "1s 1m"])
def test_what_is_no_duration_says_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration; write a number with a unit"):
        parse_duration_ns(text)


def test_a_duration_has_an_end() -> None:
    with pytest.raises(ValueError, match="too long: the most is about 292 years"):
        parse_duration_ns("2562048h")
    with pytest.raises(ValueError, match="too long to read"):
        parse_duration_ns("1s" * 40)
