"""A few seeds of the worlds with a Kubernetes shim; together they reach every situation."""

from __future__ import annotations

from typing import Any

import pytest

from schedulerd.core.state.partition import Partition
from tests.loops import each_seed
from tests.sim.outcomes import Outcomes
from tests.sim.shim_world import EXPECTED, WORLDS

pytestmark = pytest.mark.interpreted

OUTCOMES = Outcomes(WORLDS, 400, range(10))


@each_seed(OUTCOMES.seeds[:2], few=0, nightly=OUTCOMES.seeds[2:])
def test_nothing_goes_wrong(seed: int) -> None:
    assert OUTCOMES.problems(seed) == []


@pytest.mark.nightly
def test_every_situation_was_reached() -> None:
    assert OUTCOMES.never_seen(EXPECTED) == []


@pytest.mark.slow
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
@pytest.mark.nightly
def test_broken_code_is_found(owner: object, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert OUTCOMES.is_found_now()
