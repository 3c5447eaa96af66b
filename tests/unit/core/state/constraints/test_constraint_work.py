"""What placing constrained asks costs, counted in function calls: by the nodes they may have, not by all there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedulerd.core.language.commands import (
    AllocationRelease,
    Command,
    NewAsk,
    NodeAction,
    PlacementConstraint,
    RunCycle,
    UpdateAllocations,
    UpdateNodes,
)
from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.specs import SECOND_NS, NodeOrder
from schedulerd.core.state.constraints import constraints, node_pools
from tests.unit.core import builders
from tests.unit.core.builders import RM, Conversation, a_node, a_partition_spec, a_scheduler, an_app, an_ask, of
from tests.unit.core.constraint_builders import DB, HOST, IS_DB, IS_WEB, WEB, has, none_of, on, one_of, together
from tests.unit.core.test_work import calls_during

pytestmark = pytest.mark.interpreted

GPU_NODES = 20
PLACEMENTS = 50
LARGE, LARGER, LARGEST = 200, 800, 3_200
BLOCKS = 16
"""More blocks of nodes than LARGEST makes: a search steps over each of them once if none of its nodes has room."""


@pytest.fixture(autouse=True)
def _without_recounting(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is recounted in other tests; here that would take most of the time."""
    monkeypatch.setattr(builders, "violations", lambda _: [])


def a_cluster(nodes: int, node_order: NodeOrder = NodeOrder.FAIR, zone_size: int = 100) -> Conversation:
    """GPU_NODES of so many nodes are in zone gpu, the others as many to a zone as are said."""
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec(node_order=node_order))
    talk.connect()
    talk.apps(an_app())
    gpu = {"gpu": "1", "zone": "gpu"}
    talk.nodes(
        *(
            a_node(
                f"n{at:04}", {"memory": 1_000}, attributes=gpu if at < GPU_NODES else {"zone": f"z{at // zone_size}"}
            )
            for at in range(nodes)
        )
    )
    return talk


def choosy(constraint: PlacementConstraint, tags: dict[str, str] | None = None, count: int = 200) -> NewAsk:
    return an_ask("choosy", 1, count, constraint=constraint, tags=tags or {})


def calls_of(talk: Conversation, command: Command, placements: int) -> int:
    """Of a step in which so many asks are placed."""
    facts: list[Fact] = []
    calls = calls_during(lambda: facts.extend(talk.scheduler.step(talk.now_ns, command)))
    assert len(of(Allocated, facts)) == placements
    return calls


def is_flat(work: Callable[[int], int]) -> bool:
    """Whether the work does not grow with the nodes, but for a step over each block of them."""
    least, *others = work(LARGE), work(LARGER), work(LARGEST)
    return all(abs(calls - least) <= BLOCKS * PLACEMENTS for calls in others) and max(others) < 1.5 * least


@pytest.mark.parametrize("node_order", list(NodeOrder))
def test_nodes_with_other_attributes_cost_nothing(node_order: NodeOrder) -> None:
    def work(nodes: int) -> int:
        talk = a_cluster(nodes, node_order)
        talk.asks(choosy(on(has("gpu"))))
        talk.cycle(PLACEMENTS)
        return calls_of(talk, RunCycle(PLACEMENTS), PLACEMENTS)

    assert work(LARGE) == work(LARGER) == work(LARGEST)


@pytest.mark.parametrize("node_order", list(NodeOrder))
def test_nodes_where_the_others_are_not_cost_nothing(node_order: NodeOrder) -> None:
    def work(nodes: int) -> int:
        talk = a_cluster(nodes, node_order)
        talk.asks(an_ask("db", tags=DB, constraint=on(has("gpu"))))
        talk.schedule()
        talk.asks(choosy(together("zone", IS_DB, least=1)))
        talk.cycle(PLACEMENTS)
        return calls_of(talk, RunCycle(PLACEMENTS), PLACEMENTS)

    assert work(LARGE) == work(LARGER) == work(LARGEST)


@pytest.mark.parametrize("node_order", list(NodeOrder))
def test_one_to_a_host_costs_the_same_however_many_hosts_are_taken(node_order: NodeOrder) -> None:
    def work(nodes: int, taken: int) -> int:
        talk = a_cluster(nodes, node_order)
        talk.asks(choosy(together(HOST, IS_WEB, most=1), WEB, count=nodes))
        talk.cycle(taken)
        return calls_of(talk, RunCycle(PLACEMENTS), PLACEMENTS)

    once = work(LARGER, taken=100)
    for nodes, taken in ((LARGEST, 100), (LARGER, 500), (LARGEST, 2_500)):
        assert abs(work(nodes, taken) - once) <= BLOCKS * PLACEMENTS


