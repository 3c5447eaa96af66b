"""Preemption for an ask with a right to the room: carried out, waited for, and called off."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NodeAction, NodeUpdate, TerminationType
from schedulerd.core.language.facts.fact import Released, ReleaseRequested
from schedulerd.core.language.facts.preemption import Preempted, RoomMade
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import (
    SECOND_NS,
    Timeouts,
)
from schedulerd.core.state.alarm_events import ReconnectTimeout
from tests.unit.core.builders import (
    Conversation,
    a_conversation,
    a_node,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
)
from tests.unit.core.configurations import reload
from tests.unit.core.preemption_builders import (
    an_entitled_ask,
    confirm_releases,
    ended_reservations,
    fill,
    finished,
    full_nodes,
    guaranteed_root,
    preempted,
    refusals,
    reservations_of,
    reserved,
    wait,
    without_preemption,
)

TIMES = Timeouts()
DELAY_NS = 30 * SECOND_NS
ATTEMPT_NS = TIMES.preemption_attempt_ns


def a_decision(**fields: Any) -> Conversation:
    """`c` is to have 10 on n1, for which n1_1 was asked to end."""
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask(**fields))
    assert preempted(wait(talk, DELAY_NS)) == ["n1_1"]
    return talk


# carried out


def test_a_victim_is_told_for_which_pod_it_is_preempted_and_why() -> None:
    root = a_root(a_queue_spec("guar", guaranteed={"vcore": 4_000}), a_queue_spec("v"))
    talk = a_conversation(a_node("n1", {"vcore": 4_000}), root=root)
    talk.apps(an_app("g", "root.guar"), an_app("victims", "root.v"))
    talk.asks(an_ask("g-1", app="g", resources=Resources(vcore=1_000)))
    talk.schedule()
    talk.asks(an_ask("v", app="victims", resources=Resources(vcore=3_000)))
    talk.schedule()
    tags = {"kubernetes.io/meta/namespace": "lab", "kubernetes.io/meta/podName": "g-2"}
    talk.asks(
        an_ask("ad2e12b6", app="g", resources=Resources(vcore=1_000), tags=tags, allow_preempt_other=True),
    )
    (request,) = of(ReleaseRequested, wait(talk, DELAY_NS))
    assert request.message == "Preempted for pod lab/g-2: queue root.guar is below its guarantee (1 of 4 cpu)."


def test_when_the_ask_is_old_enough_the_youngest_is_preempted_and_the_room_is_reserved() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask())
    assert preempted(wait(talk, DELAY_NS - 1)) == []
    assert reservations_of(talk) == [("c", "n1", False)]
    facts = wait(talk, 1)
    request = only(ReleaseRequested, facts)
    assert (request.allocation_key, request.termination) == ("n1_1", TerminationType.PREEMPTED_BY_SCHEDULER)
    why = "queue root.c is below its guarantee (0 of 50 memory)"
    assert request.message == f"Preempted for ask c of application claimer: {why}."
    fact = only(Preempted, facts)
    assert (fact.queue, fact.application_id, fact.allocation_key, fact.node_id) == ("root.c", "claimer", "c", "n1")
    assert fact.victims == (("root.v", request.uuid),)
    assert fact.why == "queue root.c is below its guarantee (0 of 50 memory)"
    assert reservations_of(talk) == [("c", "n1", True)]
    assert ended_reservations(facts) == [("c", "n1", "not_needed")]


def test_nothing_is_free_before_the_victim_is_gone_and_then_the_ask_is_placed() -> None:
    talk = a_decision()
    assert talk.node().allocated == {"memory": 20}
    assert placed(wait(talk, DELAY_NS)) == []
    facts = confirm_releases(talk, "n1_1")
    assert only(RoomMade, facts).waited_ns == DELAY_NS
    assert not only(Released, facts).confirm
    facts = talk.schedule()
    assert (placed(facts), ended_reservations(facts)) == ([("claimer", "c", "n1")], [("c", "n1", "placed")])


def test_no_other_ask_gets_the_room() -> None:
    talk = a_decision()
    talk.asks(an_ask("high", app="other", priority=100), an_entitled_ask("twin", priority=100))
    talk.schedule()
    assert placed(confirm_releases(talk, "n1_1") + talk.schedule()) == [("claimer", "c", "n1")]


def test_the_delay_is_that_of_the_queue() -> None:
    talk = full_nodes(guaranteed_root(preemption_delay_ns=5 * SECOND_NS), n1=[10])
    talk.asks(an_entitled_ask())
    assert preempted(wait(talk, 5 * SECOND_NS - 1)) == []
    assert preempted(wait(talk, 1)) == ["n1_0"]


def test_nothing_is_preempted_for_an_ask_that_does_not_allow_it() -> None:
    talk = full_nodes(n1=[10])
    talk.asks(an_entitled_ask(allow_preempt_other=False))
    facts = wait(talk, 2 * DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [])


def test_where_it_is_switched_off_nothing_is_preempted() -> None:
    talk = a_conversation(a_node("n1", {"memory": 10}))
    talk.step(without_preemption(guaranteed_root()))
    fill(talk, "victims", "root.v", k=10)
    talk.apps(an_app("claimer", "root.c"))
    talk.asks(an_entitled_ask())
    facts = wait(talk, 2 * DELAY_NS)
    assert (preempted(facts), refusals(facts)) == ([], [])


def test_the_first_in_order_preempts_first() -> None:
    talk = full_nodes(guaranteed_root(10), n1=[10, 10])
    talk.asks(an_entitled_ask("low"), an_entitled_ask("high", priority=1))
    facts = wait(talk, DELAY_NS)
    assert only(Preempted, facts).allocation_key == "high"
    assert refusals(facts) == [("low", "not_entitled")]


# several


def test_what_others_have_reserved_counts_against_the_guarantee() -> None:
    talk = full_nodes(guaranteed_root(15), n1=[10, 10])
    talk.asks(an_entitled_ask("c1"), an_entitled_ask("c2"))
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), refusals(facts)) == (["n1_1"], [("c2", "not_entitled")])


def test_no_victim_is_taken_twice() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask("c1"), an_entitled_ask("c2"))
    facts = wait(talk, DELAY_NS)
    assert [(one.allocation_key, len(one.victims)) for one in of(Preempted, facts)] == [("c1", 1), ("c2", 1)]
    assert preempted(facts) == ["n1_1", "n1_0"]
    assert preempted(wait(talk, DELAY_NS)) == []
    assert sorted(placed(confirm_releases(talk, "n1_0", "n1_1") + talk.schedule())) == [
        ("claimer", "c1", "n1"),
        ("claimer", "c2", "n1"),
    ]


def test_an_ask_for_several_has_a_reservation_for_each() -> None:
    talk = full_nodes(n1=[10, 10], n2=[10])
    talk.asks(an_entitled_ask(count=3))
    facts = wait(talk, DELAY_NS)
    assert sorted(preempted(facts)) == ["n1_0", "n1_1", "n2_0"]
    assert sorted(reservations_of(talk)) == [("c", "n1", True), ("c", "n1", True), ("c", "n2", True)]
    facts = confirm_releases(talk, "n1_1") + talk.schedule()
    assert placed(facts) == [("claimer", "c", "n1")]
    confirm_releases(talk, "n1_0", "n2_0")
    assert len(placed(talk.schedule())) == 2
    assert reservations_of(talk) == []


def test_what_goes_anyway_is_enough_for_a_second_one() -> None:
    talk = a_decision()
    talk.release_asks(application_id="claimer")
    talk.asks(an_entitled_ask("second"))
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), reserved(facts)[-1]) == ([], ("second", "n1", True))
    assert only(Preempted, facts).victims == ()
    assert placed(confirm_releases(talk, "n1_1") + talk.schedule()) == [("claimer", "second", "n1")]


def test_aging_reservations_do_not_count() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_ask("big", 20, app="other", priority=9))
    wait(talk, DELAY_NS)
    finished(talk, "n1_0")
    talk.asks(an_entitled_ask())
    assert placed(talk.schedule()) == []
    facts = wait(talk, DELAY_NS)
    assert (preempted(facts), placed(facts)) == ([], [("claimer", "c", "n1")])
    assert reservations_of(talk) == [("big", "n1", False)]


# while the victims are on their way out


@pytest.mark.parametrize("termination", [TerminationType.STOPPED_BY_RM, TerminationType.TIMEOUT])
def test_a_victim_that_completes_by_itself_makes_room_as_well(termination: TerminationType) -> None:
    talk = a_decision()
    assert of(RoomMade, talk.release(application_id="victims", allocation_key="n1_1", termination=termination))
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]


def test_so_does_one_whose_application_is_removed() -> None:
    talk = a_decision()
    assert len(of(RoomMade, talk.remove("victims"))) == 1
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]


def test_room_of_another_allocation_that_completes_first_is_as_good() -> None:
    talk = a_decision()
    facts = finished(talk, "n1_0")
    assert of(RoomMade, facts) == []
    assert placed(talk.schedule()) == [("claimer", "c", "n1")]
    assert of(RoomMade, confirm_releases(talk, "n1_1")) == []
    talk.asks(an_ask("k", app="other"))
    assert placed(talk.schedule()) == [("other", "k", "n1")]


def test_an_ask_that_gets_another_node_meanwhile_leaves_the_room_to_others() -> None:
    talk = a_decision()
    talk.nodes(a_node("n2", {"memory": 10}))
    facts = talk.schedule()
    assert (placed(facts), ended_reservations(facts)) == ([("claimer", "c", "n2")], [("c", "n1", "not_needed")])
    talk.asks(an_ask("k", app="other"))
    assert of(RoomMade, confirm_releases(talk, "n1_1")) == []
    assert placed(talk.schedule()) == [("other", "k", "n1")]


def test_of_several_reservations_those_without_victims_are_given_up_first() -> None:
    talk = full_nodes(guaranteed_root(10), n1=[10, 10], n2=[10])
    talk.asks(an_entitled_ask(count=2))
    wait(talk, DELAY_NS)
    assert [entry[2] for entry in reservations_of(talk)] == [False, True]
    talk.nodes(a_node("n3", {"memory": 10}))
    facts = talk.schedule()
    assert placed(facts) == [("claimer", "c", "n3")]
    assert [entry[2] for entry in reservations_of(talk)] == [True]


def test_an_ask_that_is_taken_back_leaves_the_room_to_others() -> None:
    talk = a_decision()
    assert ended_reservations(talk.release_asks(application_id="claimer", allocation_key="c")) == [
        ("c", "n1", "not_needed")
    ]
    talk.asks(an_ask("k", app="other"))
    assert placed(confirm_releases(talk, "n1_1") + talk.schedule()) == [("other", "k", "n1")]


def test_so_does_an_application_that_is_removed() -> None:
    talk = a_decision()
    assert ended_reservations(talk.remove("claimer")) == [("c", "n1", "not_needed")]
    talk.asks(an_ask("k", app="other"))
    assert placed(confirm_releases(talk, "n1_1") + talk.schedule()) == [("other", "k", "n1")]


def test_so_does_an_application_that_fails() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.apps(an_app("mortal", "root.c", execution_timeout_ms=40_000))
    talk.nodes(a_node("n2", {"memory": 5}))
    talk.asks(an_ask("starts", 5, app="mortal"), an_entitled_ask(app="mortal"))
    assert preempted(wait(talk, DELAY_NS)) == ["n1_1"]
    assert ended_reservations(wait(talk, 10 * SECOND_NS)) == [("c", "n1", "not_needed")]


@pytest.mark.parametrize(("change", "victims"), [({"memory": 10, "priority": -1}, []), ({"memory": 20}, ["n1_0"])])
def test_an_updated_ask_preempts_anew_at_once_and_counts_what_is_being_released(
    change: dict[str, Any], victims: list[str]
) -> None:
    talk = a_decision()
    assert ended_reservations(talk.asks(an_entitled_ask(**change))) == [("c", "n1", "not_needed")]
    facts = talk.schedule()
    assert preempted(facts) == victims
    assert reservations_of(talk) == [("c", "n1", True)]
    assert placed(confirm_releases(talk, "n1_1", *victims) + talk.schedule()) == [("claimer", "c", "n1")]


def test_a_queue_that_drains_retains_its_entitled_reservations() -> None:
    talk = a_decision()
    reload(talk, a_root(a_queue_spec("v"), a_queue_spec("o")))
    assert placed(confirm_releases(talk, "n1_1") + talk.schedule()) == [("claimer", "c", "n1")]


@pytest.mark.parametrize(
    "change",
    [
        a_node("n1", action=NodeAction.DRAIN_NODE),
        a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "false"}),
        a_node("n1", {"memory": 9}, action=NodeAction.UPDATE),
        a_node("n1", action=NodeAction.DECOMISSION),
    ],
    ids=["drained", "not ready", "too small", "removed"],
)
def test_a_node_that_is_no_good_any_longer_makes_the_ask_look_for_another_one(change: NodeUpdate) -> None:
    talk = full_nodes(n1=[10, 10], n2=[30])
    talk.asks(an_entitled_ask())
    assert preempted(wait(talk, DELAY_NS)) == ["n1_1"]
    facts = talk.nodes(change) + talk.schedule()
    assert ended_reservations(facts) == [("c", "n1", "node")]
    assert of(RoomMade, facts) == []
    facts += wait(talk, ATTEMPT_NS)
    assert preempted(facts)[-1:] == ["n2_0"]
    assert reservations_of(talk) == [("c", "n2", True)]


def test_where_the_room_that_was_made_is_not_enough_any_longer_it_is_looked_for_anew() -> None:
    talk = a_decision()
    talk.nodes(a_node("n1", {"memory": 15}, action=NodeAction.UPDATE))
    confirm_releases(talk, "n1_1")
    facts = talk.schedule()
    assert ended_reservations(facts) == [("c", "n1", "node")]
    assert preempted(facts) == []
    assert preempted(wait(talk, ATTEMPT_NS)) == ["n1_0"]
    assert placed(confirm_releases(talk, "n1_0") + talk.schedule()) == [("claimer", "c", "n1")]


def test_it_waits_for_its_victims_for_as_long_as_they_take() -> None:
    talk = a_decision()
    assert ended_reservations(wait(talk, 3 * TIMES.reservation_ns)) == []
    assert placed(confirm_releases(talk, "n1_1") + talk.schedule()) == [("claimer", "c", "n1")]


def test_while_the_rm_is_away_nothing_is_preempted_or_placed() -> None:
    talk = full_nodes(n1=[10, 10])
    talk.asks(an_entitled_ask("c1"))
    wait(talk, SECOND_NS)
    talk.disconnect()
    assert preempted(wait(talk, DELAY_NS)) == []
    talk.connect()
    assert preempted(talk.schedule()) == ["n1_1"]
    talk.disconnect()
    confirm_releases(talk, "n1_1")
    assert placed(talk.schedule()) == []
    talk.connect()
    assert placed(talk.schedule()) == [("claimer", "c1", "n1")]


def test_nothing_is_left_of_it_when_the_rm_registers_again() -> None:
    talk = a_decision()
    talk.register()
    assert [type(alarm.event) for alarm in talk.scheduler.cluster.alarms.live()] == [ReconnectTimeout]


def test_what_was_decided_is_not_undone_by_another_queue_file() -> None:
    talk = a_decision()
    reload(talk, guaranteed_root(0))
    assert reservations_of(talk) == [("c", "n1", True)]
    assert placed(confirm_releases(talk, "n1_1") + talk.schedule()) == [("claimer", "c", "n1")]
