"""Fairness as a sort key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.pending.pending_index import Key
from schedulerd.core.pending.sort_keys import application_key, shares
from schedulerd.core.pending.sort_keys import queue_key as full_queue_key
from schedulerd.core.resources import Resources
from schedulerd.core.specs import ApplicationOrder, QueueProperties

HUGE = 2**63 - 1
amounts = st.dictionaries(st.sampled_from(["memory", "vcore", "gpu"]), st.integers(0, HUGE)).map(Resources)


def queue_key(
    allocated: Resources, guaranteed: Resources, pending: Resources, name: str, priority: int = 0, first: bool = True
) -> Key:
    properties = QueueProperties(priority_sort=first)
    return full_queue_key(properties, priority, allocated, guaranteed, Resources(), pending, name)


def fair(used: Resources, serial: int, priority: int = 0, first: bool = True) -> Key:
    properties = QueueProperties(application_order=ApplicationOrder.FAIR, priority_sort=first)
    return application_key(properties, priority, used, Resources(), Resources(), serial)


def fifo(serial: int, priority: int = 0, first: bool = True) -> Key:
    none = Resources()
    return application_key(QueueProperties(priority_sort=first), priority, none, none, none, serial)


def test_a_share_is_usage_over_guarantee_largest_first() -> None:
    assert shares(Resources(memory=50, vcore=9), Resources(memory=100, vcore=10), Resources()) == (0.9, 0.5)


def test_without_a_guarantee_usage_itself_counts() -> None:
    assert shares(Resources(memory=50), Resources(), Resources()) == (50.0,)
    assert shares(Resources(memory=50), Resources(memory=0), Resources()) == (50.0,)


def test_what_is_not_used_has_no_share() -> None:
    assert shares(Resources(memory=0), Resources(memory=100), Resources()) == ()


def test_the_smallest_largest_share_goes_first() -> None:
    half = queue_key(Resources(memory=50), Resources(memory=100), Resources(), "z")
    most = queue_key(Resources(vcore=9), Resources(vcore=10), Resources(), "a")
    assert half < most


def test_the_second_largest_share_decides_between_equal_largest_ones() -> None:
    guaranteed = Resources(memory=100, vcore=100)
    one = queue_key(Resources(memory=50, vcore=10), guaranteed, Resources(), "z")
    other = queue_key(Resources(memory=50, vcore=20), guaranteed, Resources(), "a")
    assert one < other


def test_equal_queues_go_by_pending_then_by_name() -> None:
    none = Resources()
    assert queue_key(none, none, Resources(memory=5), "z") < queue_key(none, none, Resources(memory=1), "a")
    assert queue_key(none, none, none, "a") < queue_key(none, none, none, "b")


def test_equal_applications_go_by_submission() -> None:
    used = Resources(memory=5)
    assert fair(used, 1) < fair(used, 2)
    assert fair(used, 9) < fair(Resources(memory=6), 1)
    assert fifo(1) < fifo(2)


def test_priority_comes_first_or_decides_between_equals() -> None:
    less, more = Resources(memory=1), Resources(memory=9)
    assert queue_key(more, Resources(), Resources(), "z", priority=1) < queue_key(less, Resources(), Resources(), "a")
    late = queue_key(more, Resources(), Resources(), "z", priority=1, first=False)
    assert queue_key(less, Resources(), Resources(), "a", first=False) < late
    assert queue_key(less, Resources(), Resources(), "z", priority=1, first=False) < queue_key(
        less, Resources(), Resources(), "a", first=False
    )
    assert fair(more, 9, priority=1) < fair(less, 1)
    assert fair(less, 1, first=False) < fair(more, 9, priority=1, first=False)
    assert fifo(9, priority=1) < fifo(1)
    assert fifo(1, first=False) < fifo(9, priority=1, first=False)


@given(amounts, amounts, st.integers(1, 10**6))
def test_more_usage_never_comes_earlier(used: Resources, guaranteed: Resources, more: int) -> None:
    for name in ("memory", "vcore", "gpu"):
        assert shares(used, guaranteed, Resources()) <= shares(used.plus({name: more}), guaranteed, Resources())
