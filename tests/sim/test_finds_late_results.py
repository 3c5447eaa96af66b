"""Results on what constraints forbid are shown to be seen: code is broken so that only choosy asks with a resource
manager that has a say are any worse off."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.handlers import predicate_results
from schedulerd.core.model.constraints import Constraints, May
from schedulerd.core.model.node import Node
from schedulerd.core.model.predicate_check import PredicateCheck
from schedulerd.core.model.request_class import RequestClass
from schedulerd.core.quotas.rules import highest_blocked
from tests.sim.constrained_judging_world import WORLDS
from tests.sim.observations import Observations
from tests.sim.simulation import simulate

pytestmark = pytest.mark.interpreted

SEEDS = (6, 11, 10)
STEPS = 400
FIRST_FIT = Constraints.first_fit


def by_room_alone(predicate_check: PredicateCheck) -> bool:
    """What the node is like, and who is there, was looked at when it was asked."""
    application, node, group = predicate_check.application, predicate_check.node, predicate_check.ask.group
    if (
        group is None
        or application.queue is None
        or not application.propagates_demand
        or not application.admits_group(group)
    ):
        return False
    has_room = node.ordered and node.free.lacks(predicate_check.ask.request_class.items) is None
    key = group.pending_class.quota_key
    return has_room and highest_blocked(application.queue, group.pending_class.items, key) is None


def second_choice_anywhere(
    constraints: Constraints, request_class: RequestClass, may: May | None = None
) -> Node | None:
    """Who was refused where it wants to be is tried wherever there is room."""
    if may is None:
        return FIRST_FIT(constraints, request_class)
    return constraints._partition.node_order.first_fit_where(request_class, may)


BREAKS: dict[str, tuple[object, str, Any, str]] = {
    "what changed meanwhile is not looked at": (predicate_results, "_may_be_placed", by_room_alone, "forbid"),
    "constraints end with the first refusal": (Constraints, "first_fit", second_choice_anywhere, "it is asked whether"),
}


@pytest.mark.parametrize(("owner", "name", "broken", "sentence"), BREAKS.values(), ids=BREAKS.keys())
def test_a_simulation_finds_it(
    owner: object, name: str, broken: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert any(sentence in problem for seed in SEEDS for problem in problems(seed))


def problems(seed: int) -> list[str]:
    _, failure = simulate(seed, STEPS, Observations(), WORLDS)
    return failure.problems if failure is not None else []
