"""The rules about kept room and preemption are shown to bite: code is broken on purpose, and it is said what broke."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from schedulerd.core import commit_room
from schedulerd.core.decide import preemption as decide_preemption
from schedulerd.core.decide import preemption_context
from schedulerd.core.decide.preemption_context import PreemptionContext, VictimQueue
from schedulerd.core.decide.victims import Budget, Candidate, VictimSet, WorkBudget, smallest_set
from schedulerd.core.handlers import preemption, reservations, reserving, waiting
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.request_class import RequestClass
from schedulerd.core.preemption_facts import PreemptionRefusal, ReservationEnd
from schedulerd.core.specs import PreemptionPolicy
from tests.sim.observations import Observations
from tests.sim.simulation import simulate

pytestmark = pytest.mark.interpreted

SEEDS = (8, 2, 5, 20, 11, 29, 14, 26)
STEPS = 500


def any_room_will_do(partition: Partition, request_class: RequestClass) -> Node | None:
    """What is kept for others is given away."""
    fits = (one for one in partition.node_order if one.available.lacks(request_class.items) is None)
    return next((one for one in fits if request_class.required_node in ("", one.node_id)), None)


def one_more(
    candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int], budget: WorkBudget | None = None
) -> VictimSet | None:
    """Somebody ends who need not."""
    everybody = list(candidates)
    found = smallest_set(everybody, need, unit, budget)
    if found is None or not found.victims:
        return found
    spare = [one.allocation for one in everybody if one.allocation not in found.victims]
    return VictimSet((*found.victims, *spare[:1]), found.cost)


def any_set(
    candidates: Iterable[Candidate], need: Mapping[str, int], unit: Mapping[str, int], budget: WorkBudget | None = None
) -> VictimSet | None:
    """Whom it harms does not matter: ranks are forgotten, and the largest go first."""
    return smallest_set([one._replace(rank=(0, 0)) for one in candidates], need, dict.fromkeys(unit, 1), budget)


END = reservations.end


def end_for_another_reason(turn: Any, reservation: Any, why: ReservationEnd) -> None:
    END(turn, reservation, ReservationEnd.QUOTA if why is ReservationEnd.NODE else why)


def policies(**ignored: None) -> SimpleNamespace:
    """The policies of queues, but for those that nobody takes notice of."""
    return SimpleNamespace(**{"FENCE": PreemptionPolicy.FENCE, "DISABLED": PreemptionPolicy.DISABLED, **ignored})


BREAKS: dict[str, tuple[object, str, Any, str]] = {
    "victims forget guarantees": (Budget, "times", lambda *_: None, "which is guaranteed"),
    "priorities do not count": (VictimQueue, "admits", lambda *_: True, "its priority is"),
    "fences do not hold": (preemption_context, "PreemptionPolicy", policies(FENCE=None), "nothing is guaranteed to it"),
    "nothing is spared": (preemption_context, "PreemptionPolicy", policies(DISABLED=None), "may not be ended"),
    "one victim too many": (decide_preemption, "smallest_set", one_more, "is not needed for"),
    "any victim will do": (decide_preemption, "smallest_set", any_set, "would have been enough"),
    "those who wait do not wait for long": (Application, "preemption_from_ns", lambda *_: 0, "it has waited for"),
    "nobody may claim anything": (
        PreemptionContext,
        "refusal",
        lambda *_: PreemptionRefusal.QUOTA,
        "no quota or limit is against",
    ),
    "nobody ends for anybody": (Application, "schedule_preemption", lambda *_: None, "room that others would make"),
    "nobody ends for a daemon": (preemption, "for_required_node", lambda *_: False, "room that others would make"),
    "nobody is found": (PreemptionContext, "may_end", lambda *_: iter(()), "would have been enough"),
    "what leaves is not counted": (commit_room, "_count_leaving", lambda *_: None, "leaving"),
    "kept room is given away": (Partition, "first_fit", any_room_will_do, "that is kept for others"),
    "room is kept for ever": (reservations, "on_expired", lambda *_: None, "room is kept for"),
    "what was kept in vain is kept again": (reservations, "due_ns", lambda *_: 0, "rests until"),
    "room is kept for anybody who goes": (reservations, "trim", lambda *_: None, "pending"),
    "room is kept on a node that is gone": (waiting, "forget_node", lambda *_: None, "reservations"),
    "void room is kept": (waiting, "_void", lambda *_: None, "takes nothing new"),
    "it ends for another reason": (reservations, "end", end_for_another_reason, "the quota is short, though"),
    "nobody says that room is made": (reservations, "room_made", lambda *_: None, "and nobody says so"),
    "room for what has no quota": (reserving, "_is_within_quotas", lambda *_: True, "the quota of"),
}


@pytest.mark.parametrize(("owner", "name", "broken", "sentence"), BREAKS.values(), ids=BREAKS.keys())
def test_a_simulation_finds_it(
    owner: object, name: str, broken: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert any(sentence in problem for seed in SEEDS for problem in problems(seed))


def problems(seed: int) -> list[str]:
    _, failure = simulate(seed, STEPS, Observations())
    return failure.problems if failure is not None else []
