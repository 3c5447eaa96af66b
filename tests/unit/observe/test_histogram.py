"""The histogram counts what Prometheus expects: cumulative, upper bounds included."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schedulerd.observe.histogram import Histogram


def test_a_value_on_a_bound_counts_below_it() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.1, 0.5, 1.0, 1.5):
        histogram.observe(value)
    assert histogram.buckets() == [("0.1", 1.0), ("1.0", 3.0), ("+Inf", 4.0)]
    assert histogram.total == 3.1


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_every_bucket_counts_what_is_at_most_its_bound(values: list[float]) -> None:
    bounds = (0.5, 1.0, 50.0)
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    counts = [count for _, count in histogram.buckets()]
    assert counts == [sum(value <= bound for value in values) for bound in (*bounds, float("inf"))]
