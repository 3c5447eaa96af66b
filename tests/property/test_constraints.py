"""Constrained asks against the slow way: where they are placed, and that they wait for nothing else than a node."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from schedulerd.core.language.specs import NodeOrder
from schedulerd.core.state.constraints import constraints, node_pools
from tests.loops import examples
from tests.property.constrained import Choosy, Move, plans

NEVER, ALWAYS = 10_000, 1
"""What part of all nodes is walked over before a pool is made: none, or all."""
WAYS = {
    "past closed groups": (10_000, 1, NEVER, 1_000),
    "by nodes": (64, 1, NEVER, 1_000),
    "by walks": (0, 0, ALWAYS, 1_000),
    "by pools": (0, 0, NEVER, 1_000),
    "by few pools": (0, 0, NEVER, 1),
    "by what is open": (0, 10_000, NEVER, 1_000),
}
"""How many nodes are few, how large a group is large, how much is walked, and how many members pools may have: so that
each way of looking for a node is taken."""


def search_only(way: str, patch: pytest.MonkeyPatch) -> None:
    """Nodes are looked for in this one of the `WAYS`."""
    few_nodes, large_group, walked_part, members_max = WAYS[way]
    patch.setattr(constraints, "FEW_NODES", few_nodes)
    patch.setattr(constraints, "LARGE_GROUP", large_group)
    patch.setattr(constraints, "WALKED_PART", walked_part)
    patch.setattr(node_pools, "POOL_MEMBERS_MAX", members_max)
    patch.setattr(node_pools, "POOL_MEMBERS_PER_NODE", min(members_max, 4))


def check_constraints(plan: list[Move], node_order: NodeOrder) -> Counter[str]:
    story = Choosy(node_order)
    for number, move in enumerate(plan):
        story.play(*move)
        if number % 4 == 3:
            story.settle()
            story.check_waiting()
    story.settle()
    story.check_waiting()
    return story.seen


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rules_min", [1, pytest.param(16, marks=pytest.mark.slow)])
def test_a_constraint_holds_where_an_ask_is_placed_and_nowhere_where_it_waits(way: str, rules_min: int) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=examples(300))
    @given(plans, st.sampled_from(list(NodeOrder)))
    def check(plan: list[Move], node_order: NodeOrder) -> None:
        found = check_constraints(plan, node_order)
        for what in found:
            event(what)
        seen.update(found)

    with pytest.MonkeyPatch.context() as patch:
        search_only(way, patch)
        patch.setattr(constraints, "RULES_MIN", rules_min)
        check()
    for what in ("placed with a constraint", "waits with a constraint", "wish fulfilled", "wish not fulfilled"):
        assert seen[what] > 10, f"{what}: {seen[what]}"
