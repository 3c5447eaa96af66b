"""The first node with room: the index against a linear scan of a sorted list."""

from __future__ import annotations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import NodeOrder as Policy
from schedulerd.core.state.model.node import Node, Scoring
from schedulerd.core.state.nodes import node_order
from schedulerd.core.state.nodes.node_order import NodeOrder
from schedulerd.core.state.pending.request_class import RequestClass
from tests.loops import examples
from tests.unit.core.builders import a_model_node, a_request_class

NODES = 40
amounts = st.integers(0, 4)
request_classes = st.tuples(amounts, amounts, st.integers(0, 1)).filter(any)
steps = st.tuples(
    st.sampled_from(["enter", "enter", "leave", "take", "take", "take", "give", "search", "search"]),
    st.integers(0, NODES - 1),
    request_classes,
)


def first_by_scan(nodes: list[Node], request_class: RequestClass) -> Node | None:
    for node in sorted(nodes, key=lambda one: (one.score, one.node_id)):
        if all(node.available[name] >= amount for name, amount in request_class.items):
            return node
    return None


def change(node: Node, request_class: RequestClass, sign: int) -> None:
    node.available.add(request_class.items, sign)
    node.rescore()


class World:
    """Nodes in the order, and the same nodes as a plain dictionary."""

    def __init__(self, policy: Policy) -> None:
        self.order = NodeOrder()
        scoring = Scoring(policy, {"memory": 1.0, "vcore": 2.0})
        capacities = [{"memory": 1 + at % 7, "vcore": at % 5, "gpu": at % 11 // 10} for at in range(NODES)]
        self.all = [a_model_node(f"n{at:02}", capacity, scoring) for at, capacity in enumerate(capacities)]
        self.inside: dict[int, Node] = {}

    def do(self, what: str, who: int, request_class: RequestClass) -> None:
        node = self.all[who]
        if what == "enter" and who not in self.inside:
            self.inside[who] = node
            self.order.add(node)
        elif what == "leave" and who in self.inside:
            self.order.remove(self.inside.pop(who))
        elif what == "give":
            change(node, request_class, 1)
            if who in self.inside:
                self.order.moved(node)
        elif what == "take":
            found = self.order.first_fit(request_class)
            if found is not None:
                change(found, request_class, -1)
                self.order.moved(found)


@settings(max_examples=examples(150))
@given(st.sampled_from(Policy), st.integers(0, NODES), st.lists(steps, max_size=120))
def test_first_fit_is_what_a_linear_scan_finds(
    policy: Policy, ready: int, plan: list[tuple[str, int, tuple[int, int, int]]]
) -> None:
    blocks_max, node_order._BLOCK_NODES_MAX = node_order._BLOCK_NODES_MAX, 4
    try:
        world = World(policy)
        for who in range(ready):
            world.do("enter", who, a_request_class(memory=1))
        for what, who, (memory, vcore, gpu) in plan:
            request_class = a_request_class(memory=memory, vcore=vcore, gpu=gpu)
            world.do(what, who, request_class)
            inside = list(world.inside.values())
            expected = first_by_scan(inside, request_class)
            assert world.order.first_fit(request_class) is expected
            assert list(world.order) == sorted(inside, key=lambda one: (one.score, one.node_id))
            assert len(world.order) == len(inside)
            event("found" if expected is not None else "no node has room" if inside else "no nodes")
            if len(world.order._blocks) > 1:
                event("several blocks")
            if any(block.misfits for block in world.order._blocks):
                event("a request class that only the misfits keep from being searched again")
    finally:
        node_order._BLOCK_NODES_MAX = blocks_max


def least_short_by_scan(nodes: list[Node], request_class: RequestClass) -> Node | None:
    def lacks(node: Node) -> float:
        return sum(
            (amount - node.free[name]) / amount for name, amount in request_class.items if amount > node.free[name]
        )

    return min(nodes, key=lambda one: (lacks(one), one.score, one.node_id), default=None)


@settings(max_examples=examples(150))
@given(
    st.integers(0, NODES),
    st.lists(st.tuples(st.integers(0, NODES - 1), request_classes, st.booleans()), max_size=60),
    st.sets(st.integers(0, NODES - 1)),
    request_classes,
)
def test_least_short_is_what_a_linear_scan_finds(
    ready: int, plan: list[tuple[int, tuple[int, int, int], bool]], barred: set[int], wanted: tuple[int, int, int]
) -> None:
    blocks_max, node_order._BLOCK_NODES_MAX = node_order._BLOCK_NODES_MAX, 4
    try:
        world = World(Policy.FAIR)
        for who in range(ready):
            world.do("enter", who, a_request_class(memory=1))
        for who, (memory, vcore, gpu), gives in plan:
            request_class = a_request_class(memory=memory, vcore=vcore, gpu=gpu)
            change(world.all[who], request_class, 1 if gives else -1)
            if who in world.inside:
                world.order.moved(world.inside[who])
            world.order.first_fit(request_class)
        memory, vcore, gpu = wanted
        request_class, kept = a_request_class(memory=memory, vcore=vcore, gpu=gpu), {world.all[who] for who in barred}
        expected = least_short_by_scan([node for node in world.inside.values() if node not in kept], request_class)
        assert world.order.least_short(request_class, lambda node: node not in kept) is expected
        event(
            "none may"
            if expected is None
            else "one fits"
            if not expected.free.lacks(request_class.items)
            else "all are short"
        )
    finally:
        node_order._BLOCK_NODES_MAX = blocks_max


def test_a_node_that_is_just_full_lacks_less_than_one_that_is_over_committed_and_others_that_are() -> None:
    order = NodeOrder()
    nodes = [a_model_node(name, {"memory": 10}) for name in ("over", "full")]
    nodes[0].offer(None, Resources(memory=15))
    nodes[1].offer(None, Resources(memory=10))
    for node in nodes:
        order.add(node)
    assert order.least_short(a_request_class(memory=5), lambda _: True) is nodes[1]


def test_blocks_that_lack_more_than_the_best_node_are_not_looked_into() -> None:
    order = NodeOrder()
    for at in range(5_000):
        node = a_model_node(f"n{at:04}", {"memory": 100})
        node.offer(None, Resources(memory=90 if at < 4_900 else 60))
        order.add(node)
    found = order.least_short(a_request_class(memory=50), lambda _: True)
    assert found is not None
    assert found.free == {"memory": 40}
    assert order.visits < 1_000


def test_an_empty_order_finds_nothing() -> None:
    order = NodeOrder()
    assert order.first_fit(a_request_class(memory=1)) is None
    assert order.least_short(a_request_class(memory=1), lambda _: True) is None
    assert len(order) == 0


def test_equal_scores_are_ordered_by_id() -> None:
    order = NodeOrder()
    for node_id in ("c", "a", "b"):
        order.add(a_model_node(node_id, {"memory": 10}))
    found = order.first_fit(a_request_class(memory=1))
    assert found is not None
    assert found.node_id == "a"


def test_a_type_that_no_node_has_is_never_found() -> None:
    order = NodeOrder()
    order.add(a_model_node("a", {"memory": 10}))
    assert order.first_fit(a_request_class(memory=1, gpu=1)) is None


def test_a_node_over_its_capacity_is_not_found() -> None:
    order, node = NodeOrder(), a_model_node("a", {"memory": 10})
    node.offer(None, Resources(memory=25))
    order.add(node)
    assert node.available == {"memory": -15}
    assert order.first_fit(a_request_class(memory=1)) is None
    assert order.first_fit(a_request_class(vcore=1)) is None


def test_what_fits_nowhere_is_not_searched_twice() -> None:
    """One node has the memory and another the cores: after one search of the block only its header is looked at."""
    order = NodeOrder()
    for at in range(100):
        order.add(a_model_node(f"m{at:03}", {"memory": 10, "vcore": 1}))
        order.add(a_model_node(f"v{at:03}", {"memory": 1, "vcore": 10}))
    request_class = a_request_class(memory=5, vcore=5)
    assert order.first_fit(request_class) is None
    before = order.visits
    assert order.first_fit(request_class) is None
    assert order.visits - before == len(order._blocks)


def test_full_nodes_are_stepped_over_by_the_block() -> None:
    order = NodeOrder()
    nodes = [a_model_node(f"n{at:04}", {"memory": 1}) for at in range(5_000)]
    for node in nodes:
        order.add(node)
    assert order.first_fit(a_request_class(memory=2)) is None
    before = order.visits
    assert order.first_fit(a_request_class(memory=2)) is None
    assert order.visits - before == len(order._blocks) <= 2 * 5_000 // 128
