"""Predicate calls other than ALLOCATE: RESERVE, PREEMPT and SWAP."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.commands import NewAsk, NodeAction, PredicateResult, TerminationType
from schedulerd.core.facts import Fact, ReleaseRequested
from schedulerd.core.predicates.facts import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.preemption.facts import Preempted, PreemptionRefusal, PreemptionRefused
from schedulerd.core.preemption.handlers import preemption as preemption_handlers
from schedulerd.core.preemption.rules import search as search_rules
from schedulerd.core.reservations.facts import ReservationEnded, Reserved
from schedulerd.core.resources import Resources
from schedulerd.core.specs import SECOND_NS, Timeouts
from tests.unit.core.answering_rm import AnsweringRM, Refuses
from tests.unit.core.builders import a_node, a_placeholder, an_app, an_ask, of, only, placed
from tests.unit.core.preemption_builders import (
    a_daemon,
    an_entitled_ask,
    fill,
    guaranteed_root,
    preempted,
    reservations_of,
    wait,
)

TIMES = Timeouts()
DELAY_NS = 30 * SECOND_NS


# reservations


def a_full_talk(*nodes: str, refuses: Refuses | None = None) -> AnsweringRM:
    """`small` is on every node of 20, and `big`, which wants 15, waits."""
    talk = AnsweringRM(refuses)
    talk.begin()
    talk.nodes(*(a_node(name, {"memory": 20}) for name in nodes))
    talk.apps(an_app(), an_app("others"))
    talk.asks(an_ask("small", 10, count=len(nodes), app="others"))
    assert len(placed(talk.schedule())) == len(nodes)
    talk.take_asked()
    talk.asks(an_ask("big", 15))
    talk.schedule()
    return talk


def later(talk: AnsweringRM) -> list[Fact]:
    """Big has waited for so long that room is to be reserved for it."""
    return wait(talk, TIMES.reservation_delay_ns)


def test_before_room_is_reserved_the_rm_is_asked() -> None:
    talk = a_full_talk("n1")
    facts = later(talk)
    assert [one.allocate for one in of(PredicateWanted, facts)] == [False]
    assert only(Reserved, facts).node_id == "n1"


def test_room_is_reserved_on_the_next_best_node_if_the_best_is_refused() -> None:
    talk = a_full_talk("n1", "n2", refuses=Refuses(("big", "n1")))
    assert only(Reserved, later(talk)).node_id == "n2"
    assert talk.take_asked() == [("big", "n1"), ("big", "n2")]


def test_a_refused_reservation_does_not_delay_equal_asks() -> None:
    talk = a_full_talk("n1", refuses=Refuses(("big", "n1")))
    talk.asks(an_ask("bigger", 15))
    facts = later(talk)
    assert [one.allocation_key for one in of(Reserved, facts)] == ["bigger"]


def test_room_that_was_refused_is_asked_for_again_after_a_while() -> None:
    talk = a_full_talk("n1", refuses=Refuses(("big", "n1")))
    assert of(Reserved, later(talk)) == []
    talk.refusal_of = Refuses()
    assert of(Reserved, wait(talk, TIMES.predicate_retry_delay_ns - 1)) == []
    assert only(Reserved, wait(talk, 2)).node_id == "n1"


def test_reserved_room_is_taken_when_the_resource_manager_agrees_again() -> None:
    talk = a_full_talk("n1")
    later(talk)
    talk.take_asked()
    facts = talk.release(application_id="others", allocation_key="small") + talk.schedule()
    assert [one.allocate for one in of(PredicateWanted, facts)] == [True]
    assert placed(facts) == [("app", "big", "n1")]
    assert only(ReservationEnded, facts).end.value == "placed"


def test_reserved_room_that_is_refused_then_is_for_others_again() -> None:
    talk = a_full_talk("n1")
    later(talk)
    talk.refusal_of = Refuses(("big", "n1"))
    facts = talk.release(application_id="others", allocation_key="small") + talk.schedule()
    assert placed(facts) == []
    assert only(ReservationEnded, facts).end.value == "node"
    talk.asks(an_ask("other", 15))
    assert placed(talk.schedule()) == [("app", "other", "n1")]


def test_the_node_of_a_reservation_goes_while_a_check_on_it_is_open() -> None:
    talk = a_full_talk("n1")
    later(talk)
    talk.withholds_answers = True
    talk.release(application_id="others", allocation_key="small")
    talk.schedule()
    assert talk.open_calls == 1
    talk.nodes(a_node("n1", action=NodeAction.DECOMISSION))
    assert talk.open_calls == 0
    talk.withholds_answers = False
    talk.nodes(a_node("n2", {"memory": 20}))
    assert placed(talk.schedule()) == [("app", "big", "n2")]


# daemons


def a_daemon_talk(*, preemption: bool = True) -> AnsweringRM:
    talk = AnsweringRM()
    talk.begin(guaranteed_root(), preemption=preemption)
    talk.nodes(a_node("n1", {"memory": 10}))
    fill(talk, "victims", "root.v", v0=10)
    talk.apps(an_app("daemons", "root.c"))
    talk.take_asked()
    return talk


def test_a_daemon_has_a_check_to_reserve_one_to_preempt_and_one_to_run_there() -> None:
    talk = a_daemon_talk()
    talk.asks(a_daemon())
    facts = talk.schedule()
    asked = [one for one in facts if isinstance(one, PredicateWanted | PreemptionPredicateWanted)]
    assert [getattr(one, "allocate", None) for one in asked] == [False, None]
    assert preempted(facts) == ["v0"]
    victim = only(ReleaseRequested, facts)
    talk.take_asked()
    gone = talk.release(application_id="victims", uuid=victim.uuid, termination=victim.termination) + talk.schedule()
    assert placed(gone) == [("daemons", "d", "n1")]
    assert talk.take_asked() == [("d", "n1")]


def test_a_daemon_that_is_called_back_during_its_check_leaves_the_position_of_its_queue() -> None:
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app())
    talk.withholds_answers = True
    talk.asks(a_daemon("d", priority=5, app="app"), an_ask("waits", 30))
    talk.schedule()
    talk.give(PredicateResult(talk.asked[-1].call_id, "tainted"))
    talk.schedule()
    talk.answer(talk.asked[-1])
    assert reservations_of(talk) == [("d", "n1", True)]
    talk.schedule()
    assert (talk.open_calls, bool(talk.model().refused_asks)) == (1, True)
    talk.nodes(a_node("n1", {"memory": 25}, action=NodeAction.UPDATE))
    assert not talk.model().refused_asks


def test_nothing_is_preempted_for_a_daemon_that_could_not_run_there_even_then() -> None:
    talk = a_daemon_talk()
    talk.refusal_of = lambda one: "no port" if isinstance(one, PreemptionPredicateWanted) else ""
    talk.asks(a_daemon())
    facts = talk.schedule() + wait(talk, 60 * SECOND_NS)
    assert of(Preempted, facts) == []
    assert len(of(PreemptionPredicateWanted, facts)) == 1, "the node is as it was"
    assert "refuses node n1 even without the victims" in only(PreemptionRefused, facts).reason


def test_without_preemption_predicates_preemption_is_decided_by_the_core_alone() -> None:
    talk = a_daemon_talk(preemption=False)
    talk.asks(a_daemon())
    assert preempted(talk.schedule()) == ["v0"]


# others end


def a_preempting_talk(*nodes: str) -> AnsweringRM:
    """Every node is full with a victim called like it; an entitled ask of 10 waits."""
    talk = AnsweringRM()
    talk.begin(guaranteed_root())
    talk.apps(an_app("victims", "root.v"), an_app("claimer", "root.c"))
    for name in nodes:
        talk.nodes(a_node(name, {"memory": 10}))
        talk.asks(an_ask(f"on_{name}", app="victims"))
        talk.schedule()
    talk.take_asked()
    talk.asks(an_entitled_ask())
    return talk


def test_what_was_decided_is_asked_about_with_the_victims_in_order() -> None:
    talk = a_preempting_talk("n1")
    wanted = only(PreemptionPredicateWanted, wait(talk, DELAY_NS))
    assert (wanted.allocation_key, wanted.node_id, wanted.victim_keys, wanted.start_index) == ("c", "n1", ("on_n1",), 0)


def test_several_victims_are_asked_about_the_least_protected_first_and_up_to_the_last() -> None:
    talk = AnsweringRM()
    talk.begin(guaranteed_root())
    talk.nodes(a_node("n1", {"memory": 30}))
    talk.apps(an_app("victims", "root.v"), an_app("claimer", "root.c"))
    for key, priority in (("middle", -1), ("first", -2), ("last", 0)):
        talk.asks(an_ask(key, app="victims", priority=priority))
        talk.schedule()
    talk.asks(an_entitled_ask(memory=30))
    talk.withholds_answers = True
    wanted = only(PreemptionPredicateWanted, wait(talk, DELAY_NS))
    assert (wanted.victim_keys, wanted.start_index) == (("first", "middle", "last"), 2)
    facts = talk.give(PredicateResult(wanted.call_id, index=1)) + talk.schedule()
    assert preempted(facts) == ["first", "middle", "last"], "two of them would not make room"


def a_choice_of_victims(**fields: Any) -> AnsweringRM:
    """n1 is full with four; two of them are enough for the entitled ask."""
    talk = AnsweringRM()
    talk.begin(guaranteed_root(victims=fields))
    talk.nodes(a_node("n1", {"memory": 40}))
    talk.apps(an_app("victims", "root.v"), an_app("claimer", "root.c"), an_app("daemons", "root.c"))
    for key, priority in (("third", -1), ("first", -3), ("last", 0), ("second", -2)):
        talk.asks(an_ask(key, app="victims", priority=priority))
        talk.schedule()
    talk.withholds_answers = True
    return talk


def asked_about(talk: AnsweringRM, ask: NewAsk) -> PreemptionPredicateWanted:
    """The call about those that would end for the ask; to keep the room for it is agreed."""
    talk.asks(ask)
    facts = talk.schedule()
    to_keep = of(PredicateWanted, facts)
    facts += talk.answer(*to_keep) + talk.schedule() if to_keep else wait(talk, DELAY_NS)
    return only(PreemptionPredicateWanted, facts)


ASKERS = pytest.mark.parametrize("asker", [an_entitled_ask(memory=20), a_daemon(memory=20)], ids=["claim", "daemon"])


@ASKERS
@pytest.mark.parametrize(
    ("index", "ended"),
    [
        (1, ["first", "second"]),
        (2, ["first", "second", "third"]),
        (3, ["first", "second", "third", "last"]),
    ],
)
def test_the_further_victims_of_the_node_are_offered_and_preempted_if_the_answer_says_so(
    asker: NewAsk, index: int, ended: list[str]
) -> None:
    talk = a_choice_of_victims()
    wanted = asked_about(talk, asker)
    assert (wanted.victim_keys, wanted.start_index) == (("first", "second", "third", "last"), 1)
    facts = talk.give(PredicateResult(wanted.call_id, index=index)) + talk.schedule()
    assert preempted(facts) == ended


def test_no_further_victim_is_offered_that_its_queue_cannot_spare() -> None:
    talk = a_choice_of_victims(guaranteed={"memory": 10})
    wanted = asked_about(talk, an_entitled_ask(memory=20))
    assert (wanted.victim_keys, wanted.start_index) == (("first", "second", "third"), 1)


@ASKERS
def test_a_further_victim_that_may_not_be_preempted_any_longer_is_not(asker: NewAsk) -> None:
    talk = a_choice_of_victims()
    wanted = asked_about(talk, asker)
    third = next(one for one in talk.app("victims").allocations if one.allocation_key == "third")
    talk.release(application_id="victims", uuid=third.uuid)
    talk.asks(an_ask("filler", 10, app="claimer"))
    facts = talk.give(PredicateResult(wanted.call_id, index=2)) + talk.schedule()
    assert "third" not in preempted(facts)


def test_only_so_many_further_victims_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_rules, "FURTHER_MAX", 1)
    wanted = asked_about(a_choice_of_victims(), an_entitled_ask(memory=20))
    assert wanted.victim_keys == ("first", "second", "third")


def test_the_next_best_node_is_asked_about_when_one_is_refused() -> None:
    talk = a_preempting_talk("n1", "n2", "n3")
    first: list[str] = []

    def refuse_first(one: object) -> str:
        if not isinstance(one, PreemptionPredicateWanted) or (first and first[0] != one.node_id):
            return ""
        first.append(one.node_id)
        return "no port"

    talk.refusal_of = refuse_first
    facts = wait(talk, DELAY_NS)
    assert len(of(PreemptionPredicateWanted, facts)) == 2
    assert only(ReleaseRequested, facts).node_id != first[0]


def test_nothing_is_preempted_if_every_node_is_refused_and_the_reason_is_said() -> None:
    talk = a_preempting_talk("n1", "n2")
    talk.refusal_of = lambda one: "no port" if isinstance(one, PreemptionPredicateWanted) else ""
    facts = wait(talk, DELAY_NS)
    assert of(Preempted, facts) == []
    assert sorted(one.node_id for one in of(PreemptionPredicateWanted, facts)) == ["n1", "n2"]
    refused = only(PreemptionRefused, facts)
    assert "node n1: no port" in refused.reason
    assert talk.app("claimer").asks[0].no_preemption_because in refused.reason
    assert len(of(PreemptionPredicateWanted, wait(talk, TIMES.preemption_attempt_ns))) == 2, "and it is asked again"


def test_so_many_nodes_are_asked_about_in_one_attempt_and_they_are_asked_about_again_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preemption_handlers, "BARRED_MAX", 2)
    talk = a_preempting_talk("n1", "n2", "n3")
    talk.refusal_of = lambda one: "no port" if isinstance(one, PreemptionPredicateWanted) else ""
    facts = wait(talk, DELAY_NS)
    asked = [one.node_id for one in of(PreemptionPredicateWanted, facts)]
    assert len(set(asked)) == len(asked) == 2
    assert of(Preempted, facts) == []
    refused = only(PreemptionRefused, facts)
    assert (refused.refusal, refused.reason.count("no port")) == (PreemptionRefusal.NO_NODE, 2)
    assert of(PreemptionPredicateWanted, wait(talk, TIMES.preemption_attempt_ns - 1)) == []
    assert len(of(PreemptionPredicateWanted, wait(talk, 1))) == 2


def test_other_things_go_on_while_a_decision_waits() -> None:
    talk = a_preempting_talk("n1")
    talk.withholds_answers = True
    only(PreemptionPredicateWanted, wait(talk, DELAY_NS))
    assert not talk.scheduler.wants_cycle()
    talk.withholds_answers = False
    talk.nodes(a_node("n2", {"memory": 5}))
    talk.asks(an_ask("tiny", 5, app="victims"))
    assert placed(talk.schedule()) == [("victims", "tiny", "n2")]
    assert talk.open_calls == 1


def test_a_decision_is_judged_again_when_the_result_comes() -> None:
    talk = a_preempting_talk("n1")
    talk.withholds_answers = True
    wanted = only(PreemptionPredicateWanted, wait(talk, DELAY_NS))
    talk.remove("victims")
    talk.withholds_answers = False
    facts = talk.give(PredicateResult(wanted.call_id)) + talk.schedule()
    assert of(ReleaseRequested, facts) == []
    assert placed(facts) == [("claimer", "c", "n1")]


def test_an_index_without_a_victim_is_a_refusal() -> None:
    talk = a_preempting_talk("n1")
    talk.withholds_answers = True
    wanted = only(PreemptionPredicateWanted, wait(talk, DELAY_NS))
    facts = talk.give(PredicateResult(wanted.call_id, index=1)) + talk.schedule()
    assert of(Preempted, facts) == []
    assert "index 1 is of none of the 1 victims" in only(PreemptionRefused, facts).reason


def test_a_preemption_that_is_void_is_not_waited_for() -> None:
    talk = a_preempting_talk("n1")
    talk.withholds_answers = True
    wait(talk, DELAY_NS)
    talk.release_asks(application_id="claimer", allocation_key="c")
    assert talk.open_calls == 0
    assert of(Preempted, talk.schedule()) == []


def test_the_stream_goes_while_a_decision_waits() -> None:
    talk = a_preempting_talk("n1")
    talk.withholds_answers = True
    wait(talk, DELAY_NS)
    talk.disconnect_callbacks()
    assert preempted(talk.schedule()) == ["on_n1"]


# placeholders


def a_gang_talk(count: int) -> AnsweringRM:
    """So many placeholders, each on a node of its own."""
    talk = AnsweringRM()
    talk.begin()
    talk.nodes(*(a_node(f"n{number}", {"memory": 10}) for number in range(1, count + 1)))
    talk.apps(an_app(placeholder_ask=Resources(memory=10 * count)))
    talk.asks(a_placeholder(count=count))
    assert len(placed(talk.schedule())) == count
    talk.take_asked()
    return talk


def test_real_asks_are_tried_for_a_placeholder_each() -> None:
    talk = a_gang_talk(3)
    talk.withholds_answers = True
    talk.asks(*(an_ask(f"r{number}", task_group="group") for number in range(3)))
    facts = talk.schedule()
    assert of(ReleaseRequested, facts) == [], "no placeholder goes before there is a result"
    assert sorted(node for _, node in talk.asked_pairs) == ["n1", "n2", "n3"]
    assert all(one.allocate for one in of(PredicateWanted, facts)), "they are to run there, and no room is to be kept"
    talk.withholds_answers = False
    requests = of(ReleaseRequested, talk.answer(*talk.asked))
    assert [one.termination for one in requests] == [TerminationType.PLACEHOLDER_REPLACED] * 3


def test_a_placeholder_that_goes_meanwhile_is_not_swapped() -> None:
    talk = a_gang_talk(1)
    talk.withholds_answers = True
    talk.asks(an_ask("r", task_group="group"))
    talk.schedule()
    [placeholder] = talk.app().allocations
    talk.release(uuid=placeholder.uuid)
    facts = talk.answer(*talk.asked) + talk.schedule()
    assert of(ReleaseRequested, facts) == []
    talk.withholds_answers = False
    assert placed(talk.answer(talk.asked[-1])) == [("app", "r", "n1")], "it is placed like any other"


def test_a_real_ask_that_is_refused_by_one_is_tried_for_another() -> None:
    talk = a_gang_talk(2)
    talk.refusal_of = Refuses(("r", "n1"))
    talk.asks(an_ask("r", task_group="group"))
    request = only(ReleaseRequested, talk.schedule())
    assert request.node_id == "n2"
    assert placed(talk.release(uuid=request.uuid, termination=request.termination)) == [("app", "r", "n2")]


def test_several_wait_for_fewer_placeholders() -> None:
    talk = a_gang_talk(1)
    talk.withholds_answers = True
    talk.asks(an_ask("r1", task_group="group"), an_ask("r2", task_group="group"))
    talk.schedule()
    assert talk.take_asked() == [("r1", "n1")]
    assert not talk.scheduler.wants_cycle()


def test_an_ask_refused_on_a_node_with_room_preempts_elsewhere_and_wins_no_empty_reservation_there() -> None:
    """Its refusal there is not in `PredicateHistory.refused` once it was set aside for all nodes with room."""
    talk = AnsweringRM(Refuses(("c", "n1")))
    talk.begin(guaranteed_root(50))
    talk.nodes(a_node("f1", {"memory": 10}))
    talk.apps(an_app("claimer", "root.c"), an_app("victims", "root.v"))
    talk.asks(an_ask("v", 10, app="victims"))
    talk.schedule()
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.asks(an_entitled_ask("c"))
    talk.schedule()
    facts = wait(talk, 3 * DELAY_NS)
    decisions = of(Preempted, facts)
    assert [(one.node_id, len(one.victims)) for one in decisions] == [("f1", 1)]


def test_nothing_is_remembered_of_the_classes_of_a_refused_ask_that_is_tried_again() -> None:
    talk = AnsweringRM(Refuses(("k", "n1")))
    talk.begin()
    talk.nodes(a_node("n1", {"memory": 100}))
    talk.apps(an_app())
    talk.asks(an_ask())
    talk.schedule()
    wait(talk, 20 * DELAY_NS)
    assert len(talk.model().retry_timers.unreservable) <= 1
