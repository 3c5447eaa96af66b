"""A few seeds of the world with placement constraints, every step judged; together they reach every situation.

Judged is what constraints promise, all that is counted, and what the resource manager knows. Who is passed over for
whom is judged in the other worlds, whose judges know rooms and queues and nothing of attributes.
"""

from __future__ import annotations

from functools import cache

import pytest

from schedulerd.core.constraints.affinity import Affinity
from schedulerd.core.constraints.constraints import Constraints
from tests.sim.constrained_world import ConstrainedWorld
from tests.sim.constraint_invariants import EXPECTED
from tests.sim.observations import Observations
from tests.sim.simulation import Failure, simulate

SEEDS = range(1, 6)
STEPS = 500


def play(seed: int) -> tuple[Failure | None, Observations]:
    seen = Observations()
    _, failure = simulate(seed, STEPS, seen, (ConstrainedWorld,))
    return failure, seen


outcome = cache(play)


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
        (Affinity, "holds", lambda *_: True),
        (Constraints, "_count_there", lambda *_: None),
        (Constraints, "freed", lambda *_: None),
        (Constraints, "refusal", lambda *_: None),
    ],
)
def test_broken_code_is_found(owner: object, name: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert any(play(seed)[0] for seed in SEEDS)
