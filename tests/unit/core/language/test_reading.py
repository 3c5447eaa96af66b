from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.language import reading
from schedulerd.core.language.reading import INT64_MAX, INT64_MIN, UINT64_MAX, Unreadable
from tests.loops import each_row

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
    assert parsed(reading.amount, f"{number}{space}{suffix}") == (exact if exact <= INT64_MAX else None)


@given(st.integers(0, 2**70), st.sampled_from(sorted(VCORE_FACTORS)))
def test_vcore_is_in_thousandths(number: int, suffix: str) -> None:
    exact = number * VCORE_FACTORS[suffix]
    assert parsed(reading.vcore, f"{number}{suffix}") == (exact if exact <= INT64_MAX else None)


@given(st.text(alphabet="0123456789kKMGTPEmi .,+-_exX٣\n", max_size=8))
def test_nothing_else_is_an_amount(text: str) -> None:
    """Any accepted text is digits and then a suffix: no sign, decimals, exponents or foreign digits."""
    for parse, factors in ((reading.amount, FACTORS), (reading.vcore, VCORE_FACTORS)):
        amount = parsed(parse, text)
        digits = text.rstrip("kKMGTPEmi \n")
        right = digits.isascii() and digits.isdigit() and text[len(digits) :].lstrip() in factors
        assert (amount is not None) == right


@each_row("text", ["", " ", "-1", "+1", "1.5", "1e3", "0x10", "1_000", "10K", "10gi", "5m", "G", " 1", "1 G i", "٣"])
def test_what_is_no_amount_says_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity; write a whole number with an optional suffix"):
        reading.amount(text)


@pytest.mark.parametrize("text", ["0.5", "-4", "4 cores", "m", "1.5m", "4u"])
def test_what_is_no_vcore_says_what_would_be(text: str) -> None:
    with pytest.raises(
        ValueError, match="not a quantity; write whole cores like 4, or thousandths of a core like 500m"
    ):
        reading.vcore(text)


