"""Aging reservations: when, where, for how long, and what other asks see of them."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction, NodeUpdate
from schedulerd.core.language.facts.fact import Allocated
from schedulerd.core.language.facts.reservations import Reserved
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import LimitSpec
from schedulerd.core.reservations.handlers import new_reservations
from schedulerd.core.state.partition import RESERVED_NODES_MIN, RESERVED_NODES_PERCENT
from tests.unit.core.builders import (
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    only,
    placed,
)
from tests.unit.core.gang_builders import a_gang, a_held_place, asked_to_release, real
from tests.unit.core.preemption_builders import ended_reservations, finished, reservations_of, reserved, wait
from tests.unit.core.reserved import DELAY_NS, RESERVED_NS, a_reserved_node, a_talk

# who gets room kept, when and where


def test_the_node_that_lacks_least_is_reserved_when_the_ask_is_old_enough() -> None:
    talk = a_talk(n1=90, n2=60, n3=70)
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, DELAY_NS - 1)) == []
    fact = only(Reserved, wait(talk, 1))
    assert (fact.application_id, fact.allocation_key, fact.node_id, fact.entitled) == ("app", "big", "n2", False)
    assert (fact.queue, fact.resources) == ("root.a", {"memory": 50})


def test_an_ask_that_is_placed_in_time_has_no_reservation() -> None:
    talk = a_talk(n1=90)
    talk.asks(an_ask("big", 50))
    wait(talk, DELAY_NS - 1)
    finished(talk, "on_n1")
    assert placed(talk.schedule()) == [("app", "big", "n1")]
    assert reserved(wait(talk, RESERVED_NS)) == []


def test_a_node_that_could_never_hold_it_is_not_reserved() -> None:
    talk = a_talk(n1=90)
    talk.nodes(a_node("small", {"memory": 49}), a_node("occupied", {"memory": 100}, occupied={"memory": 51}))
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]


@pytest.mark.parametrize(
    "shut",
    [a_node("n2", action=NodeAction.DRAIN_NODE), a_node("n2", action=NodeAction.UPDATE, attributes={"ready": "false"})],
)
def test_a_node_that_takes_nothing_new_is_not_reserved(shut: NodeUpdate) -> None:
    talk = a_talk(n1=90, n2=60)
    talk.nodes(shut)
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]


def test_each_node_has_one_aging_reservation_and_the_first_in_order_has_the_first_choice() -> None:
    talk = a_talk(n1=90, n2=80)
    talk.asks(an_ask("low", 50), an_ask("high", 60, priority=5), an_ask("lowest", 50, priority=-1))
    assert reserved(wait(talk, DELAY_NS)) == [("high", "n2", False), ("low", "n1", False)]


def test_an_ask_for_several_may_have_several_nodes_reserved_but_each_once() -> None:
    talk = a_talk(n1=90, n2=80, n3=70)
    talk.asks(an_ask("big", 50, count=2))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n3", False), ("big", "n2", False)]


def test_an_ask_above_its_quota_has_no_reservation() -> None:
    talk = a_talk(a_root(a_queue_spec("a", max={"memory": 40}), a_queue_spec("b")), n1=90)
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, RESERVED_NS)) == []


def test_an_ask_above_the_limit_of_its_user_gets_no_reservation() -> None:
    """It would end as soon as the node has room, and be made again."""
    limit = LimitSpec(users=("somebody",), max=Limits(memory=60))
    talk = a_talk(a_root(a_queue_spec("a", limits=(limit,)), a_queue_spec("b")), n1=90)
    talk.asks(an_ask("big", 50))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 20}))
    talk.asks(an_ask("small", 20))
    small = only(Allocated, talk.schedule())
    assert small.allocation_key == "small"
    assert reserved(wait(talk, RESERVED_NS)) == []
    talk.release(uuid=small.uuid)
    talk.nodes(
        a_node("n1", {"memory": 101}, action=NodeAction.UPDATE)
    )  # with the next change of a node that could hold it
    assert reserved(talk.schedule()) == [("big", "n1", False)]


def test_no_more_nodes_are_reserved_than_the_bound_and_the_next_has_its_turn_when_one_ends() -> None:
    names = [f"n{number}" for number in range(RESERVED_NODES_MIN + 2)]
    talk = a_talk(**dict.fromkeys(names, 90))
    talk.asks(*(an_ask(f"k{number}", 50) for number in range(len(names))))
    assert len(reserved(wait(talk, DELAY_NS))) == RESERVED_NODES_MIN
    [(key, node, _), *_] = reservations_of(talk)
    talk.release_asks(allocation_key=key)
    [(next_key, next_node, _)] = reserved(talk.schedule())
    assert (next_key, next_node) == (f"k{RESERVED_NODES_MIN}", node)


def test_in_a_large_cluster_the_bound_is_a_share_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.core.state.partition.RESERVED_NODES_MIN", 1)
    talk = a_talk(**{f"n{number}": 90 for number in range(2 * 100 // RESERVED_NODES_PERCENT)})
    talk.asks(an_ask("k", 50, count=5))
    assert len(reserved(wait(talk, DELAY_NS))) == 2


def test_more_due_asks_than_the_list_holds_have_their_turn_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_reservations, "RETRY_LIST_MAX", 1)
    monkeypatch.setattr("schedulerd.core.state.partition.RESERVED_NODES_MIN", 1)
    talk = a_talk(n1=90)
    talk.asks(*(an_ask(f"k{number}", 50) for number in range(3)))
    wait(talk, DELAY_NS)
    for number in range(3):
        assert [key for key, _, _ in reservations_of(talk)] == [f"k{number}"]
        talk.release_asks(allocation_key=f"k{number}")
        talk.schedule()


def test_however_many_asks_find_no_node_a_cycle_stops() -> None:
    talk = a_talk(n1=90)
    talk.asks(*(an_ask(f"k{number}", 50) for number in range(3 * new_reservations.RETRY_LIST_MAX)))
    assert len(reserved(wait(talk, DELAY_NS))) == 1
    talk.release_asks(allocation_key=reservations_of(talk)[0][0])
    assert len(reserved(talk.schedule() + wait(talk, DELAY_NS))) == 1


def test_a_younger_ask_of_the_same_size_waits_until_it_is_old_enough_itself() -> None:
    talk = a_talk(n1=90, n2=80)
    talk.asks(an_ask("old", 50))
    wait(talk, DELAY_NS // 2)
    talk.apps(an_app("third"))
    talk.asks(an_ask("young", 50, app="third"))
    assert reserved(wait(talk, DELAY_NS // 2)) == [("old", "n2", False)]
    assert reserved(wait(talk, DELAY_NS // 2 - 1)) == []
    assert reserved(wait(talk, 1)) == [("young", "n1", False)]


def test_an_ask_that_finds_all_nodes_reserved_has_its_turn_when_one_is_not_any_longer() -> None:
    talk = a_talk(n1=90)
    talk.asks(an_ask("first", 60), an_ask("second", 50))
    assert reserved(wait(talk, DELAY_NS)) == [("first", "n1", False)]
    talk.release_asks(allocation_key="first")
    assert reserved(wait(talk, DELAY_NS)) == [("second", "n1", False)]


def test_an_ask_that_finds_no_node_large_enough_reserves_one_that_comes_later() -> None:
    talk = a_talk(n1=90)
    talk.nodes(a_node("n1", {"memory": 95}, action=NodeAction.UPDATE))
    talk.asks(an_ask("big", 100))
    assert reserved(wait(talk, DELAY_NS)) == []
    talk.nodes(a_node("n1", {"memory": 100}, action=NodeAction.UPDATE))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]


def test_an_ask_that_a_quota_delayed_has_its_turn_when_others_of_its_class_had_theirs() -> None:
    talk = a_talk(a_root(a_queue_spec("a", max={"memory": 55}), a_queue_spec("b")), n1=90, n2=90)
    talk.nodes(a_node("n3", {"memory": 10}))
    talk.asks(an_ask("uses", 10))
    assert placed(talk.schedule()) == [("app", "uses", "n3")]
    talk.apps(an_app("third", "root.b"))
    talk.asks(an_ask("held_up", 50), an_ask("big", 50, app="third"))
    assert reserved(wait(talk, 2 * DELAY_NS)) == [("big", "n1", False)]
    facts = finished(talk, "uses") + wait(talk, DELAY_NS)
    assert reserved(facts) == [("held_up", "n2", False)]


# what others see


def test_others_see_the_node_without_that_room() -> None:
    talk = a_talk(n1=60)
    talk.asks(an_ask("big", 50))
    wait(talk, DELAY_NS)
    talk.asks(an_ask("small", 1))
    assert placed(talk.schedule()) == []
    assert talk.model().nodes["n1"].free == {"memory": -10}
    assert "1 has room only for others, for which it is reserved" in talk.app().asks[1].waiting_for


def test_the_reserved_ask_has_the_room_before_higher_priorities() -> None:
    talk = a_reserved_node()
    talk.asks(an_ask("high", 60, priority=100))
    talk.schedule()
    facts = finished(talk, "on_n1") + talk.schedule()
    assert placed(facts) == [("app", "big", "n1")]
    assert ended_reservations(facts) == [("big", "n1", "placed")]


def test_what_is_beyond_it_goes_to_others() -> None:
    talk = a_reserved_node()
    talk.asks(an_ask("small", 40))
    assert placed(talk.schedule()) == []
    assert sorted(placed(finished(talk, "on_n1") + talk.schedule())) == [("app", "big", "n1"), ("app", "small", "n1")]


def test_the_next_reservation_is_made_before_smaller_asks_are_placed_in_the_same_cycle() -> None:
    talk = a_talk(n1=100)
    talk.apps(an_app("next"))
    talk.asks(an_ask("a", 60), an_ask("b", 70, app="next"))
    assert reserved(wait(talk, DELAY_NS)) == [("a", "n1", False)]
    talk.asks(an_ask("c", 5))
    talk.release(application_id="other", allocation_key="on_n1")
    facts = talk.schedule()
    assert placed(facts) == [("app", "a", "n1")]
    assert reserved(facts) == [("b", "n1", False)]


def test_an_ask_that_has_a_placeholder_meanwhile_takes_its_room_and_not_the_reserved_one() -> None:
    talk = a_talk(n1=90)
    talk.apps(a_gang(memory=60))
    talk.asks(real("r", 60))
    assert reserved(wait(talk, DELAY_NS)) == [("r", "n1", False)]
    talk.nodes(a_node("n2", {"memory": 60}, a_held_place(memory=60)))
    finished(talk, "on_n1")
    facts = talk.schedule()
    assert asked_to_release(facts) == [("p", "PLACEHOLDER_REPLACED")]
    assert placed(facts) == []
