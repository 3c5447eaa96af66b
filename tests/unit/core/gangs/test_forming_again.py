"""Gangs that declare their task groups, and lose members that were asked for before any of them ran."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import AskRelease, NewAsk, UpdateAllocations
from schedulerd.core.language.facts.fact import Allocated, ApplicationChanged, Fact
from schedulerd.core.language.facts.gangs import GangTimedOut
from schedulerd.core.language.lifecycles import ApplicationState, GangState
from schedulerd.core.language.specs import SECOND_NS
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    an_ask,
    an_existing,
    of,
    only,
    states,
)
from tests.unit.core.gangs.test_declared_gangs import declares, held, member, state_of_gang, told

TIME_NS = 60 * SECOND_NS
S = ApplicationState


def withdraw(talk: Conversation, *keys: str) -> list[Fact]:
    return talk.step(
        UpdateAllocations(talk.rm_id, ask_releases=[AskRelease("gang", allocation_key=one) for one in keys])
    )


def time_left_ns(talk: Conversation) -> int | None:
    deadline_ns = talk.app("gang").gang_deadline_ns
    return None if deadline_ns is None else deadline_ns - talk.now_ns


def a_waiting_gang(style: str = "Soft", *more: NewAsk) -> Conversation:
    """A gang of three that finds room for none of its members."""
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.asks(an_ask("x", 10, 2))
    talk.schedule()
    talk.apps(declares({"name": "w", "min": 3}, gang_style=style, execution_timeout_ms=60_000))
    talk.asks(member("a"), member("b"), member("c"), *more)
    talk.schedule()
    return talk


def make_room(talk: Conversation) -> list[Fact]:
    for one in list(talk.model().allocations.values()):
        talk.release(uuid=one.uuid)
    return talk.schedule()


def a_gang_that_holds_one(style: str = "Soft") -> Conversation:
    talk = a_waiting_gang(style)
    talk.sleep(3 * SECOND_NS)
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 10}))
    assert held(talk.schedule()) == 1
    return talk


def test_a_gang_that_waits_for_its_first_members_or_for_room_has_no_time() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20}))
    talk.apps(declares({"name": "w", "min": 3}, execution_timeout_ms=60_000))
    talk.asks(member("a"))
    talk.schedule()
    assert time_left_ns(talk) is None
    talk = a_waiting_gang()
    assert time_left_ns(talk) is None


def test_its_time_begins_when_it_loses_a_member() -> None:
    talk = a_waiting_gang()
    withdraw(talk, "c")
    assert (state_of_gang(talk), time_left_ns(talk)) == (GangState.FORMING, TIME_NS)


def test_its_time_goes_on_when_it_loses_a_member_and_with_that_the_room_that_it_holds() -> None:
    talk = a_gang_that_holds_one()
    talk.sleep(20 * SECOND_NS)
    withdraw(talk, "c")
    assert (state_of_gang(talk), talk.model().applications["gang"].placeholders) == (GangState.FORMING, 0)
    assert time_left_ns(talk) == 40 * SECOND_NS


def test_another_loss_does_not_begin_it_anew() -> None:
    talk = a_waiting_gang()
    withdraw(talk, "c")
    talk.sleep(20 * SECOND_NS)
    withdraw(talk, "b")
    assert time_left_ns(talk) == 40 * SECOND_NS


def test_it_is_over_when_enough_members_are_asked_for_and_begins_anew_with_the_first_slot_that_is_held() -> None:
    talk = a_gang_that_holds_one()
    withdraw(talk, "c")
    talk.asks(member("d"))
    assert (state_of_gang(talk), time_left_ns(talk)) == (GangState.GATHERING, None)
    talk.schedule()
    talk.sleep(5 * SECOND_NS)
    assert held(talk.schedule()) == 1
    assert time_left_ns(talk) == TIME_NS


def test_a_gang_with_more_members_than_it_needs_may_lose_some() -> None:
    talk = a_waiting_gang("Soft", member("d"))
    withdraw(talk, "c")
    assert (state_of_gang(talk), time_left_ns(talk)) == (GangState.GATHERING, None)


def test_the_members_of_a_soft_gang_are_ordinary_asks_at_its_end() -> None:
    talk = a_waiting_gang("Soft")
    withdraw(talk, "c")
    assert told(make_room(talk)) == []
    facts = talk.sleep(TIME_NS)
    assert (states(facts, "gang"), state_of_gang(talk)) == ([S.RESUMING, S.ACCEPTED], GangState.GIVEN_UP)
    assert only(
        ApplicationChanged, [one for one in of(ApplicationChanged, facts) if one.state is S.RESUMING]
    ).cause == ("ResourceReservationTimeout: after 60 s 2 of 3 members are asked for; task group w needs 1 more")
    assert told(talk.schedule()) == ["a", "b"]


def test_a_hard_gang_fails_at_its_end() -> None:
    talk = a_waiting_gang("Hard")
    withdraw(talk, "c")
    facts = talk.sleep(TIME_NS)
    assert states(facts, "gang") == [S.FAILING, S.FAILED]
    assert only(GangTimedOut, facts).declared


def test_a_gang_that_is_requeued_waits_for_members_without_a_time() -> None:
    talk = a_gang_that_holds_one("Requeue")
    withdraw(talk, "c")
    assert (state_of_gang(talk), time_left_ns(talk)) == (GangState.FORMING, None)
    talk.sleep(10 * TIME_NS)
    make_room(talk)
    talk.asks(member("d"))
    assert told(talk.schedule()) == ["a", "b", "d"]


def test_it_has_its_time_when_it_needs_more_members_than_are_asked_for() -> None:
    talk = a_waiting_gang()
    talk.apps(declares({"name": "w", "min": 4}, gang_style="Soft", execution_timeout_ms=60_000))
    assert (state_of_gang(talk), time_left_ns(talk)) == (GangState.FORMING, TIME_NS)


def test_an_application_that_loses_all_its_members_one_by_one_ends() -> None:
    talk = a_waiting_gang()
    withdraw(talk, "c")
    withdraw(talk, "a")
    assert states(withdraw(talk, "b"), "gang") == [S.COMPLETING]
    talk = a_waiting_gang()
    assert states(withdraw(talk, "a", "b", "c"), "gang") == [S.COMPLETING]


def test_no_time_is_left_of_an_application_that_lost_all_its_members() -> None:
    talk = a_gang_that_holds_one()
    withdraw(talk, "a", "b", "c")
    assert talk.app("gang").state == S.COMPLETING
    facts = talk.sleep(10 * TIME_NS)
    assert (states(facts, "gang")[:1], of(GangTimedOut, facts)) == ([S.COMPLETED], [])


def test_no_time_is_left_if_its_resource_manager_asks_for_placeholders() -> None:
    talk = a_waiting_gang()
    withdraw(talk, "c")
    talk.asks(a_placeholder("p", 10, 1, "gang", task_group="w"))
    assert time_left_ns(talk) is None


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_members_that_somebody_else_bound_do_not_keep_it_from_its_end(style: str) -> None:
    talk = a_waiting_gang(style, member("d"))
    talk.nodes(a_node("n9", {"memory": 10}, an_existing("e", "a", "gang", 10, task_group="w")))
    withdraw(talk, "c", "d")
    assert (state_of_gang(talk), time_left_ns(talk)) == (GangState.FORMING, TIME_NS)
    talk.sleep(TIME_NS)
    if style == "Hard":
        assert talk.app("gang").state == S.FAILING
    else:
        assert [one.allocation_key for one in of(Allocated, make_room(talk))] == ["b"]
