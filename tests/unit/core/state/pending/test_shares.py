"""Fairness as a sort key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import ApplicationOrder, QueueProperties
from schedulerd.core.state.pending.pending_index import Key
from schedulerd.core.state.pending.sort_keys import WHOLE, application_key, fair_share
from schedulerd.core.state.pending.sort_keys import queue_key as full_queue_key
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask, placed

HUGE = 2**63 - 1
NONE, NO_MAX = Resources(), Limits()
CAPACITY = Resources(memory=100, vcore=100)
amounts = st.dictionaries(st.sampled_from(["memory", "vcore", "gpu"]), st.integers(0, HUGE)).map(Resources)


def queue_key(
    allocated: Resources, guaranteed: Resources, pending: Resources, name: str, priority: int = 0, first: bool = True
) -> Key:
    properties = QueueProperties(priority_sort=first)
    return full_queue_key(properties, priority, allocated, guaranteed, NO_MAX, CAPACITY, pending, name)


def fair(used: Resources, serial: int, priority: int = 0, first: bool = True) -> Key:
    properties = QueueProperties(application_order=ApplicationOrder.FAIR, priority_sort=first)
    return application_key(properties, priority, used, Resources(memory=1), Limits(memory=1), CAPACITY, (serial, ""))


def fifo(serial: int, priority: int = 0, first: bool = True) -> Key:
    return application_key(QueueProperties(priority_sort=first), priority, NONE, NONE, NO_MAX, NONE, (serial, ""))


def share(used: Resources, guaranteed: Resources = NONE, most: Limits = NO_MAX, capacity: Resources = CAPACITY) -> int:
    return fair_share(used, guaranteed, most, capacity)


def test_a_share_is_the_largest_part_of_the_guarantee_that_is_used() -> None:
    guaranteed = Resources(memory=100, vcore=8)
    assert share(Resources(memory=50, vcore=2), guaranteed) == WHOLE // 2
    assert share(Resources(memory=50, vcore=8), guaranteed) == WHOLE
    assert share(Resources(memory=50, vcore=16), guaranteed) == 2 * WHOLE


def test_a_type_is_measured_against_the_guarantee_else_the_max_else_the_capacity() -> None:
    used = Resources(memory=10)
    assert share(used, Resources(memory=20, vcore=1), Limits(memory=40)) == WHOLE // 2
    assert share(used, Resources(vcore=1), Limits(memory=40, vcore=1)) == WHOLE // 4
    assert share(used, Resources(vcore=1), Limits(vcore=1), Resources(memory=80)) == WHOLE // 8


def test_a_type_that_none_of_them_names_is_ignored() -> None:
    assert share(Resources(gpu=7)) == 0
    assert share(Resources(gpu=7, memory=50)) == WHOLE // 2


def test_use_of_a_type_of_which_0_is_allowed_is_a_whole_share() -> None:
    for amount in (1, 10**9):
        assert share(Resources(memory=amount), NONE, Limits(memory=0)) == WHOLE
    assert share(NONE, NONE, Limits(memory=0)) == 0


def test_a_guarantee_of_0_is_none() -> None:
    assert share(Resources(memory=10), Resources(memory=0), Limits(memory=40)) == WHOLE // 4
    assert share(Resources(memory=10), Resources(memory=0), NO_MAX) == WHOLE // 10


def test_the_smallest_largest_share_goes_first() -> None:
    half = queue_key(Resources(memory=50), Resources(memory=100), Resources(), "z")
    most = queue_key(Resources(vcore=9), Resources(vcore=10), Resources(), "a")
    assert half < most


def test_only_the_largest_share_decides_and_then_what_is_pending() -> None:
    guaranteed = Resources(memory=100, vcore=100)
    one = queue_key(Resources(memory=50, vcore=10), guaranteed, Resources(memory=1), "a")
    other = queue_key(Resources(memory=50, vcore=20), guaranteed, Resources(memory=2), "z")
    assert other < one


def test_equal_queues_go_by_pending_then_by_name() -> None:
    none = NONE
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


@given(amounts, amounts, amounts, st.integers(1, 10**6))
def test_more_usage_never_comes_earlier(used: Resources, guaranteed: Resources, most: Resources, more: int) -> None:
    for name in ("memory", "vcore", "gpu"):
        after = used.plus({name: more})
        assert share(used, guaranteed, Limits(most)) <= share(after, guaranteed, Limits(most))


# Queues side by side: two that ask for more than there is

GI = 2**30
POD = {"memory": GI, "vcore": 1_000}
CLUSTER = {"memory": 100 * GI, "vcore": 100_000}
BOTH = {"memory": 20 * GI, "vcore": 20_000}


def counts(c: dict[str, int], d: dict[str, int]) -> dict[str, int]:
    """How many of 100 pods that fit each queue gets, if so much is guaranteed."""
    queues = [a_queue_spec(name, guaranteed=amounts) for name, amounts in (("c", c), ("d", d))]
    talk = a_conversation(a_node("n1", CLUSTER), root=a_root(*queues))
    talk.apps(an_app("in-c", "root.c"))
    talk.apps(an_app("in-d", "root.d"))
    for app in ("in-c", "in-d"):
        talk.asks(an_ask("k", app=app, resources=Resources(POD), count=200))
    found = [app for app, _, _ in placed(talk.schedule())]
    return {name: found.count(f"in-{name}") for name in "cd"}


@each_row(
    ("c", "d", "expected"),
    [
        ({}, {}, (50, 50)),
        (BOTH, {}, (17, 83)),
        (BOTH, BOTH, (50, 50)),
        ({"memory": 20 * GI}, {"vcore": 20_000}, (50, 50)),
        ({"memory": 20 * GI}, BOTH, (50, 50)),
        ({"vcore": 20_000}, BOTH, (50, 50)),
        ({"memory": 10 * GI}, {"memory": 30 * GI}, (25, 75)),
        ({"memory": 0}, {"memory": 0}, (50, 50)),
    ],
)
def test_queues_are_compared_by_parts_of_what_they_are_due(
    c: dict[str, int], d: dict[str, int], expected: tuple[int, int]
) -> None:
    """Bytes are never compared with fractions: a guarantee of one of two queues once meant 99 pods of 100."""
    assert counts(c, d) == dict(zip("cd", expected, strict=True))
