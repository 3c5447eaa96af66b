"""A few seeds of the world with placement constraints, every step judged; together they reach every situation.

Judged is what constraints promise, all that is counted, and what the resource manager knows. Who is passed over for
whom is judged in the other worlds, whose judges know rooms and queues and nothing of attributes.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from schedulerd.core import view
from schedulerd.core.invariants import violations
from schedulerd.core.model.affinity import Affinity
from schedulerd.core.model.constraints import Constraints
from tests.sim.auditor import Auditor
from tests.sim.choosy_world import ChoosyWorld
from tests.sim.constraint_law import EXPECTED, ConstraintLaw
from tests.sim.simulation import commands, new_scheduler

SEEDS = range(1, 6)
STEPS = 500


def play(seed: int) -> tuple[list[str], Counter[str]]:
    """What is wrong after the first step after which anything is, and what was seen."""
    world, scheduler, auditor = ChoosyWorld(seed), new_scheduler(), Auditor()
    seen: Counter[str] = Counter()
    law = ConstraintLaw(scheduler, seen)
    for now_ns, command in commands(world, scheduler, STEPS):
        facts = scheduler.step(now_ns, command)
        state = view.resource_managers(scheduler)
        auditor.take(facts)
        problems = [*law.after(facts, state), *violations(scheduler), *auditor.problems(state)]
        for memory in world.memories.values():
            problems += memory.hear(command, facts)
        if problems:
            return [f"seed {seed} at {now_ns} after {command}:", *problems], seen
    return [], seen


outcome = cache(play)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_goes_wrong(seed: int) -> None:
    problems, _ = outcome(seed)
    assert problems == []


def test_every_situation_was_reached() -> None:
    seen: Counter[str] = Counter()
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
