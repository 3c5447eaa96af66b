"""Things by when they are due, of which the latest word counts, against a plain dictionary."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.state.model.due import Due

steps = st.tuples(
    st.sampled_from(["set", "set_earlier", "discard", "pop", "pop"]), st.integers(0, 4), st.integers(0, 9)
)


def test_nothing_is_due_in_the_beginning() -> None:
    due = Due[str]()
    assert due.next_ns() is None
    assert due.pop(10**18) is None
    assert "thing" not in due


def test_what_is_due_first_comes_first_and_nothing_too_soon() -> None:
    due = Due[str]()
    due.set("late", 20)
    due.set("early", 10)
    assert due.next_ns() == 10
    assert due.pop(9) is None
    assert [due.pop(20), due.pop(20), due.pop(20)] == ["early", "late", None]


def test_of_those_due_at_the_same_time_the_first_that_was_set() -> None:
    due = Due[str]()
    for name in ("b", "a", "c"):
        due.set(name, 10)
    assert [due.pop(10) for _ in range(3)] == ["b", "a", "c"]


def test_setting_it_again_puts_it_off_and_set_earlier_does_not() -> None:
    due = Due[str]()
    due.set("thing", 10)
    due.set_earlier("thing", 20)
    assert due.next_ns() == 10
    due.set("thing", 20)
    assert due.next_ns() == 20
    due.set_earlier("thing", 5)
    assert due.next_ns() == 5


def test_clearing_forgets_all() -> None:
    due = Due[str]()
    due.set("thing", 10)
    due.clear()
    assert "thing" not in due
    assert due.next_ns() is None


def test_what_was_put_off_does_not_pile_up() -> None:
    due = Due[str]()
    due.set("first", 1)
    for at_ns in range(2, 10_000):
        due.set("put off", at_ns)
    assert len(due._heap) < 100


@given(st.lists(steps, max_size=60))
def test_it_is_a_dictionary_with_an_order(plan: list[tuple[str, int, int]]) -> None:
    due, known = Due[int](), dict[int, int]()
    for what, thing, at_ns in plan:
        if what == "set":
            due.set(thing, at_ns)
            known[thing] = at_ns
        elif what == "set_earlier":
            due.set_earlier(thing, at_ns)
            known[thing] = min(at_ns, known.get(thing, at_ns))
        elif what == "discard":
            due.discard(thing)
            known.pop(thing, None)
        else:
            found = due.pop(at_ns)
            event("something was due" if found is not None else "nothing was due")
            first = min(known.values(), default=None)
            if first is None or first > at_ns:
                assert found is None
            else:
                assert found is not None
                assert known.pop(found) == first
        assert due.next_ns() == min(known.values(), default=None)
        assert [thing in due for thing in range(5)] == [thing in known for thing in range(5)]
