"""Constrained asks against the slow way: where they are placed, and that they wait for nothing else than a node."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from schedulerd.core.model import constraints
from schedulerd.core.specs import NodeOrder
from tests.property.constrained import Choosy, Move, plans

WAYS = {"past closed groups": (10_000, 1), "by nodes": (64, 1), "by pools": (0, 0), "by what is open": (0, 10_000)}
"""How many nodes are few, and how large a group is large: so that each way of looking for a node is taken."""


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
@pytest.mark.parametrize("rules_min", [1, 16])
def test_a_constraint_holds_where_an_ask_is_placed_and_nowhere_where_it_waits(way: str, rules_min: int) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=100)
    @given(plans, st.sampled_from(list(NodeOrder)))
    def check(plan: list[Move], node_order: NodeOrder) -> None:
        found = check_constraints(plan, node_order)
        for what in found:
            event(what)
        seen.update(found)

    with pytest.MonkeyPatch.context() as patch:
        few_nodes, large_group = WAYS[way]
        patch.setattr(constraints, "FEW_NODES", few_nodes)
        patch.setattr(constraints, "LARGE_GROUP", large_group)
        patch.setattr(constraints, "RULES_MIN", rules_min)
        check()
    for what in ("placed with a constraint", "waits with a constraint", "wish fulfilled", "wish not fulfilled"):
        assert seen[what] > 10, f"{what}: {seen[what]}"