@pytest.mark.parametrize("node_order", list(NodeOrder))
def test_few_large_groups_cost_by_how_many_groups_are_open(node_order: NodeOrder) -> None:
    """All but one are taken, and nodes there are not gone through, though they have room."""

    def work(nodes: int) -> int:
        talk = a_cluster(nodes, node_order, zone_size=nodes // 4)
        talk.asks(choosy(together("zone", IS_WEB, most=PLACEMENTS), WEB, count=5 * PLACEMENTS))
        talk.cycle(5 * PLACEMENTS - 10)
        return calls_of(talk, RunCycle(10), 10)

    assert work(LARGER) == work(LARGEST)


def test_a_host_that_is_free_again_is_found_among_those_that_are_taken() -> None:
    def work(nodes: int) -> int:
        talk = a_cluster(nodes)
        talk.asks(choosy(together(HOST, IS_WEB, most=1), WEB, count=nodes + 10))
        talk.schedule()
        allocations = list(talk.model().allocations)
        assert len(allocations) == nodes
        talk.release(uuid=allocations[7])
        talk.schedule()
        release = AllocationRelease("app", uuid=allocations[nodes // 2])
        woken = calls_of(talk, UpdateAllocations(RM, releases=[release]), 0)
        assert talk.scheduler.wants_cycle()
        return woken + calls_of(talk, RunCycle(PLACEMENTS), 1)

    assert is_flat(work)


def test_asks_without_constraints_pay_little_for_those_that_wait() -> None:
    def work(choosy_shapes: int) -> int:
        talk = a_cluster(LARGER)
        for number in range(choosy_shapes):
            nowhere = on(none_of("zone", "gpu", *(f"z{zone}" for zone in range(LARGER // 100 + 1))))
            talk.asks(an_ask(f"k{number}", 1 + number, constraint=nowhere))
            talk.asks(an_ask(f"w{number}", 1 + number, constraint=together("zone", IS_DB, least=1 + number)))
        talk.asks(an_ask("any", 1, 400))
        while len(of(Allocated, talk.cycle(PLACEMENTS))) < PLACEMENTS:
            pass
        return calls_of(talk, RunCycle(PLACEMENTS), PLACEMENTS)

    many, few, nobody = work(80), work(10), work(0)
    assert many == few
    assert few < 1.3 * nobody


def test_nothing_is_searched_for_waiting_asks_while_nothing_changes() -> None:
    talk = a_cluster(LARGE)
    talk.asks(choosy(together("zone", IS_DB, least=1)), an_ask("other", 1, 10, tags=WEB))
    talk.schedule()
    assert not talk.scheduler.wants_cycle()
    assert calls_of(talk, RunCycle(PLACEMENTS), 0) < 50
    talk.release(allocation_key="other")
    assert not talk.scheduler.wants_cycle(), "room that was not lacking wakes nobody"


def test_pools_of_many_selectors_have_few_members_together_and_go_with_their_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each selector is one that walks do not serve; the asks are placed all the same, and nothing is left of pools."""
    monkeypatch.setattr(constraints, "WALKED_PART", 10_000)
    monkeypatch.setattr(constraints, "RULES_MIN", 10)
    monkeypatch.setattr(node_pools, "POOL_MEMBERS_MAX", 1_000)
    known = (talk := a_cluster(LARGE)).model().constraints
    asks = [an_ask(f"k{at}", 1, constraint=on(none_of("zone", "gpu", f"none-{at}"))) for at in range(100)]
    talk.step(UpdateAllocations(RM, asks=asks))
    placed = 0
    while talk.scheduler.wants_cycle():
        placed += len(of(Allocated, talk.cycle(1)))
        pools = known.pools
        assert pools.members <= 1_000 + LARGE + node_pools.POOL_COST
        assert sum(map(len, pools.of_node.values())) == sum(len(pool.members) for pool in pools.by_key.values())
    assert placed == len(asks)
    assert len(known.rules) <= 10


@pytest.mark.parametrize("request_classes", [0, 300])
def test_a_node_that_changes_costs_the_same_however_many_classes_wait(request_classes: int) -> None:
    def work(nodes: int, changed: int) -> int:
        talk = a_cluster(nodes)
        sizes = [an_ask(f"large-{at}", 2_000 + at) for at in range(request_classes)]
        wishes = [
            an_ask(f"choosy-{at}", 10, constraint=on(one_of("zone", f"none-{at}"))) for at in range(request_classes)
        ]
        talk.step(UpdateAllocations(RM, asks=[*sizes, *wishes]))
        talk.schedule()
        talk.sleep(SECOND_NS * 60)
        talk.schedule()
        ready = [a_node(f"n{at:04}", action=NodeAction.DRAIN_NODE) for at in range(changed)]
        return calls_during(lambda: talk.scheduler.step(talk.now_ns, UpdateNodes(RM, ready)))

    each = (work(LARGE, 150) - work(LARGE, 50)) / 100
    assert each < 100
    assert abs((work(LARGER, 150) - work(LARGER, 50)) / 100 - each) < 10
