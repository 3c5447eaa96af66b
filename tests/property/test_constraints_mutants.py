"""The slow reference of placement constraints is shown to bite: the core is broken on purpose, and it finds that.

The invariants, which a conversation checks after every step, are switched off for it, and shown to bite by themselves.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from schedulerd.core import expressions
from schedulerd.core.commands import Expression, Operator
from schedulerd.core.model import constraint, requeue
from schedulerd.core.model.affinity import Affinity
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.constraints import Constraints
from schedulerd.core.model.node_pool import NodePool
from schedulerd.core.model.partition import Partition
from schedulerd.core.specs import NodeOrder
from tests.property.constrained import Move, plans
from tests.property.test_constraints import check_constraints, search_only
from tests.unit.core import builders

pytestmark = pytest.mark.interpreted

EXAMPLES_MAX = 1_000
HOLDS, EXPRESSION_HOLDS, SEARCH = Affinity.holds, expressions._holds, Constraints._first_where_it_holds


def freed_but_counted(known: Constraints, allocation: Allocation) -> None:
    known.tagged.drop(allocation)
    known.moved(allocation.node)


def wakes_nobody(partition: Partition) -> None:
    partition.constraints.take_changed()


def holds_for_one_more(affinity: Affinity, count: int) -> bool:
    return HOLDS(affinity, count) or HOLDS(affinity, count - 1)


def wants_the_key(one: Expression, value: str | None) -> bool:
    return EXPRESSION_HOLDS(one, value) and (one.operator is not Operator.NOT_IN or value is not None)


def no_wishes(known: Constraints, request_class: Any, rule: Any, affinity: Affinity, may: Any) -> Any:
    return SEARCH(known, request_class, rule, affinity, may) if affinity.is_required else None


BREAKS: dict[str, tuple[object, str, Any]] = {
    "what is gone is counted": (Constraints, "freed", freed_but_counted),
    "what is placed is not counted": (Affinity, "change", lambda *_: False),
    "groups that open wake nobody": (requeue, "_wake_regrouped", wakes_nobody),
    "attributes are what they were": (Constraints, "regroup", lambda *_: None),
    "the ask itself does not count": (constraint, "all_hold", lambda *_: False),
    "one more than the most is let in": (Affinity, "holds", holds_for_one_more),
    "what is missing is in every list": (expressions, "_holds", wants_the_key),
    "nobody has wishes": (Constraints, "_first_where_it_holds", no_wishes),
    "a pool does not hear what is freed": (NodePool, "note", lambda *_: None),
}


def check(plan: list[Move], node_order: NodeOrder) -> None:
    check_constraints(plan, node_order)


@pytest.mark.parametrize(("owner", "name", "broken"), BREAKS.values(), ids=BREAKS.keys())
def test_the_reference_finds_broken_code(
    owner: object, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builders, "violations", lambda _: [])
    monkeypatch.setattr(owner, name, broken)
    if owner is NodePool:
        search_only("by pools", monkeypatch)
    one_failure = settings(max_examples=EXAMPLES_MAX, phases=[Phase.generate], report_multiple_bugs=False)
    seek = one_failure(given(plans, st.sampled_from(list(NodeOrder)))(check))
    with pytest.raises(AssertionError):
        seek()
