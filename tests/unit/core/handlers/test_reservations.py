"""Room that is kept for asks which wait for long: when, where, for how long, and what others see of it."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.commands import NodeAction, NodeUpdate
from schedulerd.core.facts import ReleaseRequested
from schedulerd.core.handlers import reserving
from schedulerd.core.model.partition import RESERVED_NODES_MIN, RESERVED_NODES_PERCENT
from schedulerd.core.preemption_facts import ReservationEnded, Reserved
from schedulerd.core.resources import Resources
from schedulerd.core.specs import QueueSpec, Timeouts
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    only,
    placed,
)
from tests.unit.core.claims import ends, finished, kept, reserved, wait
from tests.unit.core.configurations import reload

TIMES = Timeouts()
DELAY_NS = TIMES.reservation_delay_ns
KEPT_NS = TIMES.reservation_ns

TWO_LEAVES = a_root(a_queue_spec("a"), a_queue_spec("b"))


def a_talk(root: QueueSpec = TWO_LEAVES, /, **used: int) -> Conversation:
    """Nodes of 100 by name, of which so much is used by the allocation `on_<node>`."""
    talk = a_conversation(root=root)
    talk.apps(an_app("other", "root.b"))
    for node, memory in used.items():
        talk.nodes(a_node(node, {"memory": 100}))
        if memory:
            talk.asks(an_ask(f"on_{node}", memory, app="other"))
            assert placed(talk.schedule()) == [("other", f"on_{node}", node)]
            talk.nodes(a_node(node, action=NodeAction.DRAIN_NODE))
    for node, memory in used.items():
        if memory:
            talk.nodes(a_node(node, action=NodeAction.DRAIN_TO_SCHEDULABLE))
    return talk


def a_reserved_node(root: QueueSpec = TWO_LEAVES, /, memory: int = 60, **fields: Any) -> Conversation:
    """n1 is kept for the ask `big`, and is used up to 90."""
    talk = a_talk(root, n1=90)
    talk.asks(an_ask("big", memory, **fields))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]
    return talk


# who gets room kept, when and where


def test_the_node_that_lacks_least_is_kept_when_the_ask_is_old_enough() -> None:
    talk = a_talk(n1=90, n2=60, n3=70)
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, DELAY_NS - 1)) == []
    fact = only(Reserved, wait(talk, 1))
    assert (fact.application_id, fact.allocation_key, fact.node_id, fact.firm) == ("app", "big", "n2", False)
    assert (fact.queue, fact.resources) == ("root.a", {"memory": 50})


def test_an_ask_that_is_placed_in_time_has_nothing_kept() -> None:
    talk = a_talk(n1=90)
    talk.asks(an_ask("big", 50))
    wait(talk, DELAY_NS - 1)
    finished(talk, "on_n1")
    assert placed(talk.schedule()) == [("app", "big", "n1")]
    assert reserved(wait(talk, KEPT_NS)) == []


def test_a_node_that_could_never_hold_it_is_not_kept() -> None:
    talk = a_talk(n1=90)
    talk.nodes(a_node("small", {"memory": 49}), a_node("occupied", {"memory": 100}, occupied={"memory": 51}))
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]


@pytest.mark.parametrize(
    "shut",
    [a_node("n2", action=NodeAction.DRAIN_NODE), a_node("n2", action=NodeAction.UPDATE, attributes={"ready": "false"})],
)
def test_a_node_that_takes_nothing_new_is_not_kept(shut: NodeUpdate) -> None:
    talk = a_talk(n1=90, n2=60)
    talk.nodes(shut)
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]


def test_each_node_is_kept_for_one_and_the_first_to_be_placed_has_the_first_choice() -> None:
    talk = a_talk(n1=90, n2=80)
    talk.asks(an_ask("low", 50), an_ask("high", 60, priority=5), an_ask("lowest", 50, priority=-1))
    assert reserved(wait(talk, DELAY_NS)) == [("high", "n2", False), ("low", "n1", False)]


def test_who_asks_for_several_may_have_several_nodes_kept_but_each_once() -> None:
    talk = a_talk(n1=90, n2=80, n3=70)
    talk.asks(an_ask("big", 50, count=2))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n3", False), ("big", "n2", False)]


def test_an_ask_above_its_quota_has_nothing_kept() -> None:
    talk = a_talk(a_root(a_queue_spec("a", max={"memory": 40}), a_queue_spec("b")), n1=90)
    talk.asks(an_ask("big", 50))
    assert reserved(wait(talk, KEPT_NS)) == []


def test_no_more_nodes_are_kept_than_the_bound_and_the_next_has_its_turn_when_one_ends() -> None:
    names = [f"n{number}" for number in range(RESERVED_NODES_MIN + 2)]
    talk = a_talk(**dict.fromkeys(names, 90))
    talk.asks(*(an_ask(f"k{number}", 50) for number in range(len(names))))
    assert len(reserved(wait(talk, DELAY_NS))) == RESERVED_NODES_MIN
    [(key, node, _), *_] = kept(talk)
    talk.release_asks(allocation_key=key)
    [(next_key, next_node, _)] = reserved(talk.schedule())
    assert (next_key, next_node) == (f"k{RESERVED_NODES_MIN}", node)


def test_in_a_large_cluster_the_bound_is_a_share_of_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.core.model.partition.RESERVED_NODES_MIN", 1)
    talk = a_talk(**{f"n{number}": 90 for number in range(2 * 100 // RESERVED_NODES_PERCENT)})
    talk.asks(an_ask("k", 50, count=5))
    assert len(reserved(wait(talk, DELAY_NS))) == 2


def test_more_asks_than_are_lined_up_at_once_have_their_turn_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserving, "LINED_UP_MAX", 1)
    monkeypatch.setattr("schedulerd.core.model.partition.RESERVED_NODES_MIN", 1)
    talk = a_talk(n1=90)
    talk.asks(*(an_ask(f"k{number}", 50) for number in range(3)))
    wait(talk, DELAY_NS)
    for number in range(3):
        assert [key for key, _, _ in kept(talk)] == [f"k{number}"]
        talk.release_asks(allocation_key=f"k{number}")
        talk.schedule()


def test_however_many_find_no_node_a_cycle_comes_to_its_end() -> None:
    talk = a_talk(n1=90)
    talk.asks(*(an_ask(f"k{number}", 50) for number in range(3 * reserving.LINED_UP_MAX)))
    assert len(reserved(wait(talk, DELAY_NS))) == 1
    talk.release_asks(allocation_key=kept(talk)[0][0])
    assert len(reserved(talk.schedule() + wait(talk, DELAY_NS))) == 1


def test_a_younger_ask_of_the_same_size_waits_until_it_is_old_enough_itself() -> None:
    talk = a_talk(n1=90, n2=80)
    talk.asks(an_ask("old", 50))
    wait(talk, DELAY_NS // 2)
    talk.asks(an_ask("young", 50, app="other"))
    assert reserved(wait(talk, DELAY_NS // 2)) == [("old", "n2", False)]
    assert reserved(wait(talk, DELAY_NS // 2 - 1)) == []
    assert reserved(wait(talk, 1)) == [("young", "n1", False)]


def test_who_finds_all_nodes_kept_has_its_turn_when_one_is_free_of_that() -> None:
    talk = a_talk(n1=90)
    talk.asks(an_ask("first", 60), an_ask("second", 50))
    assert reserved(wait(talk, DELAY_NS)) == [("first", "n1", False)]
    talk.release_asks(allocation_key="first")
    assert reserved(wait(talk, DELAY_NS)) == [("second", "n1", False)]


def test_who_finds_no_node_large_enough_has_one_kept_that_comes_later() -> None:
    talk = a_talk(n1=90)
    talk.nodes(a_node("n1", {"memory": 95}, action=NodeAction.UPDATE))
    talk.asks(an_ask("big", 100))
    assert reserved(wait(talk, DELAY_NS)) == []
    talk.nodes(a_node("n1", {"memory": 100}, action=NodeAction.UPDATE))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]


def test_who_was_held_up_by_a_quota_has_its_turn_when_others_of_its_size_had_theirs() -> None:
    talk = a_talk(a_root(a_queue_spec("a", max={"memory": 55}), a_queue_spec("b")), n1=90, n2=90)
    talk.nodes(a_node("n3", {"memory": 10}))
    talk.asks(an_ask("uses", 10))
    assert placed(talk.schedule()) == [("app", "uses", "n3")]
    talk.asks(an_ask("held_up", 50), an_ask("big", 50, app="other"))
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
    assert "1 reserved" in talk.app().asks[1].waiting_for


def test_whoever_it_is_kept_for_has_the_room_before_higher_priorities() -> None:
    talk = a_reserved_node()
    talk.asks(an_ask("high", 60, priority=100))
    talk.schedule()
    facts = finished(talk, "on_n1") + talk.schedule()
    assert placed(facts) == [("app", "big", "n1")]
    assert ends(facts) == [("big", "n1", "placed")]


def test_what_is_beyond_it_goes_to_others() -> None:
    talk = a_reserved_node()
    talk.asks(an_ask("small", 40))
    assert placed(talk.schedule()) == []
    assert sorted(placed(finished(talk, "on_n1") + talk.schedule())) == [("app", "big", "n1"), ("app", "small", "n1")]


# how it ends


def test_it_ends_when_another_node_has_room() -> None:
    talk = a_reserved_node()
    talk.nodes(a_node("n2", {"memory": 100}))
    facts = talk.schedule()
    assert placed(facts) == [("app", "big", "n2")]
    assert ends(facts) == [("big", "n1", "not_needed")]


def test_of_several_the_last_kept_ends_when_one_is_placed_elsewhere() -> None:
    talk = a_talk(n1=90, n2=80)
    talk.asks(an_ask("big", 60, count=2))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n2", False), ("big", "n1", False)]
    talk.nodes(a_node("n3", {"memory": 60}))
    facts = talk.schedule()
    assert placed(facts) == [("app", "big", "n3")]
    assert ends(facts) == [("big", "n1", "not_needed")]


def test_it_ends_with_the_ask() -> None:
    talk = a_reserved_node()
    assert ends(talk.release_asks(allocation_key="big")) == [("big", "n1", "not_needed")]
    assert talk.model().nodes["n1"].free == {"memory": 10}


def test_it_ends_with_the_application() -> None:
    talk = a_reserved_node()
    assert ends(talk.remove("app")) == [("big", "n1", "not_needed")]


def test_it_ends_when_the_application_fails() -> None:
    talk = a_talk(n1=80)
    talk.apps(an_app("mortal", execution_timeout_ms=60_000))
    talk.asks(an_ask("starts", 10, app="mortal"), an_ask("big", 60, app="mortal"))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]
    facts = wait(talk, 60 * 10**9)
    assert ends(facts) == [("big", "n1", "not_needed")]
    assert kept(talk) == []


@pytest.mark.parametrize("change", [{"memory": 70}, {"memory": 60, "priority": 3}], ids=["size", "priority"])
def test_an_updated_ask_is_old_enough_at_once(change: dict[str, Any]) -> None:
    talk = a_reserved_node()
    facts = talk.asks(an_ask("big", **change))
    assert ends(facts) == [("big", "n1", "not_needed")]
    assert reserved(talk.schedule()) == [("big", "n1", False)]
    [reservation] = talk.model().reservations
    assert reservation.items == (("memory", change["memory"]),)


def test_an_update_to_fewer_leaves_it_at_one() -> None:
    talk = a_talk(n1=90, n2=80)
    talk.asks(an_ask("big", 50, count=2))
    wait(talk, DELAY_NS)
    talk.asks(an_ask("big", 50, count=1))
    talk.schedule()
    assert kept(talk) == [("big", "n2", False)]


@pytest.mark.parametrize(
    "change",
    [
        a_node("n1", action=NodeAction.DRAIN_NODE),
        a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "false"}),
        a_node("n1", {"memory": 59}, action=NodeAction.UPDATE),
        a_node("n1", occupied={"memory": 41}, action=NodeAction.UPDATE),
        a_node("n1", action=NodeAction.DECOMISSION),
    ],
    ids=["drained", "not ready", "smaller", "occupied", "removed"],
)
def test_it_ends_with_what_the_node_is_good_for_and_moves_to_another(change: NodeUpdate) -> None:
    talk = a_talk(n1=50, n2=90)
    talk.asks(an_ask("big", 60))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]
    assert ends(talk.nodes(change) + talk.schedule()) == [("big", "n1", "node")]
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n2", False)]


def test_it_stays_while_the_node_changes_in_other_ways() -> None:
    talk = a_reserved_node()
    talk.nodes(a_node("n1", {"memory": 95}, action=NodeAction.UPDATE))
    assert ends(talk.schedule()) == []
    talk.nodes(a_node("n1", {"memory": 150}, action=NodeAction.UPDATE))
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_it_ends_if_there_is_room_but_no_quota_any_longer() -> None:
    talk = a_reserved_node(a_root(a_queue_spec("a", max={"memory": 100}), a_queue_spec("b")))
    talk.nodes(a_node("n2", {"memory": 50}))
    talk.asks(an_ask("more", 50))
    assert placed(talk.schedule()) == [("app", "more", "n2")]
    facts = finished(talk, "on_n1") + talk.schedule()
    assert (ends(facts), placed(facts)) == ([("big", "n1", "quota")], [])
    talk.release(allocation_key="more")
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_it_ends_in_time_and_leaves_the_room_to_others_for_as_long() -> None:
    talk = a_reserved_node()
    assert ends(wait(talk, KEPT_NS - 1)) == []
    fact = only(ReservationEnded, wait(talk, 1))
    assert (fact.end, fact.kept_ns) == ("expired", KEPT_NS)
    talk.asks(an_ask("small", 5))
    assert placed(talk.schedule()) == [("app", "small", "n1")]
    assert reserved(wait(talk, KEPT_NS - 1)) == []
    assert reserved(wait(talk, 1)) == [("big", "n1", False)]


def test_who_rests_may_still_be_placed() -> None:
    talk = a_reserved_node()
    wait(talk, KEPT_NS)
    finished(talk, "on_n1")
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_a_node_that_was_kept_in_vain_rests_as_well_and_is_for_others_meanwhile() -> None:
    talk = a_reserved_node()
    talk.asks(an_ask("twin", 60))
    facts = wait(talk, KEPT_NS)
    assert ends(facts) == [("big", "n1", "expired")]
    assert reserved(facts) == []
    talk.asks(an_ask("small", 5))
    assert [key for _, key, _ in placed(talk.schedule())] == ["small"]
    assert reserved(wait(talk, KEPT_NS - 1)) == []
    assert reserved(wait(talk, 1)) == [("big", "n1", False)]


# who else is there


def test_the_time_goes_on_while_the_rm_is_away_and_nothing_is_placed() -> None:
    talk = a_reserved_node()
    talk.disconnect()
    finished(talk, "on_n1")
    assert placed(talk.schedule()) == []
    assert ends(wait(talk, KEPT_NS - 2)) == []
    talk.connect()
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_it_ends_in_time_while_the_rm_is_away() -> None:
    talk = a_reserved_node()
    wait(talk, 10)
    talk.disconnect()
    assert ends(wait(talk, KEPT_NS - 10)) == [("big", "n1", "expired")]


def test_nothing_is_left_of_it_when_the_rm_registers_again() -> None:
    talk = a_reserved_node()
    talk.register()
    assert kept(talk) == []
    assert [alarm.kind.name for alarm in talk.scheduler.cluster.alarms.live()] == ["RECONNECT"]


def test_it_survives_another_queue_file_and_is_judged_by_that() -> None:
    talk = a_reserved_node()
    reload(talk, a_root(a_queue_spec("a", max={"memory": 59}), a_queue_spec("b")))
    assert kept(talk) == [("big", "n1", False)]
    assert ends(finished(talk, "on_n1") + talk.schedule()) == [("big", "n1", "quota")]


def test_the_ask_keeps_its_room_while_its_queue_drains() -> None:
    talk = a_reserved_node()
    reload(talk, a_root(a_queue_spec("b")))
    assert placed(finished(talk, "on_n1") + talk.schedule()) == [("app", "big", "n1")]


def test_it_ends_with_the_turn_of_a_real_ask_that_has_to_wait_for_its_gang() -> None:
    talk = a_reserved_node()
    talk.asks(a_placeholder("p", 20))
    assert ends(talk.schedule()) == [("big", "n1", "not_needed")]
    talk.release_asks(allocation_key="p")
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]


def test_a_placeholder_may_have_room_kept_and_is_one_when_it_is_placed() -> None:
    talk = a_talk(n1=90)
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=60)))
    talk.asks(a_placeholder("p", 60, app="gang"))
    assert reserved(wait(talk, DELAY_NS)) == [("p", "n1", False)]
    assert placed(finished(talk, "on_n1") + talk.schedule()) == [("gang", "p", "n1")]
    assert [one.placeholder for one in talk.app("gang").allocations] == [True]


def test_a_swap_takes_no_more_of_a_kept_node_than_its_placeholder_had() -> None:
    talk = a_talk(n1=50)
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=40)))
    talk.asks(a_placeholder("p", 40, app="gang"))
    talk.schedule()
    talk.asks(an_ask("big", 20))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]
    talk.asks(an_ask("r", 30, app="gang", task_group="group"))
    request = only(ReleaseRequested, talk.schedule())
    facts = talk.release(application_id="gang", uuid=request.uuid, termination=request.termination)
    assert placed(facts) == [("gang", "r", "n1")]
    assert placed(talk.schedule()) == [("app", "big", "n1")]
