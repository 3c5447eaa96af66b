"""Predicate calls of kind PREEMPT: what is to end for an ask is asked about first."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.commands import NewAsk, PredicateResult
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefusal, PreemptionRefused
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from schedulerd.core.preemption.handlers import preemption as preemption_handlers
from schedulerd.core.preemption.rules import search as search_rules
from tests.unit.core.answering_rm import AnsweringRM
from tests.unit.core.builders import a_node, an_app, an_ask, of, only, placed
from tests.unit.core.preemption_builders import (
    a_daemon,
    an_entitled_ask,
    guaranteed_root,
    preempted,
    wait,
)

TIMES = Timeouts()
DELAY_NS = 30 * SECOND_NS


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
