"""What a resource manager with a say costs, counted and not timed: it must not grow with what is pending."""

from __future__ import annotations

import pytest

from schedulerd.core.language.commands import GivePredicateResults, PredicateResult, RunCycle
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.predicates import PredicateWanted
from tests.unit.core.answering_rm import AnsweringRM
from tests.unit.core.builders import a_node, an_app, an_ask, of, placed
from tests.unit.core.test_work import calls_during

ROUND = 50
"""How many asks are tried in a cycle."""


class Bare(AnsweringRM):
    """Without the recount after each step, which is not what is counted."""

    def step(self, command: object) -> list[Fact]:
        facts: list[Fact] = self.scheduler.step(self.now_ns, command)  # type: ignore[arg-type]
        return facts


def a_crowd(asks: int, nodes: int = 20, memory: int = 10_000) -> Bare:
    talk = Bare()
    talk.begin()
    talk.nodes(*(a_node(f"n{number:03}", {"memory": memory}) for number in range(nodes)))
    talk.apps(an_app())
    talk.asks(*(an_ask(f"k{number}", 1) for number in range(asks)))
    return talk


def a_round(talk: Bare, refusal: str = "") -> int:
    """A cycle and its results. Returns how many functions were called."""
    made: list[Fact] = []

    def work() -> None:
        facts = talk.step(RunCycle(ROUND))
        results = [PredicateResult(one.call_id, refusal) for one in of(PredicateWanted, facts)]
        made.extend(talk.step(GivePredicateResults(talk.rm_id, results)))

    calls = calls_during(work)
    assert len(placed(made)) == (0 if refusal else ROUND)
    return calls


def test_a_placement_with_a_predicate_result_costs_the_same_whatever_waits() -> None:
    def calls(asks: int) -> int:
        talk = a_crowd(asks)
        a_round(talk)
        return a_round(talk)

    assert calls(8_000) <= 1.05 * calls(500)


def test_a_refusal_costs_the_same_whatever_waits() -> None:
    def calls(asks: int) -> int:
        talk = a_crowd(asks)
        a_round(talk, "tainted")
        return a_round(talk, "tainted")

    assert calls(8_000) <= 1.05 * calls(500)


@pytest.mark.parametrize("refused_asks", [50, 800])
def test_room_that_comes_calls_back_as_many_refused_asks_as_fit(refused_asks: int) -> None:
    talk = AnsweringRM(lambda one: "tainted" if one.node_id == "n000" else "")
    talk.begin()
    talk.nodes(a_node("n000", {"memory": 1_000}))
    talk.apps(an_app())
    talk.asks(*(an_ask(f"k{number}", 1) for number in range(refused_asks)))
    talk.schedule()
    assert len(talk.take_asked()) == refused_asks
    talk.nodes(a_node("n001", {"memory": 3}))
    assert len(placed(talk.schedule())) == 3
    assert len(talk.take_asked()) == 3, "nobody else is looked at"


def test_a_cycle_that_finds_all_calls_open_is_over_at_once() -> None:
    talk = a_crowd(2_000)
    assert len(of(PredicateWanted, talk.step(RunCycle(5_000)))) == 1_000
    assert not talk.scheduler.wants_cycle()
    assert calls_during(lambda: talk.scheduler.step(talk.now_ns, RunCycle(5_000))) < 60
