"""How reservations end, and what else decides meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction, NodeUpdate
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.facts.reservations import ReservationEnded
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.alarm_events import ReconnectTimeout
from tests.unit.core.builders import (
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    only,
    placed,
)
from tests.unit.core.configurations import reload
from tests.unit.core.preemption_builders import ended_reservations, finished, reservations_of, reserved, wait
from tests.unit.core.reserved import DELAY_NS, RESERVED_NS, a_reserved_node, a_talk

# how it ends


def test_it_ends_when_another_node_has_room() -> None:
    talk = a_reserved_node()
    talk.nodes(a_node("n2", {"memory": 100}))
    facts = talk.schedule()
    assert placed(facts) == [("app", "big", "n2")]
    assert ended_reservations(facts) == [("big", "n1", "not_needed")]


def test_of_several_reservations_the_last_one_ends_when_one_ask_is_placed_elsewhere() -> None:
    talk = a_talk(n1=90, n2=80)
    talk.asks(an_ask("big", 60, count=2))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n2", False), ("big", "n1", False)]
    talk.nodes(a_node("n3", {"memory": 60}))
    facts = talk.schedule()
    assert placed(facts) == [("app", "big", "n3")]
    assert ended_reservations(facts) == [("big", "n1", "not_needed")]


def test_it_ends_with_the_ask() -> None:
    talk = a_reserved_node()
    assert ended_reservations(talk.release_asks(allocation_key="big")) == [("big", "n1", "not_needed")]
    assert talk.model().nodes["n1"].free == {"memory": 10}


def test_it_ends_with_the_application() -> None:
    talk = a_reserved_node()
    assert ended_reservations(talk.remove("app")) == [("big", "n1", "not_needed")]


def test_it_ends_when_the_application_fails() -> None:
    talk = a_talk(n1=80)
    talk.apps(an_app("mortal", execution_timeout_ms=60_000))
    talk.asks(an_ask("starts", 10, app="mortal"), an_ask("big", 60, app="mortal"))
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]
    facts = wait(talk, 60 * 10**9)
    assert ended_reservations(facts) == [("big", "n1", "not_needed")]
    assert reservations_of(talk) == []


@pytest.mark.parametrize("change", [{"memory": 70}, {"memory": 60, "priority": 3}], ids=["size", "priority"])
def test_an_updated_ask_is_old_enough_at_once(change: dict[str, Any]) -> None:
    talk = a_reserved_node()
    facts = talk.asks(an_ask("big", **change))
    assert ended_reservations(facts) == [("big", "n1", "not_needed")]
    assert reserved(talk.schedule()) == [("big", "n1", False)]
    [reservation] = talk.model().reservations
    assert reservation.items == (("memory", change["memory"]),)


def test_an_update_to_fewer_leaves_it_at_one() -> None:
    talk = a_talk(n1=90, n2=80)
    talk.asks(an_ask("big", 50, count=2))
    wait(talk, DELAY_NS)
    talk.asks(an_ask("big", 50, count=1))
    talk.schedule()
    assert reservations_of(talk) == [("big", "n2", False)]


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
    assert ended_reservations(talk.nodes(change) + talk.schedule()) == [("big", "n1", "node")]
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n2", False)]


def test_it_stays_while_the_node_changes_in_other_ways() -> None:
    talk = a_reserved_node()
    talk.nodes(a_node("n1", {"memory": 95}, action=NodeAction.UPDATE))
    assert ended_reservations(talk.schedule()) == []
    talk.nodes(a_node("n1", {"memory": 150}, action=NodeAction.UPDATE))
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_it_ends_if_there_is_room_but_no_quota_any_longer() -> None:
    talk = a_reserved_node(a_root(a_queue_spec("a", max={"memory": 100}), a_queue_spec("b")))
    talk.nodes(a_node("n2", {"memory": 50}))
    talk.asks(an_ask("more", 50))
    assert placed(talk.schedule()) == [("app", "more", "n2")]
    facts = finished(talk, "on_n1") + talk.schedule()
    assert (ended_reservations(facts), placed(facts)) == ([("big", "n1", "quota")], [])
    talk.release(allocation_key="more")
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_it_expires_and_the_ask_gets_no_other_for_as_long() -> None:
    talk = a_reserved_node()
    assert ended_reservations(wait(talk, RESERVED_NS - 1)) == []
    fact = only(ReservationEnded, wait(talk, 1))
    assert (fact.end, fact.kept_ns) == ("expired", RESERVED_NS)
    talk.asks(an_ask("small", 5))
    assert placed(talk.schedule()) == [("app", "small", "n1")]
    assert reserved(wait(talk, RESERVED_NS - 1)) == []
    assert reserved(wait(talk, 1)) == [("big", "n1", False)]


def test_an_ask_whose_reservation_expired_may_still_be_placed() -> None:
    talk = a_reserved_node()
    wait(talk, RESERVED_NS)
    finished(talk, "on_n1")
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_a_node_whose_reservation_expired_gets_no_other_for_a_while_and_is_for_others() -> None:
    talk = a_reserved_node()
    talk.asks(an_ask("twin", 60))
    facts = wait(talk, RESERVED_NS)
    assert ended_reservations(facts) == [("big", "n1", "expired")]
    assert reserved(facts) == []
    talk.asks(an_ask("small", 5))
    assert [key for _, key, _ in placed(talk.schedule())] == ["small"]
    assert reserved(wait(talk, RESERVED_NS - 1)) == []
    assert reserved(wait(talk, 1)) == [("big", "n1", False)]


# who else is there


def test_the_time_goes_on_while_the_rm_is_away_and_nothing_is_placed() -> None:
    talk = a_reserved_node()
    talk.disconnect()
    finished(talk, "on_n1")
    assert placed(talk.schedule()) == []
    assert ended_reservations(wait(talk, RESERVED_NS - 2)) == []
    talk.connect()
    assert placed(talk.schedule()) == [("app", "big", "n1")]


def test_it_ends_in_time_while_the_rm_is_away() -> None:
    talk = a_reserved_node()
    wait(talk, 10)
    talk.disconnect()
    assert ended_reservations(wait(talk, RESERVED_NS - 10)) == [("big", "n1", "expired")]


def test_nothing_is_left_of_it_when_the_rm_registers_again() -> None:
    talk = a_reserved_node()
    talk.register()
    assert reservations_of(talk) == []
    assert [type(alarm.event) for alarm in talk.scheduler.cluster.alarms.live()] == [ReconnectTimeout]


def test_it_survives_another_queue_file_and_is_judged_by_that() -> None:
    talk = a_reserved_node()
    reload(talk, a_root(a_queue_spec("a", max={"memory": 59}), a_queue_spec("b")))
    assert reservations_of(talk) == [("big", "n1", False)]
    assert ended_reservations(finished(talk, "on_n1") + talk.schedule()) == [("big", "n1", "quota")]


def test_the_ask_retains_its_reservation_while_its_queue_drains() -> None:
    talk = a_reserved_node()
    reload(talk, a_root(a_queue_spec("b")))
    assert placed(finished(talk, "on_n1") + talk.schedule()) == [("app", "big", "n1")]


def test_it_ends_with_the_turn_of_a_real_ask_that_has_to_wait_for_its_gang() -> None:
    talk = a_reserved_node()
    talk.asks(a_placeholder("p", 20))
    assert ended_reservations(talk.schedule()) == [("big", "n1", "not_needed")]
    talk.release_asks(allocation_key="p")
    assert reserved(wait(talk, DELAY_NS)) == [("big", "n1", False)]


def test_a_placeholder_may_have_a_reservation_and_is_one_when_it_is_placed() -> None:
    talk = a_talk(n1=90)
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=60)))
    talk.asks(a_placeholder("p", 60, app="gang"))
    assert reserved(wait(talk, DELAY_NS)) == [("p", "n1", False)]
    assert placed(finished(talk, "on_n1") + talk.schedule()) == [("gang", "p", "n1")]
    assert [one.placeholder for one in talk.app("gang").allocations] == [True]


def test_a_swap_takes_no_more_of_a_reserved_node_than_its_placeholder_had() -> None:
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
