"""Which placeholder a real ask takes: by task group, size and resource type, one by one (SEMANTICS G3, G4)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.facts.fact import Allocated, AskWithdrawn, ReleaseRequested, WithdrawCause
from schedulerd.core.language.lifecycles import ApplicationState
from schedulerd.core.language.resources import Resources
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_root,
    of,
    only,
    placed,
    states,
)
from tests.unit.core.configurations import reload
from tests.unit.core.gang_builders import a_full_gang, a_gang, a_swap, asked_to_release, confirm, real

S = ApplicationState


def sizes(*memory: int, room: int = 200) -> Conversation:
    """One task group with a placeholder of each of these sizes, placed one after the other: p1, p2, ..."""
    talk = a_conversation(a_node("n1", {"memory": room, "gpu": 10}))
    talk.apps(a_gang(memory=sum(memory)))
    for number, amount in enumerate(memory, start=1):
        talk.asks(a_placeholder(f"p{number}", amount, app="gang"))
        talk.schedule()
    assert len(talk.app("gang").allocations) == len(memory)
    return talk


# resource types


def test_an_ask_for_a_type_that_the_placeholder_has_not_is_placed_normally_and_the_placeholder_goes() -> None:
    talk = sizes(10)
    talk.asks(real(resources=Resources(memory=10, gpu=1)))
    facts = talk.schedule()
    request = only(ReleaseRequested, facts)
    assert request.message == "ask r of application gang does not fit: it asks for 1 gpu, placeholder p1 has 0"
    assert (asked_to_release(facts), placed(facts)) == ([("p1", "TIMEOUT")], [("gang", "r", "n1")])
    assert only(Allocated, facts).replaces == ""
    confirm(talk, request)
    assert talk.node().allocated == {"gpu": 1, "memory": 10}


def test_an_ask_for_fewer_types_takes_the_placeholder_and_gives_the_other_type_back() -> None:
    talk = a_conversation(a_node("n1", {"memory": 20, "gpu": 1}))
    talk.apps(a_gang(placeholder_ask=Resources(memory=20, gpu=1)))
    talk.asks(a_placeholder("p", app="gang", resources=Resources(memory=20, gpu=1)))
    talk.schedule()
    request = a_swap(talk, real(memory=20))
    assert placed(confirm(talk, request)) == [("gang", "r", "n1")]
    assert talk.node().available == {"gpu": 1}


# several sizes


def test_an_ask_takes_a_placeholder_of_its_own_size_before_any_other() -> None:
    talk = sizes(20, 10, 30)
    assert a_swap(talk, real("r10", 10)).allocation_key == "p2"
    assert a_swap(talk, real("r30", 30)).allocation_key == "p3"
    assert a_swap(talk, real("r20", 20)).allocation_key == "p1"


def test_its_own_size_is_known_again_after_a_reload() -> None:
    talk = sizes(20, 10)
    reload(talk, a_root(max={"memory": 500}))
    assert a_swap(talk, real("r10", 10)).allocation_key == "p2"


def test_an_ask_of_no_size_takes_one_that_has_room_whichever_came_first() -> None:
    talk = sizes(5, 20)
    request = a_swap(talk, real(memory=15))
    assert request.allocation_key == "p2"
    confirm(talk, request)
    assert talk.node().allocated == {"memory": 20}


def test_of_one_size_the_oldest_goes_first() -> None:
    talk = sizes(10, 10, 10)
    assert [a_swap(talk, real(key)).allocation_key for key in "abc"] == ["p1", "p2", "p3"]


def test_one_that_fits_in_none_takes_none_and_the_rest_stays_for_asks_that_fit() -> None:
    talk = sizes(10, 5)
    talk.asks(real("large", 15))
    facts = talk.schedule()
    assert asked_to_release(facts) == [("p1", "TIMEOUT")]
    assert placed(facts) == [("gang", "large", "n1")]
    assert a_swap(talk, real("small", 5)).allocation_key == "p2"


def test_as_many_placeholders_go_as_there_are_allocations_that_fit_in_none() -> None:
    talk = sizes(10, 10, 10)
    talk.asks(real("large", 15, count=2))
    facts = talk.schedule()
    assert asked_to_release(facts) == [("p1", "TIMEOUT"), ("p2", "TIMEOUT")]
    assert len(placed(facts)) == 2
    [group] = talk.app("gang").task_groups
    assert (group.idle, group.replaced) == (1, 0)


def test_an_ask_that_was_too_large_once_takes_a_placeholder_when_corrected() -> None:
    talk = sizes(10, 10, room=20)
    talk.asks(real(memory=15))
    assert asked_to_release(talk.schedule()) == [("p1", "TIMEOUT")]
    talk.asks(real(memory=10))
    assert asked_to_release(talk.schedule()) == [("p2", "PLACEHOLDER_REPLACED")]


# counts


def test_single_placeholders_and_one_ask_for_many_are_the_same_gang() -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.apps(a_gang(memory=40))
    talk.asks(a_placeholder("a", app="gang"), a_placeholder("b", app="gang"), a_placeholder("c", count=2, app="gang"))
    assert states(talk.schedule(), "gang") == [S.STARTING]
    [group] = talk.app("gang").task_groups
    assert (group.wanted, group.placed, group.idle) == (4, 4, 4)
    talk.asks(real(count=4))
    assert asked_to_release(talk.schedule()) == [
        ("a", "PLACEHOLDER_REPLACED"),
        ("b", "PLACEHOLDER_REPLACED"),
        ("c", "PLACEHOLDER_REPLACED"),
        ("c", "PLACEHOLDER_REPLACED"),
    ]


def test_of_one_real_ask_for_many_as_many_are_swapped_as_there_are_placeholders_and_the_rest_is_placed() -> None:
    talk = a_full_gang(2)
    talk.asks(real(count=5))
    facts = talk.schedule()
    requests = of(ReleaseRequested, facts)
    assert len(requests) == 2
    assert placed(facts) == [("gang", "r", "n1")] * 3
    assert [one.count for one in of(AskWithdrawn, facts) if one.cause is WithdrawCause.AWAITING_PLACEHOLDER] == [1, 1]
    assert talk.app("gang").awaiting_placeholder == 2
    assert [only(Allocated, confirm(talk, one)).replaces for one in requests] == [one.uuid for one in requests]
    assert (talk.app("gang").allocated, talk.app("gang").pending) == ({"memory": 50}, {})


def test_swaps_of_one_ask_come_before_anything_else_is_placed() -> None:
    talk = a_full_gang(2)
    talk.asks(real(count=3))
    assert [len(asked_to_release(talk.cycle(1))) for _ in range(3)] == [1, 1, 0]
    assert len(talk.app("gang").allocations) == 3


@pytest.mark.parametrize("confirmed", [0, 1])
def test_fewer_wanted_than_placed_and_awaiting_withdraws_the_last_and_nothing_takes_their_place(confirmed: int) -> None:
    talk = a_full_gang(3)
    talk.asks(real(count=3))
    requests = of(ReleaseRequested, talk.schedule())
    for one in requests[:confirmed]:
        confirm(talk, one)
    facts = talk.asks(real(count=2))
    assert [(one.count, one.cause) for one in of(AskWithdrawn, facts)] == [(1, WithdrawCause.UPDATED)]
    assert (talk.app("gang").pending, talk.app("gang").awaiting_placeholder) == ({}, 2 - confirmed)
    assert talk.node().allocated == {"memory": 30}, "the placeholder was told to go, and goes when the RM confirms"
    for one in requests[confirmed:-1]:
        assert len(placed(confirm(talk, one))) == 1
    facts = confirm(talk, requests[-1]) + talk.schedule()
    assert placed(facts) == []
    assert talk.app("gang").allocated == talk.node().allocated == {"memory": 20}


def test_fewer_wanted_than_are_placed_withdraws_all_that_await_placeholders() -> None:
    talk = a_full_gang(3)
    talk.asks(real(count=3))
    requests = of(ReleaseRequested, talk.schedule())
    confirm(talk, requests[0])
    talk.asks(real(count=1))
    assert talk.app("gang").awaiting_placeholder == 0
    assert placed(confirm(talk, requests[1]) + confirm(talk, requests[2]) + talk.schedule()) == []


def test_more_wanted_than_await_placeholders_are_pending() -> None:
    talk = a_full_gang(1)
    talk.asks(real(count=1))
    request = only(ReleaseRequested, talk.schedule())
    talk.asks(real(count=3))
    assert talk.app("gang").pending == {"memory": 20}
    assert len(placed(talk.schedule())) == 2
    assert len(placed(confirm(talk, request))) == 1


# task groups


@pytest.mark.parametrize("reverse", [False, True])
def test_several_task_groups_are_replaced_each_by_its_own(reverse: bool) -> None:
    talk = a_conversation(a_node("n1", {"memory": 100}))
    talk.apps(a_gang(memory=50))
    talk.asks(
        a_placeholder("d", 30, app="gang", task_group="driver"),
        a_placeholder("x", 10, 2, "gang", task_group="executor"),
    )
    assert states(talk.schedule(), "gang") == [S.STARTING]
    asks = [real("real-d", 30, task_group="driver"), real("real-x", 10, 2, task_group="executor")]
    talk.asks(*(reversed(asks) if reverse else asks))
    requests = of(ReleaseRequested, talk.schedule())
    swapped: dict[str, list[tuple[str, str, bool]]] = {}
    for one in requests:
        fact = only(Allocated, confirm(talk, one))
        swapped.setdefault(fact.allocation_key, []).append((one.allocation_key, fact.task_group, fact.placeholder))
    assert swapped == {"real-d": [("d", "driver", False)], "real-x": [("x", "executor", False)] * 2}
    assert {one.name: (one.placed, one.replaced, one.idle) for one in talk.app("gang").task_groups} == {
        "driver": (1, 1, 0),
        "executor": (2, 2, 0),
    }


def test_real_asks_of_one_group_wait_for_the_placeholders_of_all() -> None:
    talk = a_conversation(a_node("n1", {"memory": 30}))
    talk.apps(a_gang(memory=80))
    talk.asks(
        a_placeholder("d", 30, app="gang", task_group="driver"),
        a_placeholder("x", 50, app="gang", task_group="executor"),
        real("real-d", 30, task_group="driver"),
    )
    assert placed(talk.schedule()) == [("gang", "d", "n1")]
    talk.nodes(a_node("n2", {"memory": 30}))
    facts = talk.schedule()
    assert (asked_to_release(facts), placed(facts)) == ([], [])
    talk.nodes(a_node("n3", {"memory": 50}))
    assert asked_to_release(talk.schedule()) == [("d", "PLACEHOLDER_REPLACED")]


def test_asks_of_higher_priority_take_placeholders_first_then_older_ones() -> None:
    talk = a_full_gang(2)
    talk.asks(real("old"), real("young"), real("first", priority=5))
    talk.schedule()
    awaiting = [one.key for one in talk.model().applications["gang"].asks.values() if one.awaiting_placeholder]
    assert sorted(awaiting) == ["first", "old"]
