"""Asks that the resource manager is not asked about although it has callbacks (SEMANTICS I18)."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.language.ask_tags import NO_PREDICATES, PREDICATES_TAG, PREEMPTION_PREDICATES
from schedulerd.core.language.commands import NewAsk
from schedulerd.core.language.facts.fact import AskRejected, ReleaseRequested
from schedulerd.core.language.facts.predicates import PredicateWanted, PreemptionPredicateWanted
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.state.partition import REQUIRED_NODE_TAG
from tests.unit.core.answering_rm import AnsweringRM, Refusal, Refuses, Wanted
from tests.unit.core.builders import (
    a_node,
    a_placeholder,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    of,
    only,
    placed,
)


def unasked(key: str = "k", memory: int = 10, *, tags: dict[str, str] | None = None, **fields: Any) -> NewAsk:
    return an_ask(key, memory, tags={PREDICATES_TAG: NO_PREDICATES, **(tags or {})}, **fields)


def everything(wanted: Wanted) -> str:
    return "never"


def a_talk(*memory: int, silent: bool = False) -> AnsweringRM:
    """Everything that it is asked about is refused, or not answered."""
    talk = AnsweringRM(everything)
    talk.begin()
    talk.nodes(*(a_node(f"n{at}", {"memory": one}) for at, one in enumerate(memory, start=1)))
    talk.apps(an_app())
    talk.withholds_answers = silent
    return talk


def test_it_is_placed_at_once() -> None:
    talk = a_talk(20)
    talk.asks(unasked("a"))
    assert placed(talk.schedule()) == [("app", "a", "n1")]
    assert talk.asked == []


def test_others_of_its_size_are_asked_about_and_neither_hinders_the_other() -> None:
    talk = a_talk(30)
    talk.asks(an_ask("asked"), unasked("a"), an_ask("asked too"), unasked("b"))
    assert placed(talk.schedule()) == [("app", "a", "n1"), ("app", "b", "n1")]
    assert talk.take_asked() == [("asked", "n1"), ("asked too", "n1")]
    assert {ask.allocation_key for ask in talk.app().asks if ask.pending} == {"asked", "asked too"}


def test_one_that_waits_for_a_room_is_placed_when_a_check_that_holds_it_ends() -> None:
    talk = a_talk(10, silent=True)
    talk.asks(an_ask("asked"))
    talk.schedule()
    talk.asks(unasked("a"))
    assert placed(talk.schedule()) == []
    talk.answer(*talk.asked)
    assert placed(talk.schedule()) == [("app", "a", "n1")]


def test_an_update_without_the_tag_is_asked_about() -> None:
    talk = a_talk(5)
    talk.asks(unasked("a"))
    assert placed(talk.schedule()) == []
    talk.asks(an_ask("a"))
    talk.nodes(a_node("n2", {"memory": 20}))
    assert placed(talk.schedule()) == []
    assert talk.take_asked() == [("a", "n2")]


def test_an_update_with_the_tag_is_asked_about_no_longer() -> None:
    talk = a_talk(10, silent=True)
    talk.asks(an_ask("a"))
    talk.schedule()
    talk.asks(unasked("a"))
    assert talk.open_calls == 0
    assert placed(talk.schedule()) == [("app", "a", "n1")]
    assert len(talk.asked) == 1


def test_an_update_with_the_tag_of_one_that_was_refused() -> None:
    talk = a_talk(10)
    talk.asks(an_ask("a"))
    assert placed(talk.schedule()) == []
    talk.asks(unasked("a"))
    assert placed(talk.schedule()) == [("app", "a", "n1")]


def test_room_is_reserved_for_it_and_taken_without_a_call() -> None:
    talk = a_talk(20)
    talk.apps(an_app("other"))
    talk.asks(unasked("small", 5, app="other"))
    talk.schedule()
    talk.asks(unasked("large", 20))
    talk.schedule()
    talk.sleep(talk.scheduler.cluster.timeouts.reservation_delay_ns)
    talk.schedule()
    assert [one.ask.key for one in talk.model().reservations] == ["large"]
    talk.release(application_id="other", allocation_key="small")
    assert placed(talk.schedule()) == [("app", "large", "n1")]
    assert talk.asked == []


def test_a_placeholder_is_replaced_without_a_call() -> None:
    talk = a_talk(20)
    tags = {PREDICATES_TAG: NO_PREDICATES}
    talk.asks(a_placeholder("p", tags=tags))
    talk.schedule()
    talk.asks(unasked("real", task_group="group"))
    asked = only(ReleaseRequested, talk.schedule())
    assert asked.allocation_key == "p"
    assert placed(talk.release(uuid=asked.uuid, termination=asked.termination)) == [("app", "real", "n1")]
    assert talk.asked == []


def test_it_takes_a_placeholder_that_no_other_ask_is_tried_for() -> None:
    talk = a_talk(20, silent=True)
    tags = {PREDICATES_TAG: NO_PREDICATES}
    talk.asks(a_placeholder("p", tags=tags), a_placeholder("q", tags=tags))
    talk.schedule()
    talk.asks(an_ask("asked", task_group="group"), unasked("real", task_group="group"))
    asked = only(ReleaseRequested, talk.schedule())
    (call,) = of(PredicateWanted, talk.asked)
    open_check = talk.model().callbacks.open_predicate_checks[call.call_id]
    assert open_check.placeholder is not None
    assert open_check.placeholder.uuid != asked.uuid


def test_allocations_are_preempted_for_it_without_a_call() -> None:
    talk = AnsweringRM(everything)
    talk.begin(a_root(a_queue_spec("a", guaranteed={"memory": 10}), a_queue_spec("b")))
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.apps(an_app("victim", "root.b"), an_app())
    talk.asks(unasked("v", app="victim"))
    talk.schedule()
    talk.asks(unasked("a", allow_preempt_other=True))
    talk.schedule()
    talk.sleep(60 * SECOND_NS)
    facts = talk.schedule()
    assert [one.allocation_key for one in of(ReleaseRequested, facts)] == ["v"]
    assert of(PreemptionPredicateWanted, talk.asked) == []
    assert talk.asked == []


def test_allocations_are_preempted_on_its_required_node_without_a_call() -> None:
    talk = AnsweringRM(everything)
    talk.begin(a_root(a_queue_spec("a"), a_queue_spec("b")))
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.apps(an_app("victim", "root.b"), an_app())
    talk.asks(unasked("v", app="victim"))
    talk.schedule()
    talk.asks(unasked("daemon", tags={REQUIRED_NODE_TAG: "n1"}))
    facts = talk.schedule() + talk.schedule()
    assert [one.allocation_key for one in of(ReleaseRequested, facts)] == ["v"]
    assert talk.asked == []


def checked(key: str, memory: int = 10, **fields: Any) -> NewAsk:
    """Only the victims of the ask are asked about."""
    return an_ask(key, memory, tags={PREDICATES_TAG: PREEMPTION_PREDICATES}, **fields)


def with_a_victim(refusal: Refusal) -> AnsweringRM:
    """The only node is full with `v`, and `a` may preempt it."""
    talk = AnsweringRM(refusal)
    talk.begin(a_root(a_queue_spec("a", guaranteed={"memory": 10}), a_queue_spec("b")))
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.apps(an_app("victim", "root.b"), an_app())
    talk.asks(checked("v", app="victim"))
    assert placed(talk.schedule()) == [("victim", "v", "n1")]
    assert talk.asked == [], "it is placed without a call"
    talk.asks(checked("a", allow_preempt_other=True))
    talk.schedule()
    talk.sleep(60 * SECOND_NS)
    return talk


def test_one_whose_victims_are_asked_about_takes_their_room_without_another_call() -> None:
    talk = with_a_victim(lambda wanted: "")
    asked = only(ReleaseRequested, talk.schedule())
    assert asked.allocation_key == "v"
    (wanted,) = of(PreemptionPredicateWanted, talk.asked)
    assert (wanted.allocation_key, wanted.victim_keys) == ("a", ("v",))
    talk.release(application_id="victim", uuid=asked.uuid, termination=asked.termination)
    assert placed(talk.schedule()) == [("app", "a", "n1")]
    assert talk.asked == [wanted]


def test_one_whose_victims_may_not_go_waits_and_is_tried_again() -> None:
    refuses = True
    talk = with_a_victim(lambda wanted: "a disruption budget" if refuses else "")
    assert of(ReleaseRequested, talk.schedule()) == []
    assert len(of(PreemptionPredicateWanted, talk.asked)) == 1
    refuses = False
    talk.sleep(talk.scheduler.cluster.timeouts.preemption_attempt_ns)
    assert [one.allocation_key for one in of(ReleaseRequested, talk.schedule())] == ["v"]


def test_an_update_that_changes_the_calls_ends_the_open_ones() -> None:
    talk = with_a_victim(lambda wanted: "")
    talk.withholds_answers = True
    talk.schedule()
    assert talk.open_calls == 1
    talk.asks(unasked("a", allow_preempt_other=True))
    assert talk.open_calls == 0
    assert [one.allocation_key for one in of(ReleaseRequested, talk.schedule())] == ["v"]
    assert len(talk.asked) == 1


@pytest.mark.parametrize("value", ["", "None", "all", "x" * 200])
def test_another_value_is_rejected(value: str) -> None:
    talk = a_talk(10)
    rejected = only(AskRejected, talk.asks(an_ask("a", tags={PREDICATES_TAG: value})))
    assert rejected.code.value == "invalid_field"
    assert rejected.reason.startswith(f"tags[{PREDICATES_TAG}] is '{value[:80]}'")
    assert rejected.reason.endswith("it must be 'none' or 'preemption', or not be there")


def test_without_callbacks_the_tag_changes_nothing() -> None:
    talk = AnsweringRM(Refuses())
    talk.begin(predicates=False, preemption=False)
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app())
    talk.asks(unasked("a"), an_ask("b"))
    assert placed(talk.schedule()) == [("app", "a", "n1"), ("app", "b", "n1")]
