"""What can happen while a check is open: no ask waits for ever, and none waits for a void check."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from schedulerd.core.language.commands import NodeAction, PredicateResult, StopCause
from schedulerd.core.language.facts.fact import AskWithdrawn, Fact, NodeRejected
from schedulerd.core.language.facts.predicates import PredicateNotWanted, PredicateWanted
from schedulerd.core.language.specs import SECOND_NS, ApplicationOrder, Timeouts
from tests.loops import each_row
from tests.unit.core.answering_rm import AnsweringRM, Refuses, outcomes
from tests.unit.core.builders import (
    a_node,
    a_partition_spec,
    a_queue_spec,
    a_root,
    an_app,
    an_ask,
    an_existing,
    of,
    only,
    placed,
)
from tests.unit.core.configurations import reload
from tests.unit.core.preemption_builders import finished

Happening: TypeAlias = Callable[[AnsweringRM], list[Fact]]


def an_open_check(count: int = 1, *, nodes: int = 1) -> AnsweringRM:
    """`a` has an open check on n1, and on others if it is for several."""
    talk = AnsweringRM()
    talk.begin(a_root(a_queue_spec("a", max={"memory": 100})))
    talk.nodes(*(a_node(f"n{number}", {"memory": 10}) for number in range(1, nodes + 1)))
    talk.apps(an_app())
    talk.withholds_answers = True
    talk.asks(an_ask("a", count=count))
    talk.schedule()
    assert talk.open_calls == min(count, nodes)
    return talk


def nothing_is_held(talk: AnsweringRM) -> bool:
    partition = talk.model()
    ledgers = [
        partition.root.quota_reserved,
        partition.root.predicate_reserved,
        *(node.reserved for node in partition.nodes.values()),
    ]
    return talk.open_calls == 0 and not any(ledgers)


GONE: dict[str, Happening] = {
    "the ask is released": lambda talk: talk.release_asks(allocation_key="a"),
    "the application is removed": lambda talk: talk.remove("app"),
    "the ask is updated": lambda talk: talk.asks(an_ask("a", 5)),
    "the node is removed": lambda talk: talk.nodes(a_node("n1", action=NodeAction.DECOMISSION)),
    "the resource manager is away": lambda talk: talk.disconnect(),
    "the callback stream is gone": lambda talk: talk.disconnect_callbacks(),
    "the callback stream is another one": lambda talk: talk.callbacks(),
    "the queue file is another one": lambda talk: reload(talk, a_root(a_queue_spec("a", max={"memory": 90}))),
}


@each_row("name", GONE)
def test_a_result_that_does_not_matter_any_longer_is_called_off(name: str) -> None:
    talk = an_open_check()
    call_id = talk.asked[0].call_id
    facts = GONE[name](talk)
    assert only(PredicateNotWanted, facts).call_id == call_id
    assert outcomes(facts) == [("a", "n1", "void")]
    assert nothing_is_held(talk)
    assert placed(talk.give(PredicateResult(call_id))) == []


@pytest.mark.parametrize("name", ["the callback stream is another one", "the queue file is another one"])
def test_the_ask_is_asked_about_anew(name: str) -> None:
    talk = an_open_check()
    GONE[name](talk)
    talk.schedule()
    assert talk.take_asked() == [("a", "n1")] * 2
    assert talk.open_calls == 1


def test_asks_go_back_to_their_lines_before_another_order_holds_there() -> None:
    talk = an_open_check()
    talk.apps(an_app("other"), an_app("third"))
    talk.asks(an_ask("b", 20, app="other"), an_ask("c", 30, app="third"))
    facts = reload(talk, a_root(a_queue_spec("a", order=ApplicationOrder.FAIR)))
    assert outcomes(facts) == [("a", "n1", "void")]
    talk.schedule()
    assert talk.take_asked() == [("a", "n1")] * 2


def test_room_that_another_queue_file_frees_is_for_refused_asks_too() -> None:
    talk = AnsweringRM(Refuses(("a", "n1")))
    talk.begin()
    talk.nodes(a_node("n2", {"memory": 20}))
    talk.apps(an_app())
    talk.asks(an_ask("x"))
    talk.schedule()
    talk.withholds_answers = True
    talk.asks(an_ask("b"))
    talk.schedule()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.withholds_answers = False
    talk.asks(an_ask("a", 20))
    talk.schedule()
    assert [ask.key for _, ask in talk.model().refused_asks] == ["a"]
    finished(talk, "x")
    reload(talk, a_root(a_queue_spec("a", order=ApplicationOrder.FAIR)))
    assert not talk.model().refused_asks


def test_without_the_stream_it_is_placed_on_what_the_core_knows() -> None:
    talk = an_open_check()
    talk.disconnect_callbacks()
    assert placed(talk.schedule()) == [("app", "a", "n1")]


def test_without_the_stream_refused_asks_are_placed_too_and_checked_again_when_it_is_back() -> None:
    talk = an_open_check()
    talk.refusal_of = Refuses(("a", "n1"), ("b", "n2"))
    talk.withholds_answers = False
    talk.answer(*talk.asked)
    talk.schedule()
    assert talk.model().refused_asks
    talk.disconnect_callbacks()
    assert not talk.model().refused_asks
    assert placed(talk.schedule()) == [("app", "a", "n1")]
    talk.callbacks()
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.asks(an_ask("b"))
    assert placed(talk.schedule()) == []
    assert ("b", "n2") in talk.take_asked()


def test_a_resource_manager_that_is_back_is_asked_again() -> None:
    talk = an_open_check()
    talk.disconnect()
    talk.schedule()
    assert len(talk.take_asked()) == 1, "nothing is asked while it is away"
    talk.connect()
    talk.withholds_answers = False
    assert placed(talk.schedule()) == [("app", "a", "n1")]


@pytest.mark.parametrize("end", ["stop", "register"])
def test_nothing_rings_for_a_resource_manager_that_is_gone_or_new(end: str) -> None:
    talk = an_open_check(nodes=2, count=2)
    talk.answer(talk.asked[0])
    if end == "stop":
        talk.stop(StopCause.UNREGISTERED)
    else:
        talk.register(a_partition_spec())
        assert talk.open_calls == 0
    assert of(PredicateNotWanted, talk.sleep(10 * SECOND_NS)) == []


def test_after_registering_again_no_check_begins_until_the_stream_is_open_again() -> None:
    talk = an_open_check()
    talk.register(a_partition_spec())
    talk.connect()
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.apps(an_app())
    talk.asks(an_ask("a"))
    assert placed(talk.schedule()) == [("app", "a", "n1")]


def test_only_as_many_are_called_off_as_are_not_wanted_any_longer() -> None:
    talk = an_open_check(count=3, nodes=3)
    facts = talk.asks(an_ask("a", count=2))
    assert len(of(AskWithdrawn, facts)) == 1
    talk.withholds_answers = False
    talk.schedule()
    assert len(talk.app().allocations) == 2
    assert nothing_is_held(talk)


JUDGED_AGAIN: dict[str, Happening] = {
    "the node is drained": lambda talk: talk.nodes(a_node("n1", action=NodeAction.DRAIN_NODE)),
    "the node is smaller": lambda talk: talk.nodes(a_node("n1", {"memory": 9}, action=NodeAction.UPDATE)),
    "the node is not ready": lambda talk: talk.nodes(
        a_node("n1", action=NodeAction.UPDATE, attributes={"ready": "false"})
    ),
}


@pytest.mark.parametrize("name", JUDGED_AGAIN)
def test_a_result_is_judged_by_the_state_that_it_comes_to(name: str) -> None:
    talk = an_open_check()
    JUDGED_AGAIN[name](talk)
    assert placed(talk.give(PredicateResult(talk.asked[0].call_id))) == []
    assert nothing_is_held(talk)
    talk.nodes(a_node("n2", {"memory": 10}))
    talk.withholds_answers = False
    assert placed(talk.schedule()) == [("app", "a", "n2")], "it goes on waiting like any other"


def test_a_quota_that_was_lowered_meanwhile_holds() -> None:
    talk = an_open_check()
    reload(talk, a_root(a_queue_spec("a", max={"memory": 5})))
    talk.withholds_answers = False
    assert placed(talk.schedule()) == []
    assert nothing_is_held(talk)


def test_an_ask_with_two_checks_is_placed_once_if_only_one_is_wanted_then() -> None:
    talk = an_open_check(count=2, nodes=2)
    first, second = talk.asked
    assert len(placed(talk.give(PredicateResult(first.call_id)))) == 1
    talk.asks(an_ask("a", count=1))
    assert placed(talk.give(PredicateResult(second.call_id))) == []
    assert len(talk.app().allocations) == 1
    assert nothing_is_held(talk)


def test_an_application_with_a_check_for_each_ask_has_work() -> None:
    talk = an_open_check()
    talk.sleep(Timeouts().predicates_ns - 1)
    assert talk.app().state == "Accepted"
    assert talk.app().pending == {"memory": 10}


def test_an_rm_that_never_answers_is_asked_again_and_again() -> None:
    talk = an_open_check()
    for _ in range(5):
        talk.sleep(Timeouts().predicates_ns)
        talk.schedule()
        talk.sleep(Timeouts().predicate_retry_delay_ns)
        talk.schedule()
    assert talk.take_asked() == [("a", "n1")] * 6
    assert of(PredicateWanted, talk.schedule()) == []


def test_a_rejected_node_leaves_open_checks_alone() -> None:
    talk = an_open_check(2, nodes=2)
    open_calls = talk.open_calls
    facts = talk.nodes(a_node("n3", {"memory": 10}, an_existing("e1", "a"), an_existing("e2", "a", memory=-1)))
    assert [type(fact) for fact in facts] == [NodeRejected]
    assert talk.open_calls == open_calls
    assert of(PredicateWanted, talk.schedule()) == []
