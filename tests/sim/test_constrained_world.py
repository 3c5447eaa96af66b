"""A few seeds of the world with placement constraints, every step judged; together they reach every situation.

Judged is what constraints promise, all that is counted, and what the resource manager knows. Who is passed over for
whom is judged in the other worlds, whose judges know rooms and queues and nothing of attributes.
"""

from __future__ import annotations

import pytest

from schedulerd.core.state.constraints.affinity import Affinity
from schedulerd.core.state.constraints.constraints import Constraints
from tests.loops import each_seed
from tests.sim.constrained_world import ConstrainedWorld
from tests.sim.constraint_invariants import EXPECTED
from tests.sim.outcomes import Outcomes

OUTCOMES = Outcomes((ConstrainedWorld,), 500, range(1, 6))


@each_seed(OUTCOMES.seeds[:1], few=0, nightly=OUTCOMES.seeds[1:])
def test_nothing_goes_wrong(seed: int) -> None:
    assert OUTCOMES.problems(seed) == []


@pytest.mark.nightly
def test_every_situation_was_reached() -> None:
    assert OUTCOMES.never_seen(EXPECTED) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Affinity, "holds", lambda *_: True),
        (Constraints, "_count_there", lambda *_: None),
        (Constraints, "freed", lambda *_: None),
        (Constraints, "refusal", lambda *_: None),
    ],
)
@pytest.mark.nightly
def test_broken_code_is_found(owner: object, name: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert OUTCOMES.is_found_now()
