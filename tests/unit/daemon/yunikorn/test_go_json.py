"""JSON is written as Go's encoder writes it, value by value."""

from __future__ import annotations

import pytest

from schedulerd.daemon.yunikorn.go_json import (
    GO_JSON,
    amounts,
    duration,
    encode,
    go_object,
    percentages,
    quota,
)
from tests.loops import each_row


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("<a>&\u2028\u2029", '"\\u003ca\\u003e\\u0026\\u2028\\u2029"'),
        ("\u00fc\U0001f600", '"\u00fc\U0001f600"'),
        ('\x00\x1f"\\', '"\\u0000\\u001f\\"\\\\"'),
        (2**63 - 1, "9223372036854775807"),
        ({"a": [1, 2.5, True, None]}, '{"a":[1,2.5,true,null]}'),
    ],
)
def test_values(value: object, text: str) -> None:
    assert encode(value) == text
    assert "".join(GO_JSON.pieces(value)) == text


def test_zero_values_are_left_out_unless_they_are_always_there() -> None:
    assert go_object({"a": 0, "b": "", "c": {}, "d": False, "e": 1}, frozenset({"a", "d"})) == {
        "a": 0,
        "d": False,
        "e": 1,
    }


def test_amounts_and_quotas() -> None:
    assert amounts({"vcore": 0, "memory": 2**70}) == {"memory": 2**63 - 1}
    assert quota({"vcore": 0}) == {"vcore": 0}
    assert quota(None) == {}


@pytest.mark.parametrize(
    ("used", "capacity", "percent"), [(177, 1_000, 17), (0, 0, 0), (-5, 10, 0), (5, 0, 100), (30, 10, 300)]
)
def test_percentages_are_cut_off(used: int, capacity: int, percent: int) -> None:
    assert percentages({"a": used, "b": 1}, {"a": capacity}) == {"a": percent}


@each_row(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (30 * 10**9, "30s"),
        (90 * 10**9, "1m30s"),
        (3_600 * 10**9, "1h0m0s"),
        (1_500_000_000, "1.5s"),
        (1_500_000, "1.5ms"),
        (1_001, "1.001\u00b5s"),
        (7, "7ns"),
        (-2 * 10**9, "-2s"),
        (3_661_000_000_001, "1h1m1.000000001s"),
    ],
)
def test_durations(nanoseconds: int, text: str) -> None:
    assert duration(nanoseconds) == text