def test_int64_is_the_end() -> None:
    assert reading.amount(str(INT64_MAX)) == INT64_MAX
    assert reading.vcore(f"{INT64_MAX}m") == INT64_MAX
    assert reading.amount("0" * 63 + "7") == 7
    for text in (str(INT64_MAX + 1), "8Ei", "9" * 64):
        with pytest.raises(ValueError, match=r"too large: the most is 9223372036854775807$"):
            reading.amount(text)
    with pytest.raises(ValueError, match="too large: the most is 9223372036854775807 thousandths of a core"):
        reading.vcore(str(INT64_MAX // 1000 + 1))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(DURATION_UNITS_NS))), min_size=1, max_size=4))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    total_ns = sum(number * DURATION_UNITS_NS[unit] for number, unit in parts)
    text = "".join(f"{number}{unit}" for number, unit in parts)
    expected = total_ns if total_ns <= INT64_MAX else None
    assert parsed(reading.duration_ns, text) == expected
    assert parsed(reading.duration_ns, f"-{text}") == (None if expected is None else -expected)


@each_row(
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
    assert reading.duration_ns(text) == seconds * 10**9


@each_row("text", ["", "30", "s", "1.5", "30 s", "--1s", "1d", ".s", "1e3s", "1s 1m"])
def test_what_is_no_duration_says_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration; write a number with a unit"):
        reading.duration_ns(text)


def test_a_duration_has_an_end() -> None:
    with pytest.raises(ValueError, match="too long: the most is about 292 years"):
        reading.duration_ns("2562048h")
    with pytest.raises(ValueError, match="too long to read"):
        reading.duration_ns("1s" * 40)


READERS: list[Callable[[str], object]] = [
    reading.whole_number,
    reading.count,
    reading.weight,
    reading.amount,
    reading.vcore,
    reading.duration_ns,
    reading.amounts,
]
LONG = 60_000


@each_row("reader", READERS)
@each_row(
    "text",
    [
        "9" * 5_000,
        "0" * LONG,
        "9" * LONG,
        "." * LONG,
        "1." * LONG,
        "1s" * LONG,
        " " * LONG,
        "-" * LONG,
        "[" * LONG,
        '{"a":' * LONG,
        '"' * LONG,
        '"\\' * LONG,
        "a." * LONG,
        "1" + " " * LONG + "x",
        "1e" + "9" * 70,
        "nan",
        "Infinity",
        "\u0663",
        "\x00",
        "",
    ],
)
def test_a_hostile_text_is_refused_at_once(reader: Callable[[str], object], text: str) -> None:
    """None of these may raise anything else, or take longer than the test's own limit."""
    with pytest.raises(Unreadable):
        reader(text)


@given(st.sampled_from(READERS), st.text(max_size=300))
def test_no_text_makes_a_reader_raise_anything_but_unreadable(reader: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(Unreadable):
        reader(text)


@given(st.integers(-(2**70), 2**70))
def test_a_whole_number_is_within_its_bounds(number: int) -> None:
    assert parsed(reading.whole_number, str(number)) == (number if INT64_MIN <= number <= INT64_MAX else None)
    assert parsed(reading.count, str(number)) == (number if 0 <= number <= UINT64_MAX else None)


@each_row("text", ["+5", "-0", "5.0", "5e0", " 5", "5 ", "1_0", "5\n"])
def test_a_count_is_digits_and_nothing_else(text: str) -> None:
    with pytest.raises(Unreadable, match="must be a whole number from 0"):
        reading.count(text)


@pytest.mark.parametrize(("text", "weight"), [("0", 0.0), ("1.5", 1.5), (".5", 0.5), ("2.", 2.0), ("1e3", 1000.0)])
def test_weights_as_they_are_written(text: str, weight: float) -> None:
    assert reading.weight(text) == weight


@pytest.mark.parametrize("text", ["-1", "inf", "1_0", "0x1", "one", " 1"])
def test_what_is_no_weight_says_what_would_be(text: str) -> None:
    with pytest.raises(Unreadable, match="a weight is a number, 0 or more"):
        reading.weight(text)


def test_a_weight_has_an_end() -> None:
    for text in ("1e19", "1e400"):
        with pytest.raises(Unreadable, match="a weight is at most"):
            reading.weight(text)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ('{"resources": {"memory": {"value": 30}, "vcore": {"value": 3}}}', {"memory": 30, "vcore": 3}),
        ('{"resources": {"memory": {"value": "30"}}}', {"memory": 30}),
        ('{"resources": {"memory": {}}}', {"memory": 0}),
        ('{"resources": {"memory": {"value": 9223372036854775807}}}', {"memory": INT64_MAX}),
        ('{"resources": {}}', {}),
        ("{}", {}),
    ],
)
def test_amounts_as_a_shim_writes_them(text: str, amounts: dict[str, int]) -> None:
    assert reading.amounts(text) == amounts


@each_row(
    ("text", "right"),
    [
        ("no json", "the text must be JSON; Expecting value at character 0"),
        ("[]", "the whole text must be a JSON object"),
        ('{"memory": "10"}', "the whole text must have no other key than 'resources'"),
        ('{"resources": null}', '"resources" must be a JSON object'),
        ('{"resources": {"memory": 5}}', "the amount of 'memory' must be a JSON object"),
        ('{"resources": {"memory": {"valeu": 5}}}', "the amount of 'memory' must have no other key than 'value'"),
        ('{"resources": {"memory": {"value": true}}}', "the amount of 'memory' must be a whole number from 0"),
        ('{"resources": {"memory": {"value": null}}}', "the amount of 'memory' must be a whole number from 0"),
        ('{"resources": {"memory": {"value": -1}}}', "the amount of 'memory' must be a whole number from 0"),
        ('{"resources": {"memory": {"value": "1.5"}}}', "the amount of 'memory' must be a whole number from 0"),
        ('{"resources": {"memory": {"value": 9223372036854775808}}}', "must be a whole number from"),
        ('{"resources": {"memory": {"value": 1.5}}}', "a number must be whole"),
        ('{"resources": {"memory": {"value": 1.0}}}', "a number must be whole"),
        ('{"resources": {"memory": {"value": 1e400}}}', "a number must be whole"),
        ('{"resources": {"memory": {"value": Infinity}}}', "a number must be whole"),
        ('{"resources": {"memory": {"value": NaN}}}', "a number must be whole"),
        ('{"resources": {"memory": {"value": 1, "value": 2}}}', "a key must stand only once"),
        (r'{"resources": {"\ud800": {"value": 1}}}', "a key must be Unicode text"),
        ('{"resources": ' + "[" * 500, "the text must have at most 200 opening brackets"),
        (" " * 32_769, "the text must have at most 32768 characters"),
    ],
)
def test_what_are_no_amounts_says_what_would_be(text: str, right: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(right)):
        reading.amounts(text)
