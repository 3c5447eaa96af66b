"""The books: percentiles are measured values, and sums that do not add up are said."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from schedulerd.simulate.books import Books, Latencies


def latencies(values: list[float]) -> Latencies:
    made = Latencies()
    for value in values:
        made.add(value)
    return made


def test_percentiles_of_a_known_series() -> None:
    made = latencies([float(value) for value in range(100, 0, -1)])
    assert made.percentiles_s(0, 50, 90, 99, 100) == (1.0, 50.0, 90.0, 99.0, 100.0)
    assert latencies([]).percentiles_s(50, 99) == (0.0, 0.0)
    assert latencies([3.0]).percentiles_s(50, 99) == (3.0, 3.0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values: list[float], rank: int) -> None:
    (found,) = latencies(values).percentiles_s(rank)
    assert found in values
    needed = math.ceil(rank * len(values) / 100)
    assert sum(value <= found for value in values) >= needed
    assert sum(value < found for value in values) < needed


def test_recent_percentiles_forget() -> None:
    made = latencies([100.0] * 5_000 + [1.0] * 2_000)
    assert made.recent_percentiles_s(50, 99) == (1.0, 1.0)
    assert made.percentiles_s(50) == (100.0,)


def test_books_that_add_up_have_no_discrepancy() -> None:
    books = Books(asks_sent=10, allocations=5, asks_withdrawn=2, asks_rejected=1, releases_confirmed=4)
    assert books.discrepancies(pending=2, held=1) == []


def test_every_wrong_sum_is_told_with_its_numbers() -> None:
    books = Books(asks_sent=10, allocations=6, asks_withdrawn=2, asks_rejected=1, releases_confirmed=4)
    asks, allocations = books.discrepancies(pending=2, held=1)
    assert asks == "10 asks sent, but 6 placed + 2 pending + 2 released + 1 rejected = 11"
    assert allocations == ("6 allocations received, but 4 releases confirmed + 0 stopped by the scheduler + 1 held = 5")
    books = Books()
    books.surprise("a thing")
    assert books.discrepancies(pending=0, held=0) == ["1 messages that should not have come, such as: a thing"]
