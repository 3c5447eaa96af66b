"""Preemption for an ask with a required node, and then something else happens."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction, TerminationType
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.facts.preemption import RoomMade
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, PreemptionPolicy
from tests.unit.core.builders import (
    a_node,
    a_placeholder,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
)
from tests.unit.core.configurations import reload
from tests.unit.core.only_node import TIMES, a_talk, the_root
from tests.unit.core.preemption_builders import (
    a_daemon,
    confirm_releases,
    ended_reservations,
    finished,
    preempted,
    reserved,
    wait,
)

# when something else happens


def test_a_node_that_comes_full_makes_room() -> None:
    talk = a_talk()
    talk.asks(a_daemon(node="n2"))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 10}, an_existing("e1", "v")))
    assert preempted(talk.schedule()) == ["v"]


def test_a_node_that_becomes_ready_makes_room() -> None:
    talk = a_talk("v")
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "false"}))
    talk.asks(a_daemon())
    assert reserved(talk.schedule()) == []
    talk.nodes(a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "true"}))
    facts = talk.schedule()
    assert (reserved(facts), preempted(facts)) == ([("d", "n1", True)], ["v"])


def test_a_node_that_becomes_large_enough_makes_room() -> None:
    talk = a_talk("v")
    talk.asks(a_daemon("d", memory=20))
    assert reserved(talk.schedule()) == []
    talk.nodes(a_node("n1", {"memory": 20}, action=NodeAction.UPDATE))
    assert preempted(talk.schedule()) == ["v"]


def test_a_draining_node_makes_room_as_well() -> None:
    talk = a_talk("v")
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))
    talk.asks(a_daemon())
    assert preempted(talk.schedule()) == ["v"]
    assert placed(confirm_releases(talk, "v") + talk.schedule()) == [("daemons", "d", "n1")]


def test_an_entitled_reservation_survives_the_draining_of_its_node() -> None:
    talk = a_talk("v")
    talk.asks(a_daemon())
    talk.schedule()
    talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE))
    assert ended_reservations(talk.schedule()) == []
    assert placed(confirm_releases(talk, "v") + talk.schedule()) == [("daemons", "d", "n1")]


def test_its_node_goes_with_the_victims_and_no_fact_says_that_there_was_room() -> None:
    talk = a_talk("v")
    talk.asks(a_daemon())
    talk.schedule()
    facts = talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))
    assert ended_reservations(facts) == [("d", "n1", "node")]
    assert of(RoomMade, facts) == []
    talk.nodes(a_node("n1", {"memory": 10}))
    assert placed(talk.schedule()) == [("daemons", "d", "n1")]


def test_the_time_it_took_counts_from_when_they_were_asked_to_go() -> None:
    talk = a_talk("v", root=the_root(preemption_policy=PreemptionPolicy.DISABLED))
    talk.asks(a_daemon())
    assert preempted(wait(talk, 100 * SECOND_NS)) == []
    reload(talk, the_root())
    assert preempted(talk.schedule()) == ["v"]
    wait(talk, 3 * SECOND_NS)
    assert only(RoomMade, confirm_releases(talk, "v")).waited_ns == 3 * SECOND_NS


@pytest.mark.parametrize("termination", [TerminationType.STOPPED_BY_RM, TerminationType.TIMEOUT])
def test_a_victim_that_finishes_by_itself_makes_room_as_well(termination: TerminationType) -> None:
    talk = a_talk("v")
    talk.asks(a_daemon())
    talk.schedule()
    assert of(RoomMade, talk.release(allocation_key="v", termination=termination))
    assert placed(talk.schedule()) == [("daemons", "d", "n1")]


def test_a_victim_whose_application_is_removed_makes_room_as_well() -> None:
    talk = a_talk("v")
    talk.asks(a_daemon())
    talk.schedule()
    assert of(RoomMade, talk.remove("app"))
    assert placed(talk.schedule()) == [("daemons", "d", "n1")]


def test_it_waits_for_its_victims_longer_than_reservations_last_otherwise() -> None:
    talk = a_talk("v")
    talk.asks(a_daemon())
    talk.schedule()
    assert ended_reservations(wait(talk, 3 * TIMES.reservation_ns)) == []
    assert placed(confirm_releases(talk, "v") + talk.schedule()) == [("daemons", "d", "n1")]


def test_without_victims_the_reservation_expires_and_is_made_again_after_a_pause() -> None:
    talk = a_talk("v", priority=1)
    talk.asks(a_daemon())
    talk.schedule()
    assert ended_reservations(wait(talk, TIMES.reservation_ns)) == [("d", "n1", "expired")]
    talk.asks(a_daemon("d2"))
    assert reserved(talk.schedule()) == [("d2", "n1", True)]
    assert reserved(wait(talk, TIMES.reservation_ns - 1)) == []
    assert ("d", "n1", True) in reserved(wait(talk, 1))


def test_a_placeholder_may_be_preempted() -> None:
    talk = a_talk(memory=20)
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=20)))
    talk.asks(a_placeholder("p", count=2, app="gang"))
    talk.schedule()
    talk.asks(a_daemon())
    assert preempted(talk.schedule()) == ["p"]
    talk.asks(an_ask("r", app="gang", task_group="group", count=2))
    requests = of(ReleaseRequested, talk.schedule())
    assert [one.termination for one in requests] == [TerminationType.PLACEHOLDER_REPLACED]


def test_a_placeholder_that_is_being_replaced_is_not_preempted_for_it() -> None:
    talk = a_talk(memory=10)
    talk.apps(an_app("gang", placeholder_ask=Resources(memory=10)))
    talk.asks(a_placeholder("p", app="gang"))
    talk.schedule()
    talk.asks(an_ask("r", app="gang", task_group="group"))
    request = only(ReleaseRequested, talk.schedule())
    talk.asks(a_daemon())
    assert preempted(talk.schedule()) == []
    talk.release(application_id="gang", uuid=request.uuid, termination=request.termination)
    assert preempted(talk.schedule()) == ["r"]


def test_an_ask_for_several_there_gets_them_at_once() -> None:
    talk = a_talk("v1", "v2")
    talk.asks(a_daemon("d", count=2))
    assert preempted(talk.schedule()) == ["v2", "v1"]
    assert placed(confirm_releases(talk, "v2") + talk.schedule()) == [("daemons", "d", "n1")]
    assert placed(confirm_releases(talk, "v1") + talk.schedule()) == [("daemons", "d", "n1")]


def test_aging_reservations_of_the_node_do_not_count() -> None:
    talk = a_talk("v1", "v2")
    talk.apps(an_app("large"))
    talk.asks(an_ask("big", 20, app="large", priority=9))
    assert reserved(wait(talk, TIMES.reservation_delay_ns)) == [("big", "n1", False)]
    finished(talk, "v1")
    talk.asks(a_daemon())
    assert placed(talk.schedule()) == [("daemons", "d", "n1")]
