"""A thread with much to compute stops every now and then."""

from __future__ import annotations

import pytest

from schedulerd.daemon.runtime.slices import GAP_SECONDS, SLICE_SECONDS, Slices


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.gaps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.gaps.append(self.now)
        self.now += seconds


def test_there_is_a_gap_after_each_slice() -> None:
    time = Time()
    slices = Slices(lambda: time.now, time.sleep)
    for _ in range(2):
        for number, item in enumerate(slices.of(range(8))):
            assert item == number
            time.now += SLICE_SECONDS / 3.9
    period = SLICE_SECONDS * 4 / 3.9 + GAP_SECONDS
    assert time.gaps == pytest.approx([period * n - GAP_SECONDS for n in (1, 2, 3)])


def test_short_work_is_not_stopped() -> None:
    time = Time()
    assert list(Slices(lambda: time.now, time.sleep).of(range(1_000))) == list(range(1_000))
    assert time.gaps == []
