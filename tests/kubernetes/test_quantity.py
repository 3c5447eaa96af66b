"""Quantities, against a reference that computes with fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.kubernetes.quantity import NANOS, MalformedQuantity, millis, nanos, units
from tests.loops import each_row

INT64_MAX = 2**63 - 1

SUFFIXES = {
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m"), -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}

numbers = st.from_regex(r"[+-]?([0-9]{1,20}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True)
suffixes = st.one_of(
    st.sampled_from(sorted(SUFFIXES)), st.from_regex(r"[eE][+-]?[0-9]{1,2}", fullmatch=True), st.just("e-30")
)


def reference(number: str, suffix: str) -> Fraction:
    """The value, as far as a quantity can hold it: in nanos, rounded away from zero, bounded by an int64 of units."""
    factor = SUFFIXES[suffix] if suffix in SUFFIXES else Fraction(10) ** int(suffix[1:])
    value = Fraction(number.rstrip(".") if not number.startswith("+") else number[1:].rstrip(".")) * factor
    return max(Fraction(-INT64_MAX), min(Fraction(INT64_MAX), Fraction(away_from_zero(value * NANOS), NANOS)))


def away_from_zero(value: Fraction) -> int:
    return math.ceil(value) if value >= 0 else math.floor(value)


@given(numbers, suffixes)
def test_any_quantity_is_exact(number: str, suffix: str) -> None:
    value = reference(number, suffix)
    assert nanos(number + suffix) == value * NANOS
    assert units(number + suffix) == away_from_zero(value)
    assert millis(number + suffix) == max(-INT64_MAX, min(INT64_MAX, away_from_zero(value * 1000)))


@each_row(
    ("text", "in_millis", "in_units"),
    [
        ("500m", 500, 1),
        ("0.5", 500, 1),
        ("100u", 1, 1),
        ("1n", 1, 1),
        ("-1500m", -1500, -2),
        ("-0.1m", -1, -1),
        ("1.5Gi", 1_610_612_736_000, 1_610_612_736),
        ("0.1Ki", 102_400, 103),
        ("1E", 10**21, 10**18),
        ("1e3", 1_000_000, 1000),
        ("1E3", 1_000_000, 1000),
        ("12E-1", 1200, 2),
        ("5.", 5000, 5),
        (".5", 500, 1),
        ("+2k", 2_000_000, 2000),
        ("0", 0, 0),
        ("00.00e99", 0, 0),
    ],
)
def test_in_thousandths_and_units(text: str, in_millis: int, in_units: int) -> None:
    assert (millis(text), units(text)) == (min(in_millis, INT64_MAX), in_units)


def test_numbers_of_json() -> None:
    assert (millis(2), units(-3), nanos(0)) == (2000, -3, 0)


@pytest.mark.parametrize("text", ["9223372036854775808", "8Ei", "1e100", "1e999999999999", 10**40, "10E"])
def test_more_than_an_int64_is_an_int64(text: str | int) -> None:
    assert units(text) == INT64_MAX
    assert millis(text) == INT64_MAX


def test_less_than_a_nano_is_a_nano() -> None:
    assert nanos("1e-999999999999") == 1
    assert nanos("-0.0000000001n") == -1


@each_row(
    "text",
    [
        "",
        ".",
        "-",
        "m",
        "1 ",
        " 1",
        "1K",
        "1ki",
        "1mi",
        "1e",
        "1e+",
        "1.2.3",
        "0x10",
        "1_000",
        "\u0661",
        "1Kii",
        "--1",
        "NaN",
    ],
)
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(MalformedQuantity, match="is no quantity"):
        units(text)


def test_a_long_text_is_refused_unread() -> None:
    assert units("1" + "." + "0" * 62) == 1
    with pytest.raises(MalformedQuantity) as error:
        units("0" * 65)
    assert len(str(error.value)) < 150
