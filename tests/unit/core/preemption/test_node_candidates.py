"""The order of nodes against what is really best on each: nothing better comes of a promise, and none is forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.resources import Resources
from schedulerd.core.preemption.rules.node_candidates import PORTION, Admits, NodeCandidate, NodeCandidates
from schedulerd.core.preemption.rules.victims import VictimSet, candidate, rank_of, smallest_set
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.work_budget import WorkBudget
from schedulerd.core.state.pending.request_class import RequestClasses
from tests.unit.core.builders import a_conversation, a_model_node, a_partition_spec, an_ask

UNIT = {"memory": 10, "vcore": 7}
SPEC = a_partition_spec()
CLASSES = RequestClasses()
amounts = st.integers(0, 4)
sizes = st.tuples(amounts, amounts).filter(any)
pods = st.tuples(sizes, st.integers(0, 2), st.booleans())
nodes_with_pods = st.lists(st.tuples(sizes, st.lists(pods, max_size=6)), min_size=1, max_size=6)


def resources(size: tuple[int, int]) -> Resources:
    return Resources({name: amount for name, amount in zip(("memory", "vcore"), size, strict=True) if amount})


def run(
    application: Application, node: Node, key: str, size: tuple[int, int], priority: int = 0, originator: bool = False
) -> Allocation:
    spec = an_ask(key, resources=resources(size), priority=priority, originator=originator)
    request_class = CLASSES.of(spec.resources)
    allocation = Allocation(key, application, Ask(spec, request_class, 0, 0), node, spec, request_class)
    node.allocations[key] = allocation
    return allocation


def add(node_candidates: NodeCandidates, running: Sequence[Allocation], admits: Admits = lambda _: True) -> None:
    for one in running:
        assert one.application.queue is not None
        node_candidates.add(one.application.queue, [one], admits)


def an_application() -> Application:
    return a_conversation().model().applications["app"]


def place_of(node_candidate: NodeCandidate) -> tuple[object, ...]:
    return node_candidate.cost, node_candidate.node.score, node_candidate.node.node_id


@given(nodes_with_pods)
def test_each_node_comes_in_the_order_of_its_lowest_cost(
    layout: Sequence[tuple[tuple[int, int], Sequence[tuple[tuple[int, int], int, bool]]]],
) -> None:
    application = an_application()
    node_candidates = NodeCandidates(SPEC, UNIT, WorkBudget())
    needs: dict[Node, Resources] = {}
    for at, (need, running) in enumerate(layout):
        node = a_model_node(f"n{at}", {})
        needs[node] = resources(need)
        node_candidates.consider(node, needs[node])
        made = [run(application, node, f"{at}-{number}", *pod) for number, pod in enumerate(running)]
        add(node_candidates, made)
    promised: dict[Node, tuple[NodeCandidate, int]] = {}
    seen = []
    for node_candidate in node_candidates.in_order():
        if node_candidate is not None:
            seen.append(place_of(node_candidate))
            fewest = node_candidates.fewest(node_candidate)
            if fewest:
                promised.setdefault(node_candidate.node, (node_candidate, fewest))
    assert seen == sorted(seen)
    for node, lacking in needs.items():
        best = best_on(node, lacking)
        assert (best is not None) is (node in promised)
        if best is not None:
            node_candidate, fewest = promised[node]
            assert node_candidate.cost[0][0] == best.cost[0][0], "no higher rank than it takes, and no lower"
            assert node_candidate.cost <= best.cost
            assert fewest <= len(best.victims)
            event(
                "as promised"
                if (node_candidate.cost, fewest) == (best.cost, len(best.victims))
                else "worse than promised"
            )


def best_on(node: Node, need: Resources) -> VictimSet | None:
    return smallest_set([candidate(one, UNIT) for one in node.allocations.values()], need, UNIT)


def test_only_allocations_count_that_may_be_preempted() -> None:
    application, node = an_application(), a_model_node("n1", {})
    node_candidates = NodeCandidates(SPEC, UNIT, WorkBudget())
    node_candidates.consider(node, resources((2, 0)))
    may, leaves, ranks_higher = (run(application, node, key, (1, 0), priority=at) for at, key in enumerate("abc"))
    leaves.releasing = TerminationType.TIMEOUT
    add(node_candidates, [may, leaves, ranks_higher], lambda priority: priority < 2)
    came = [one for one in node_candidates.in_order() if one is not None]
    assert [one.cost[0][0] for one in came] == [rank_of(may)]
    assert node_candidates.fewest(came[0]) == 0


def test_a_node_that_is_out_of_the_question_does_not_come() -> None:
    application, node = an_application(), a_model_node("n1", {})
    node_candidates = NodeCandidates(SPEC, UNIT, WorkBudget())
    add(node_candidates, [run(application, node, "a", (1, 0))])
    assert [one for one in node_candidates.in_order() if one is not None] == []


def test_it_may_be_interrupted_after_a_portion() -> None:
    application, budget = an_application(), WorkBudget()
    node_candidates = NodeCandidates(SPEC, UNIT, budget)
    for at in range(3 * PORTION):
        node = a_model_node(f"n{at}", {})
        node_candidates.consider(node, resources((1, 0)))
        add(node_candidates, [run(application, node, node.node_id, (1, 0))])
    before = budget.visits
    order = node_candidates.in_order()
    assert [(next(order), budget.visits - before) for _ in range(3)] == [(None, PORTION * at) for at in (1, 2, 3)]


def test_the_allocations_of_a_node_are_read_once_and_only_when_it_is_its_turn() -> None:
    application, budget = an_application(), WorkBudget()
    node_candidates = NodeCandidates(SPEC, UNIT, budget)
    nodes = [a_model_node(f"n{at}", {}) for at in range(5)]
    for node in nodes:
        node_candidates.consider(node, resources((2, 0)))
        add(node_candidates, [run(application, node, f"{node.node_id}-{at}", (1, 0), priority=at) for at in range(2)])
    before = budget.visits
    order = (one for one in node_candidates.in_order() if one is not None)
    next(order)
    assert budget.visits - before == len(nodes) + 2
    assert len(list(order)) == 2 * len(nodes) - 1
    assert budget.visits - before == 2 * len(nodes) + 2 * len(nodes), "the order twice, and who runs there once"


def test_a_node_without_the_least_protected_waits_for_the_others() -> None:
    application = an_application()
    node_candidates = NodeCandidates(SPEC, UNIT, WorkBudget())
    for at, priority in enumerate((1, 0, 1)):
        node = a_model_node(f"n{at}", {})
        node_candidates.consider(node, resources((1, 0)))
        add(node_candidates, [run(application, node, node.node_id, (1, 0), priority=priority)])
    came = [one.node.node_id for one in node_candidates.in_order() if one is not None]
    assert came == ["n1", "n0", "n2"]
