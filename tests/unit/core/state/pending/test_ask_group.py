"""The asks of one request class: highest priority first, then oldest, whatever is added, dropped and updated
meanwhile."""

from __future__ import annotations

from itertools import islice

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.pending.ask_group import AskGroup
from tests.unit.core.builders import a_pending_class, an_ask

CLASS = a_pending_class(memory=10)


def make(number: int, priority: int) -> Ask:
    """Of three that follow each other the last was asked for first, and the other two at one time."""
    asked_at_ns = number // 3 - 100 if number % 3 == 2 else number // 3
    return Ask(an_ask(f"k{number}", priority=priority), CLASS.request_class, serial=number, asked_at_ns=asked_at_ns)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-2, 2), st.booleans()), max_size=200))
def test_the_first_is_what_a_sorted_list_says(plan: list[tuple[int, int, bool]]) -> None:
    group, inside = AskGroup(CLASS, "", placeholder=False), dict[str, Ask]()
    asks = [make(number, 0) for number in range(10)]
    for number, priority, leave in plan:
        ask = asks[number]
        if ask.key in inside:
            group.dequeue(inside.pop(ask.key))
            event("an ask leaves")
        if not leave:
            ask.spec.priority = priority
            group.enqueue(ask)
            inside[ask.key] = ask
        assert len(group) == len(inside)
        assert sorted(one.key for one in group) == sorted(inside)
        assert (ask in group) is (ask.key in inside)
        assert group.highest_priority() == max((one.spec.priority for one in inside.values()), default=None)
        if inside:
            first = min(inside.values(), key=lambda one: (-one.spec.priority, one.asked_at_ns, one.serial))
            assert group.first() is first
            assert group.key() == (-first.spec.priority, first.asked_at_ns, first.serial)


def test_another_ask_of_the_same_key_is_not_the_one_inside() -> None:
    group, inside, other = AskGroup(CLASS, "", placeholder=False), make(1, 0), make(1, 5)
    group.enqueue(inside)
    assert inside in group
    assert other not in group


def test_what_left_does_not_pile_up() -> None:
    group, kept = AskGroup(CLASS, "", placeholder=False), make(0, priority=9)
    group.enqueue(kept)
    for number in range(1, 5_000):
        ask = make(number, priority=0)
        group.enqueue(ask)
        group.dequeue(ask)
    assert group.first() is kept
    assert len(group._heap) < 100


def test_updates_of_one_ask_do_not_pile_up() -> None:
    group, kept, updated = AskGroup(CLASS, "", placeholder=False), make(0, priority=9), make(1, priority=0)
    group.enqueue(kept)
    for _ in range(5_000):
        group.enqueue(updated)
        group.dequeue(updated)
    assert group.first() is kept
    assert len(group._heap) < 100


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-2, 2), st.booleans()), max_size=60), st.integers(0, 10))
def test_all_in_order_are_those_inside_from_the_first_on(plan: list[tuple[int, int, bool]], some: int) -> None:
    group, inside = AskGroup(CLASS, "", placeholder=False), dict[str, Ask]()
    asks = [make(number, 0) for number in range(10)]
    for number, priority, leave in plan:
        ask = asks[number]
        if ask.key in inside:
            group.dequeue(inside.pop(ask.key))
        if not leave:
            ask.spec.priority = priority
            group.enqueue(ask)
            inside[ask.key] = ask
    wanted = sorted(inside.values(), key=lambda one: (-one.spec.priority, one.asked_at_ns, one.serial))
    event("nobody is inside" if not wanted else "somebody is inside")
    assert list(islice(group.in_order(), some)) == wanted[:some]
    assert list(group.in_order()) == wanted
    if wanted:
        assert group.first() is wanted[0]
