"""A few seeds of the worlds in which gangs declare their task groups, every step judged."""

from __future__ import annotations

import pytest

from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.state.actions import single_slots
from schedulerd.core.state.nodes.gang_plan import Planner
from schedulerd.core.state.pending import asks
from tests.sim import judge
from tests.sim.autoscaled_world import AutoscaledGangWorld
from tests.sim.declared_world import DeclaredGangWorld, JudgingDeclaredGangWorld
from tests.sim.observations import Observations
from tests.sim.simulation import DECLARED_WORLDS, simulate
from tests.sim.world import World

STEPS = 300
AUTOSCALED = (AutoscaledGangWorld,)


@pytest.mark.slow
def test_nothing_goes_wrong() -> None:
    seen = Observations()
    for seed in (1, 2, 3, 4, 5, 33):
        _, failure = simulate(seed, STEPS, seen, DECLARED_WORLDS, is_faulty=True)
        assert failure is None, (seed, failure.problems)
    for state in ("forming", "gathering", "complete", "short"):
        assert seen[f"gang {state}"], state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "world"),
    [(50_016, DeclaredGangWorld), (50_026, JudgingDeclaredGangWorld), (70_009, JudgingDeclaredGangWorld)],
    ids=["counts of two groups change", "slots go one by one", "a deadlock check while all slots are asked about"],
)
def test_histories_that_went_wrong(seed: int, world: type[World]) -> None:
    _, failure = simulate(seed, STEPS, Observations(), (world,), is_faulty=True, look_at_all_every=20)
    assert failure is None, failure.problems


def test_members_that_no_longer_wait_for_their_gang_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    admits = asks.admits_group
    monkeypatch.setattr(asks, "admits_group", lambda *it: not it[2].placeholder or admits(*it))
    _, failure = simulate(0, STEPS, Observations(), DECLARED_WORLDS)
    assert failure is not None


def test_the_judge_compares_members_that_are_placed_with_the_state_of_their_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judge, "UNBEGUN", {GangState.COMPLETE})
    _, failure = simulate(0, STEPS, Observations(), DECLARED_WORLDS)
    assert failure is not None
    assert "are placed, and it is complete" in failure.problems[0]


@pytest.mark.slow
def test_what_an_autoscaler_makes_room_for_gets_it() -> None:
    seen = Observations()
    for seed in (0, 1, 2):
        _, failure = simulate(seed, STEPS // 2, seen, AUTOSCALED, is_faulty=True, look_at_all_every=20)
        assert failure is None, (seed, failure.problems)
    assert seen["cluster grown for a gang"]


def test_a_gang_that_is_passed_over_whatever_nodes_are_added_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(single_slots, "hold_singly", lambda *_: False)
    monkeypatch.setattr(Planner, "plan", lambda _: None)
    _, failure = simulate(0, STEPS // 2, Observations(), AUTOSCALED, look_at_all_every=20)
    assert failure is not None
    assert "lacks room for" in failure.problems[0]
