"""What a node offers, in which state it is, and how it is scored."""

from __future__ import annotations

import pytest

from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import NodeOrder
from schedulerd.core.state.model.node import Scoring
from tests.unit.core.builders import a_model_node

FAIR = Scoring(NodeOrder.FAIR, {"memory": 1.0, "vcore": 1.0})


def test_available_is_capacity_less_occupied_less_allocated() -> None:
    node = a_model_node("n", {"memory": 100})
    node.allocated.add((("memory", 30),))
    node.offer(None, Resources(memory=50))
    assert node.available == {"memory": 20}
    node.offer(Resources(memory=60), None)
    assert node.available == {"memory": -20}


@pytest.mark.parametrize(
    ("capacity", "available", "score"),
    [
        ({"memory": 100, "vcore": 10}, {"memory": 100, "vcore": 10}, 0.0),
        ({"memory": 100, "vcore": 10}, {"memory": 50, "vcore": 10}, 0.25),
        ({"memory": 100, "vcore": 10}, {"memory": 0, "vcore": 0}, 1.0),
        ({"memory": 100}, {"memory": 25}, 0.75),
        ({"memory": 100, "gpu": 4}, {"memory": 100, "gpu": 0}, 0.0),
        ({"memory": 100}, {"memory": -100}, 2.0),
        ({}, {}, 0.0),
    ],
)
def test_fair_scores_the_weighted_used_share(capacity: dict[str, int], available: dict[str, int], score: float) -> None:
    assert FAIR.score(Resources(capacity), Resources(available)) == score


def test_binpacking_is_the_opposite_of_fair() -> None:
    packing = Scoring(NodeOrder.BINPACKING, {"memory": 1.0})
    assert packing.score(Resources(memory=100), Resources(memory=25)) == 0.25


def test_weights_say_how_much_a_type_counts() -> None:
    scoring = Scoring(NodeOrder.FAIR, {"memory": 3.0, "vcore": 1.0, "gpu": 0.0})
    used_cores = scoring.score(Resources(memory=10, vcore=10, gpu=1), Resources(memory=10, gpu=0))
    assert used_cores == 0.25


@pytest.mark.parametrize(
    ("value", "ready"), [("true", True), ("false", False), (" False ", False), ("FALSE", False), ("", True)]
)
def test_readiness_is_an_attribute(value: str, ready: bool) -> None:
    node = a_model_node("n", {})
    node.attributes = {"ready": value}
    assert node.ready is ready
