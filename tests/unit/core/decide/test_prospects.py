"""The order of nodes against what is really best on each: nothing better comes of a promise, and none is forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given
from hypothesis import strategies as st

from schedulerd.core.commands import TerminationType
from schedulerd.core.decide.prospects import PORTION, Prospect, Prospects
from schedulerd.core.decide.victims import Effort, VictimSet, candidate, rank_of, smallest_set
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.resources import Resources
from tests.unit.core.builders import a_conversation, a_model_node, an_ask

UNIT = {"memory": 10, "vcore": 7}
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
    shape = application.partition.shape_of(spec)
    allocation = Allocation(key, application, Ask(spec, shape, 0, 0), node, spec, shape)
    node.allocations[key] = allocation
    return allocation


def an_application() -> Application:
    return a_conversation().model().applications["app"]


def place_of(prospect: Prospect) -> tuple[object, ...]:
    return prospect.harm, prospect.node.score, prospect.node.node_id


@given(nodes_with_pods)
def test_each_node_comes_in_the_order_of_what_it_promises_and_keeps(
    layout: Sequence[tuple[tuple[int, int], Sequence[tuple[tuple[int, int], int, bool]]]],
) -> None:
    application = an_application()
    prospects = Prospects(UNIT, Effort())
    needs: dict[Node, Resources] = {}
    for at, (need, running) in enumerate(layout):
        node = a_model_node(f"n{at}", {})
        needs[node] = resources(need)
        prospects.consider(node, needs[node])
        made = [run(application, node, f"{at}-{number}", *pod) for number, pod in enumerate(running)]
        prospects.add(made, lambda _: True)
    promised: dict[Node, tuple[Prospect, int]] = {}
    seen = []
    for prospect in prospects.in_order():
        if prospect is not None:
            seen.append(place_of(prospect))
            fewest = prospects.fewest(prospect)
            if fewest:
                promised.setdefault(prospect.node, (prospect, fewest))
    assert seen == sorted(seen)
    for node, lacking in needs.items():
        best = best_on(node, lacking)
        assert (best is not None) is (node in promised)
        if best is not None:
            prospect, fewest = promised[node]
            assert prospect.harm[0][0] == best.harm[0][0], "no higher rank than it takes, and no lower"
            assert prospect.harm <= best.harm
            assert fewest <= len(best.victims)
            event("as promised" if (prospect.harm, fewest) == (best.harm, len(best.victims)) else "worse than promised")


def best_on(node: Node, need: Resources) -> VictimSet | None:
    return smallest_set([candidate(one, UNIT) for one in node.allocations.values()], need, UNIT)


def test_only_those_count_who_may_be_ended() -> None:
    application, node = an_application(), a_model_node("n1", {})
    prospects = Prospects(UNIT, Effort())
    prospects.consider(node, resources((2, 0)))
    may, leaves, ranks_higher = (run(application, node, key, (1, 0), priority=at) for at, key in enumerate("abc"))
    leaves.releasing = TerminationType.TIMEOUT
    prospects.add([may, leaves, ranks_higher], lambda priority: priority < 2)
    came = [one for one in prospects.in_order() if one is not None]
    assert [one.harm[0][0] for one in came] == [rank_of(may)]
    assert prospects.fewest(came[0]) == 0


def test_a_node_that_is_out_of_the_question_does_not_come() -> None:
    application, node = an_application(), a_model_node("n1", {})
    prospects = Prospects(UNIT, Effort())
    prospects.add([run(application, node, "a", (1, 0))], lambda _: True)
    assert [one for one in prospects.in_order() if one is not None] == []


def test_it_may_be_interrupted_after_a_portion() -> None:
    application, effort = an_application(), Effort()
    prospects = Prospects(UNIT, effort)
    nodes = [a_model_node(f"n{at}", {}) for at in range(3 * PORTION)]
    for node in nodes:
        prospects.consider(node, resources((1, 0)))
        prospects.add([run(application, node, node.node_id, (1, 0))], lambda _: True)
    before = effort.visits
    breaks = []
    for prospect in prospects.in_order():
        if prospect is not None:
            break
        breaks.append(effort.visits - before)
    assert breaks == [PORTION * number for number in range(1, 7)]
