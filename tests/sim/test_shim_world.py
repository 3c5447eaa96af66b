"""A few seeds of the worlds with a Kubernetes shim; together they reach every situation."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from schedulerd.core.partition import Partition
from tests.sim.observations import Observations
from tests.sim.shim_world import EXPECTED, WORLDS
from tests.sim.simulation import Failure, simulate

pytestmark = pytest.mark.interpreted

SEEDS = tuple(range(10))
STEPS = 400


@cache
def outcome(seed: int) -> tuple[Failure | None, Observations]:
    seen = Observations()
    _, failure = simulate(seed, STEPS, seen, WORLDS)
    return failure, seen


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_goes_wrong(seed: int) -> None:
    failure, _ = outcome(seed)
    assert failure is None, failure.problems


def test_every_situation_was_reached() -> None:
    seen = Observations()
    for seed in SEEDS:
        seen.update(outcome(seed)[1])
    assert [sight for sight in EXPECTED if not seen[sight]] == []


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        pytest.param(
            Partition,
            "wants_predicates",
            lambda partition, _: partition.callbacks.predicates,
            id="every ask is asked about",
        ),
        pytest.param(Partition, "wants_predicates", lambda *_: False, id="no ask is asked about"),
    ],
)
def test_broken_code_is_found(owner: object, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert any(simulate(seed, STEPS, Observations(), WORLDS)[1] for seed in SEEDS)
