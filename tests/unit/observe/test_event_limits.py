"""The same thing of the same object is said once in a while, and what is remembered for that is bounded."""

from __future__ import annotations

import pytest

from schedulerd.observe import event_limits
from schedulerd.observe.event_limits import EACH_NS, EventLimits


def test_it_is_said_again_when_its_time_is_over() -> None:
    limits = EventLimits()
    assert limits.allow("a", 0)
    assert not limits.allow("a", EACH_NS - 1)
    assert limits.allow("b", EACH_NS - 1)
    assert limits.allow("a", EACH_NS)
    assert not limits.allow("b", EACH_NS)
    assert limits.suppressed == 2


def test_being_suppressed_does_not_make_it_wait_longer() -> None:
    limits = EventLimits()
    limits.allow("a", 0)
    for now_ns in range(0, EACH_NS, EACH_NS // 10):
        limits.allow("a", now_ns)
    assert limits.allow("a", EACH_NS)


def test_a_flood_of_different_things_is_bounded_and_over_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_limits, "REMEMBERED_MAX", 3)
    limits = EventLimits()
    assert [limits.allow(number, 0) for number in range(5)] == [True, True, True, False, False]
    assert len(limits._said_ns) == 3
    assert limits.suppressed == 2
    assert limits.allow(99, EACH_NS)
    assert len(limits._said_ns) == 1
