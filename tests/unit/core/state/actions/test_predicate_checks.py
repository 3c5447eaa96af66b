"""An ask waits for a result: it holds its room, others go on; a refusal is of one ask on one node (SEMANTICS B4)."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import NodeAction, PredicateResult
from schedulerd.core.language.facts.fact import Allocated, ItemIgnored
from schedulerd.core.language.facts.predicates import (
    PredicateAnswered,
    PredicateNotWanted,
    PredicateOutcome,
    PredicateWanted,
)
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from schedulerd.core.state.model import callbacks, refused_asks
from tests.unit.core.answering_rm import AnsweringRM, Refuses, Wanted, outcomes
from tests.unit.core.builders import a_node, a_queue_spec, a_root, an_app, an_ask, of, only, placed

TIMES = Timeouts()


def a_talk(*nodes: str, refuses: Refuses | None = None, memory: int = 20, silent: bool = False) -> AnsweringRM:
    talk = AnsweringRM(refuses)
    talk.begin()
    talk.nodes(*(a_node(name, {"memory": memory}) for name in nodes))
    talk.apps(an_app())
    talk.withholds_answers = silent
    return talk


def test_without_a_callback_stream_no_check_begins() -> None:
    talk = AnsweringRM()
    talk.begin(predicates=False)
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.apps(an_app())
    talk.asks(an_ask("a"))
    assert placed(talk.schedule()) == [("app", "a", "n1")]
    assert talk.asked == []


def test_an_ask_is_placed_when_the_resource_manager_agrees_and_not_before() -> None:
    talk = a_talk("n1", silent=True)
    talk.asks(an_ask("a"))
    facts = talk.schedule()
    wanted = only(PredicateWanted, facts)
    assert (wanted.allocation_key, wanted.node_id, wanted.allocate) == ("a", "n1", True)
    assert placed(facts) == []
    assert not talk.scheduler.wants_cycle(), "nothing is to be done until there is a result"
    assert placed(talk.give(PredicateResult(wanted.call_id))) == [("app", "a", "n1")]
    assert talk.open_calls == 0


def test_the_room_is_held_meanwhile_and_counts_against_the_quota() -> None:
    talk = AnsweringRM()
    talk.begin(a_root(a_queue_spec("a", max={"memory": 30})))
    talk.nodes(a_node("n1", {"memory": 20}), a_node("n2", {"memory": 40}))
    talk.apps(an_app())
    talk.withholds_answers = True
    talk.asks(an_ask("a", 20))
    talk.schedule()
    assert talk.queue().quota_reserved == {"memory": 20}
    assert talk.queue().allocated == {}
    assert talk.node("n1").reserved == {"memory": 20}
    talk.asks(an_ask("b", 20), an_ask("c", 10))
    talk.schedule()
    assert talk.take_asked() == [("a", "n1"), ("c", "n2")], "b is more than the quota, which a and c have between them"
    assert "reserved for others" in talk.app().asks[1].waiting_for


def test_others_go_on_in_the_same_cycle_on_other_nodes() -> None:
    talk = a_talk("n1", "n2", memory=10, silent=True)
    talk.asks(an_ask("a"), an_ask("b"), an_ask("c"))
    talk.schedule()
    assert talk.take_asked() == [("a", "n1"), ("b", "n2")]


def test_an_ask_for_several_is_tried_several_times_at_once() -> None:
    talk = a_talk("n1", "n2", memory=20, silent=True)
    talk.asks(an_ask("a", count=3))
    talk.schedule()
    assert len(talk.asked) == 3
    talk.withholds_answers = False
    assert [key for _, key, _ in placed(talk.answer(*talk.asked))] == ["a"] * 3


def test_one_refused_of_several_is_tried_elsewhere_while_the_others_stay() -> None:
    talk = a_talk("n1", "n2", memory=20, silent=True, refuses=Refuses(("a", "n1")))
    talk.asks(an_ask("a", count=3))
    talk.schedule()
    assert sorted(talk.take_asked()) == [("a", "n1"), ("a", "n1"), ("a", "n2")]
    talk.withholds_answers = False
    calls = talk.model().callbacks.open_predicate_checks
    facts = talk.give(
        *(
            PredicateResult(one, "tainted" if predicate_check.node.node_id == "n1" else "")
            for one, predicate_check in calls.items()
        )
    )
    assert placed(facts) == [("app", "a", "n2")]
    assert placed(talk.schedule()) == [("app", "a", "n2")]
    assert talk.app().asks[0].pending == 1


def test_a_refusal_says_nothing_about_an_ask_that_is_alike() -> None:
    talk = a_talk("n1", refuses=Refuses(("a", "n1")))
    talk.asks(an_ask("a"), an_ask("b"))
    assert placed(talk.schedule()) == [("app", "b", "n1")]


def test_the_next_node_is_tried_and_none_twice() -> None:
    talk = a_talk("n1", "n2", "n3", refuses=Refuses(("a", "n1"), ("a", "n2"), ("a", "n3")))
    talk.asks(an_ask("a"))
    assert placed(talk.schedule()) == []
    assert talk.take_asked() == [("a", "n1"), ("a", "n2"), ("a", "n3")]
    assert not talk.scheduler.wants_cycle()


def refused_everywhere() -> AnsweringRM:
    """`a` was refused on n1, and on n2, where `other` runs."""
    talk = a_talk("n1", "n2", refuses=Refuses(("a", "n1"), ("a", "n2")))
    talk.asks(an_ask("a"), an_ask("other"))
    assert [node for _, _, node in placed(talk.schedule())] == ["n2"]
    talk.take_asked()
    return talk


@pytest.mark.parametrize("change", ["room", "attributes", "anew", "reopened"])
def test_a_node_that_changes_is_asked_about_again_and_no_other(change: str) -> None:
    talk = refused_everywhere()
    if change == "room":
        talk.release(uuid=talk.app().allocations[0].uuid)
    elif change == "attributes":
        talk.nodes(a_node("n2", action=NodeAction.UPDATE, attributes={"zone": "b"}))
    elif change == "anew":
        talk.nodes(a_node("n2", action=NodeAction.DECOMISSION))
        talk.nodes(a_node("n2", {"memory": 20}))
    else:
        talk.nodes(a_node("n2", action=NodeAction.DRAIN_NODE))
        talk.nodes(a_node("n2", action=NodeAction.DRAIN_TO_SCHEDULABLE))
    talk.schedule()
    assert ("a", "n2") in talk.asked_pairs
    assert ("a", "n1") not in talk.asked_pairs


def test_after_a_while_every_node_is_asked_about_again() -> None:
    talk = refused_everywhere()
    talk.sleep(TIMES.predicate_retry_delay_ns - 1)
    talk.schedule()
    assert talk.take_asked() == []
    talk.refusal_of = Refuses()
    talk.sleep(1)
    assert placed(talk.schedule()) == [("app", "a", "n1")]


def test_no_result_in_time_is_a_refusal_with_that_reason() -> None:
    talk = a_talk("n1", silent=True)
    talk.asks(an_ask("a"))
    talk.schedule()
    facts = talk.sleep(TIMES.predicates_ns)
    reached = only(PredicateAnswered, facts)
    assert (reached.outcome, reached.reason) == (PredicateOutcome.TIMED_OUT, "no result within 5 s")
    assert reached.waited_ns == TIMES.predicates_ns
    assert only(PredicateNotWanted, facts).call_id == reached.call_id
    talk.schedule()
    assert talk.app().asks[0].waiting_for.endswith("no result within 5 s (node n1)")
    late = talk.give(PredicateResult(reached.call_id))
    assert (of(Allocated, late), only(ItemIgnored, late).object_id) == ([], str(reached.call_id))


@pytest.mark.parametrize("first", ["", "tainted"])
def test_of_two_answers_the_first_counts(first: str) -> None:
    talk = a_talk("n1", silent=True)
    talk.asks(an_ask("a"))
    call_id = only(PredicateWanted, talk.schedule()).call_id
    facts = talk.give(PredicateResult(call_id, first), PredicateResult(call_id, "" if first else "tainted"))
    assert bool(placed(facts)) == (not first)
    assert outcomes(facts) == [("a", "n1", "refused" if first else "agreed")]
    assert len(of(ItemIgnored, facts)) == 1


def test_an_answer_to_nothing_is_ignored_and_the_rest_is_taken() -> None:
    talk = a_talk("n1", silent=True)
    talk.asks(an_ask("a"))
    call_id = only(PredicateWanted, talk.schedule()).call_id
    facts = talk.give(PredicateResult(999), PredicateResult(call_id))
    assert only(ItemIgnored, facts).reason.startswith("callID 999 is not open")
    assert placed(facts) == [("app", "a", "n1")]


def test_no_more_calls_are_open_than_allowed_and_others_wait_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callbacks, "OPEN_MAX", 3)
    talk = a_talk("n1", memory=100, silent=True)
    talk.asks(*(an_ask(f"a{number}") for number in range(5)))
    talk.schedule()
    assert talk.open_calls == 3
    assert not talk.scheduler.wants_cycle()
    talk.answer(*talk.asked)
    assert talk.scheduler.wants_cycle()
    talk.schedule()
    assert talk.open_calls == 2


def test_an_ask_awaits_the_room_of_an_open_check_if_no_other_node_is_left() -> None:
    talk = a_talk("n1", refuses=Refuses(("a", "n1")))
    talk.asks(an_ask("a", 20))
    talk.schedule()
    talk.withholds_answers = True
    talk.nodes(a_node("n2", {"memory": 20}))
    talk.asks(an_ask("first", 20, priority=1))
    talk.schedule()
    held_by = [one.ask.key for one in talk.model().callbacks.open_predicate_checks.values() if one.node.node_id == "n2"]
    talk.withholds_answers = False
    for predicate_check in list(talk.model().callbacks.open_predicate_checks.values()):
        talk.give(PredicateResult(predicate_check.call_id, "tainted"))
    facts = talk.schedule()
    other = {"a": "first", "first": "a"}[held_by[0]]
    assert ("app", other, "n2") in placed(facts), "the room came free when the other was refused there"


def test_an_ask_waits_for_the_room_of_several_together() -> None:
    talk = a_talk("n2", silent=True)
    talk.asks(an_ask("b"), an_ask("c"))
    talk.schedule()
    talk.nodes(a_node("n1", {"memory": 20}))
    talk.asks(an_ask("a", 20))
    talk.schedule()
    b, c, a = talk.asked
    assert (a.allocation_key, a.node_id) == ("a", "n1")
    talk.give(PredicateResult(a.call_id, "tainted"))
    talk.schedule()
    talk.take_asked()
    talk.give(PredicateResult(b.call_id, "tainted"), PredicateResult(c.call_id, "tainted"))
    talk.schedule()
    assert ("a", "n2") in talk.take_asked()


def test_an_ask_awaits_no_open_check_when_there_is_room_nor_one_on_a_node_that_refused_it() -> None:
    talk, _, c = a_talk_of_waiting_asks()
    talk.answer(c)
    talk.schedule()
    assert ("w", "n2") in talk.take_asked()


def test_so_many_waiting_asks_are_visited_and_the_rest_when_their_check_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("schedulerd.core.state.model.refused_asks.AWAITING_MAX", 0)
    talk, b, c = a_talk_of_waiting_asks()
    talk.answer(c)
    talk.schedule()
    assert ("w", "n2") not in talk.take_asked()
    talk.answer(b)
    talk.schedule()
    assert ("w", "n2") in talk.take_asked()


def a_talk_of_waiting_asks() -> tuple[AnsweringRM, Wanted, Wanted]:
    """`refused` rests, as it may run nowhere; `w` waits for the first of the predicate checks on n2, which has room
    for two."""
    talk = a_talk("n2", silent=True)
    talk.refusal_of = Refuses(("refused", "n1"), ("refused", "n2"), ("w", "n1"), ("c", "n2"))
    talk.asks(an_ask("refused"))
    talk.schedule()
    talk.answer(*talk.asked)
    talk.asks(an_ask("b"), an_ask("c"))
    talk.schedule()
    b, c = talk.asked[-2:]
    talk.nodes(a_node("n1", {"memory": 10}))
    talk.schedule()
    talk.answer(talk.asked[-1])
    talk.asks(an_ask("w"))
    talk.schedule()
    talk.answer(talk.asked[-1])
    talk.schedule()
    assert talk.take_asked()[-2:] == [("refused", "n1"), ("w", "n1")]
    assert len(list(talk.model().refused_asks)) == 2
    return talk, b, c


def test_so_many_refusals_are_remembered_and_not_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.core.state.actions.predicate_checks.REMEMBERED_MAX", 2)
    assert refused_asks.REMEMBERED_MAX > 2
    names = [f"n{number}" for number in range(5)]
    talk = a_talk(*names, refuses=Refuses(*(("a", name) for name in names)))
    talk.asks(an_ask("a"))
    talk.schedule()
    assert len(talk.take_asked()) == 3, "it rests before all nodes were asked about"
    assert talk.model().refused_asks.remembered == 0
    talk.refusal_of = Refuses()
    talk.sleep(TIMES.predicate_retry_delay_ns)
    assert placed(talk.schedule()) == [("app", "a", "n0")]


def test_resting_asks_are_called_back_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.core.state.actions.predicate_checks.CALLED_BACK_MAX", 2)
    keys = [f"a{number}" for number in range(5)]
    talk = a_talk("n1", memory=100, refuses=Refuses(*((key, "n1") for key in keys)))
    talk.asks(*(an_ask(key) for key in keys))
    talk.schedule()
    talk.take_asked()
    talk.refusal_of = Refuses()
    talk.sleep(TIMES.predicate_retry_delay_ns)
    assert len(placed(talk.schedule())) == 2
    talk.sleep(SECOND_NS)
    assert len(placed(talk.schedule())) == 2
    talk.sleep(SECOND_NS)
    assert len(placed(talk.schedule())) == 1


def test_of_refused_asks_the_highest_priority_gets_new_room_first() -> None:
    talk = a_talk("n1", refuses=Refuses(("low", "n1"), ("high", "n1")))
    talk.asks(an_ask("low", 20))
    talk.schedule()
    talk.asks(an_ask("high", 20, priority=1))
    talk.schedule()
    talk.nodes(a_node("n2", {"memory": 20}))
    assert placed(talk.schedule()) == [("app", "high", "n2")]


def test_queues_share_what_open_checks_hold_as_if_it_were_placed() -> None:
    talk = AnsweringRM()
    talk.begin(a_root(a_queue_spec("a"), a_queue_spec("b")))
    talk.nodes(a_node("n1", {"memory": 40}))
    talk.apps(an_app("one", "root.a"), an_app("two", "root.b"))
    talk.withholds_answers = True
    talk.asks(an_ask("a", count=4, app="one"), an_ask("b", count=4, app="two"))
    talk.schedule()
    assert sorted(key for key, _ in talk.take_asked()) == ["a", "a", "b", "b"]


def test_people_see_what_an_ask_waits_for() -> None:
    talk = a_talk("n1", silent=True)
    talk.asks(an_ask("a"))
    talk.schedule()
    [ask] = talk.app().asks
    assert ask.waiting_for == "it waits for the answer of its resource manager about node n1"
    [predicate_check] = ask.predicate_checks
    assert (predicate_check.node_id, predicate_check.purpose, predicate_check.since_ns) == (
        "n1",
        "allocate",
        talk.now_ns,
    )


def test_the_refusal_of_the_node_as_it_is_holds_also_if_an_older_question_is_answered_later() -> None:
    talk = a_talk("n1", memory=10, silent=True)
    talk.asks(an_ask("a", count=2))
    talk.schedule()
    talk.nodes(a_node("n1", {"memory": 30}, action=NodeAction.UPDATE))
    talk.schedule()
    older, newer = talk.asked
    talk.give(PredicateResult(newer.call_id, "tainted"))
    talk.give(PredicateResult(older.call_id, "tainted"))
    talk.take_asked()
    talk.schedule()
    assert talk.take_asked() == []
