"""Deadlines: order, cancelling, and that what was cancelled does not pile up."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.language.alarms import Alarm, Alarms


def ring_all(alarms: Alarms, now_ns: int) -> list[object]:
    rung: list[object] = []
    while (alarm := alarms.pop_due(now_ns)) is not None:
        rung.append(alarm.event)
    return rung


def test_nothing_is_due_when_nothing_was_set() -> None:
    alarms = Alarms()
    assert alarms.next_deadline_ns() is None
    assert alarms.pop_due(10**20) is None


def test_an_alarm_rings_at_its_deadline_and_once() -> None:
    alarms = Alarms()
    alarms.set(10, "a")
    assert alarms.next_deadline_ns() == 10
    assert ring_all(alarms, 9) == []
    assert ring_all(alarms, 10) == ["a"]
    assert ring_all(alarms, 11) == []


def test_alarms_of_one_instant_ring_in_the_order_they_were_set() -> None:
    alarms = Alarms()
    for name in "cab":
        alarms.set(5, name)
    alarms.set(4, "first")
    assert ring_all(alarms, 5) == ["first", "c", "a", "b"]


def test_a_cancelled_alarm_never_rings() -> None:
    alarms = Alarms()
    gone = alarms.set(1, "gone")
    alarms.set(2, "kept")
    alarms.cancel(gone)
    alarms.cancel(gone)
    alarms.cancel(None)
    assert alarms.next_deadline_ns() == 2
    assert ring_all(alarms, 5) == ["kept"]


def test_cancelling_one_that_has_rung_changes_nothing() -> None:
    alarms = Alarms()
    rung = alarms.set(1, "a")
    assert alarms.pop_due(1) is rung
    alarms.cancel(rung)
    alarms.set(2, "b")
    assert ring_all(alarms, 2) == ["b"]


def test_cancelled_alarms_do_not_pile_up() -> None:
    """Ten thousand timers that are set and cancelled, as for a job that never stops, leave next to nothing behind."""
    alarms = Alarms()
    kept = alarms.set(10**9, "kept")
    for deadline in range(10_000):
        alarms.cancel(alarms.set(10**6 - deadline, deadline))
    assert alarms.live() == [kept]
    assert len(alarms._heap) < 200


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=300), st.integers(0, 20))
def test_what_rings_is_what_a_sorted_list_says(plan: list[tuple[int, bool]], now_ns: int) -> None:
    alarms = Alarms()
    set_: list[tuple[int, int, Alarm]] = [
        (deadline_ns, number, alarms.set(deadline_ns, number)) for number, (deadline_ns, _) in enumerate(plan)
    ]
    for (_, cancel), (_, _, alarm) in zip(plan, set_, strict=True):
        if cancel:
            alarms.cancel(alarm)
    left = sorted((entry[0], entry[1]) for entry, (_, cancel) in zip(set_, plan, strict=True) if not cancel)
    event("many cancelled" if len(plan) - len(left) > 64 else "few cancelled")
    assert alarms.next_deadline_ns() == (left[0][0] if left else None)
    assert ring_all(alarms, now_ns) == [number for deadline_ns, number in left if deadline_ns <= now_ns]
    assert sorted(alarm.deadline_ns for alarm in alarms.live()) == [ns for ns, _ in left if ns > now_ns]
