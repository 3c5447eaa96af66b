"""The phases of a cycle: their order, as the page about it says, and what each may spend."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from schedulerd.core import cycle
from schedulerd.core.cycle import PHASES, Outcome, Phase, Run
from schedulerd.core.state.step_context import StepContext
from tests.sim.observations import Observations
from tests.sim.simulation import DECLARED_WORLDS, EVERY_WORLD, simulate

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "cycle.md"
SEEDS = range(1, 13)
STEPS = 150

pytestmark = pytest.mark.interpreted


def recorded(phase: Phase, spent: Counter[tuple[str, Outcome]]) -> Phase:
    def advance(context: StepContext, run: Run) -> Outcome:
        outcome = phase.advance(context, run)
        spent[phase.name, outcome] += 1
        return outcome

    return phase._replace(advance=advance)


@pytest.mark.slow
def test_a_phase_spends_what_it_says_and_all_of_that_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: Counter[tuple[str, Outcome]] = Counter()
    monkeypatch.setattr(cycle, "PHASES", tuple(recorded(phase, spent) for phase in PHASES))
    monkeypatch.setattr("schedulerd.core.preemption.handlers.preemption.VISITS_PER_SLICE", 20)
    monkeypatch.setattr(cycle, "_LAST_PHASES", cycle.PHASES[-len(cycle._LAST_PHASES) :])
    monkeypatch.setattr("schedulerd.core.state.actions.slot_room.PLANNED_AND_MADE_MAX", 1)
    for seed in range(2):
        _, failure = simulate(seed, STEPS, Observations(), DECLARED_WORLDS)
        assert failure is None, failure.problems
    for seed in SEEDS:
        _, failure = simulate(seed, STEPS, Observations(), EVERY_WORLD)
        assert failure is None, failure.problems
    said = {(phase.name, outcome) for phase in PHASES for outcome in (*phase.budget, Outcome.NOTHING)}
    assert set(spent) - said == set(), "a phase spends what it does not say"
    assert said - set(spent) == set(), "a phase never spends what it says"


def test_the_page_has_the_phases_in_their_order() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## The order of phases")[1].split("\n## ")[0]
    assert [name.lower() for name in re.findall(r"^\d\. \*\*(.+?)\.?\*\*", section, re.M)] == [
        phase.name for phase in PHASES
    ]
