"""Constraints as they were sent: equal ones are one object, which is checked and brought into canonical form once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedulerd.core.language.commands import AllocationAffinity, PlacementConstraint
from schedulerd.core.language.facts.fact import Allocated, AskRejected
from schedulerd.core.state.constraints import checks as constraint_checks
from schedulerd.core.state.constraints.constraint import SENT_BYTES_MAX, SENT_MAX, SentConstraints, constraint_of
from schedulerd.core.state.constraints.node_selector import NODE_SELECTOR_TAG
from tests.loops import each_row
from tests.unit.core.builders import a_conversation, a_node, an_ask, of
from tests.unit.core.constraint_builders import DB, IS_WEB, WEB, none_of, on, one_of

BESIDE_WEB = AllocationAffinity("zone", (IS_WEB,), 0, 2)


def a_constraint(value: str = "1") -> PlacementConstraint:
    return PlacementConstraint((one_of("zone", value), none_of("arch", "b", "a")), BESIDE_WEB)


def test_what_is_found_for_the_same_object_is_the_same_object() -> None:
    known, sent = SentConstraints(), a_constraint()
    first = known.take(an_ask("a", constraint=sent, tags=WEB))
    assert known.take(an_ask("b", constraint=sent, tags=WEB)) is first
    assert known.knows(sent)
    assert not known.knows(a_constraint()), "an equal one that was not taken may still have to be checked"


@each_row("tags", [{}, WEB, DB, {NODE_SELECTOR_TAG: "gpu"}, WEB | {NODE_SELECTOR_TAG: "zone=1,gpu"}])
@each_row("sent", [None, PlacementConstraint(), on(one_of("zone", "b", "a")), a_constraint()])
def test_what_is_remembered_changes_nothing(tags: dict[str, str], sent: PlacementConstraint | None) -> None:
    known = SentConstraints()
    for other in (WEB, DB, {NODE_SELECTOR_TAG: "spot"}):
        known.take(an_ask(constraint=sent, tags=other))
    ask = an_ask(constraint=sent, tags=tags)
    assert known.take(ask) == constraint_of(ask) == known.take(replace(ask, constraint=replace(sent) if sent else None))


def test_constraints_that_demand_the_same_in_another_order_are_equal_and_have_one_hash() -> None:
    one = constraint_of(an_ask(constraint=on(one_of("zone", "a", "b"), none_of("arch", "x"))))
    other = constraint_of(an_ask(constraint=on(none_of("arch", "x"), one_of("zone", "b", "a"))))
    third = constraint_of(an_ask(constraint=on(none_of("arch", "x"), one_of("zone", "b"))))
    assert one == other
    assert hash(one) == hash(other)
    assert one != third
    assert one != object()


def test_no_more_than_so_many_are_remembered() -> None:
    known = SentConstraints()
    for number in range(3 * SENT_MAX):
        known.take(an_ask(constraint=a_constraint(str(number))))
        assert len(known) <= SENT_MAX


def test_large_ones_are_not_remembered() -> None:
    known, large = SentConstraints(), a_constraint("1" * SENT_BYTES_MAX)
    assert known.take(an_ask(constraint=large)) is not None
    many = on(one_of("zone", *(f"{number}" for number in range(SENT_BYTES_MAX // 64))))
    assert known.take(an_ask(constraint=many)) is not None
    assert not known.knows(large)
    assert not known.knows(many)
    assert len(known) == 0


@pytest.mark.interpreted
def test_equal_ones_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []
    check = constraint_checks._expressions

    def note(field: str, expressions: Any) -> Any:
        checked.append(expressions)
        return check(field, expressions)

    monkeypatch.setattr(constraint_checks, "_expressions", note)
    talk = a_conversation(a_node("n1", {"memory": 100}, attributes={"zone": "1"}))
    sent = on(one_of("zone", "1"))
    talk.asks(*(an_ask(f"k{number}", 1, constraint=sent) for number in range(5)))
    assert len(of(Allocated, talk.schedule())) == 5
    assert len(checked) == 1


def test_one_with_a_mistake_is_found_wrong_each_time() -> None:
    talk = a_conversation()
    sent = on(one_of("", "1"))
    rejected = of(AskRejected, talk.asks(*(an_ask(f"k{number}", 1, constraint=sent) for number in range(3))))
    assert len(rejected) == 3


def test_a_known_constraint_does_not_excuse_the_selector_beside_it() -> None:
    talk = a_conversation()
    sent = on(one_of("zone", "1"))
    talk.asks(an_ask("good", 1, constraint=sent))
    assert len(of(AskRejected, talk.asks(an_ask("bad", 1, constraint=sent, tags={NODE_SELECTOR_TAG: "(("})))) == 1


def test_they_are_kept_alive_as_long_as_they_are_known_by_their_id() -> None:
    known = SentConstraints()
    for number in range(100):  # each of them would get the id of the one before, if that was gone
        sent = on(one_of("zone", str(number)))
        assert not known.knows(sent)
        found = known.take(an_ask(constraint=sent))
        assert found is not None
        assert found.node == (one_of("zone", str(number)),)
        del sent
    assert len(known) == 100
    for _ in known.dismantle():
        pass
    assert len(known) == 0
