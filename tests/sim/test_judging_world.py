"""A few seeds of the worlds whose resource managers have a say, every step judged; and then a calm end.

In half of them the callback streams are lost in the end, whatever was asked there; in the others all is answered.
Either way everybody who waits has to come to an end, and nothing may be left.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from schedulerd.core import commit_room, view
from schedulerd.core.commands import Command, DisconnectCallbacks, GiveVerdicts, Verdict
from schedulerd.core.handlers import trials, verdicts
from schedulerd.core.invariants import violations
from schedulerd.core.model.application import Application
from schedulerd.core.scheduler import Scheduler
from tests.sim.auditor import Auditor
from tests.sim.calm import calm, leftovers, settling
from tests.sim.judging_world import (
    EXPECTED,
    JudgingContestedWorld,
    JudgingGangWorld,
    JudgingWorld,
    _Judging,
)
from tests.sim.simulation import commands, new_scheduler

WORLDS: tuple[type[_Judging], ...] = (JudgingWorld, JudgingGangWorld, JudgingContestedWorld)
SEEDS = (*range(1, 7), 8, 16)
STEPS = 400


class Play:
    """One seed, from the first step to the last."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.seen: Counter[str] = Counter()
        self.world = WORLDS[seed % len(WORLDS)](seed)
        self.scheduler: Scheduler = new_scheduler()
        self._auditor = Auditor()
        self._now_ns = 0

    def problems(self) -> list[str]:
        """What is wrong after the first step after which anything is."""
        for now_ns, command in commands(self.world, self.scheduler, STEPS):
            found = self._step(now_ns, command)
            if found:
                return found
        return self._ends_well()

    def _step(self, now_ns: int, command: Command) -> list[str]:
        self._now_ns = now_ns
        were_down = {ask for one in self.scheduler.cluster.partitions() for _, ask in one.turned_down}
        facts = self.scheduler.step(now_ns, command)
        found = violations(self.scheduler)
        self._auditor.take(facts)
        found += self._auditor.problems(view.resource_managers(self.scheduler))
        for memory in self.world.memories.values():
            found += memory.hear(command, facts)
        for calls in self.world.calls.values():
            found += calls.hear(now_ns, command, facts, self.seen)
            rm = self.scheduler.cluster.resource_managers.get(calls.rm_id)
            if set(calls.open) != set(rm.callbacks.open_trials if rm is not None else ()):
                found.append(f"{calls.rm_id} does not know what it is asked")
        are_down = {ask for one in self.scheduler.cluster.partitions() for _, ask in one.turned_down}
        self.seen["turned down"] += bool(are_down - were_down)
        self.seen["called back"] += any(ask.pending for ask in were_down - are_down)
        return [f"seed {self.seed} at {now_ns} after {command}:", *found] if found else []

    def _answers(self) -> list[str]:
        """Says yes to everything."""
        for calls in self.world.calls.values():
            if calls.open:
                agreed = [Verdict(call_id, "", getattr(one, "start_index", 0)) for call_id, one in calls.open.items()]
                found = self._step(self._now_ns, GiveVerdicts(calls.rm_id, agreed))
                if found:
                    return found
        return []

    def _ends_well(self) -> list[str]:
        if self.seed % 2:
            for rm_id in self.world.memories:
                found = self._step(self._now_ns, DisconnectCallbacks(rm_id))
                if found:
                    return found
        for phase in (settling, calm):
            for now_ns, command in phase(self.scheduler, self.world.memories, self._now_ns):
                found = self._step(now_ns, command) or self._answers()
                if found:
                    return ["in calm,", *found]
        return [f"seed {self.seed}: {text}" for text in leftovers(self.scheduler)]


@cache
def outcome(seed: int) -> tuple[list[str], Counter[str]]:
    play = Play(seed)
    return play.problems(), play.seen


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_goes_wrong(seed: int) -> None:
    problems, _ = outcome(seed)
    assert problems == []


def test_every_situation_was_reached() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        seen.update(outcome(seed)[1])
    assert [sight for sight in EXPECTED if not seen[sight]] == []


def _nothing(*_: object, **__: object) -> None:
    return None


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        pytest.param(commit_room, "note_less_held", _nothing, id="room that was held wakes nobody"),
        pytest.param(Application, "review", _nothing, id="an ask on trial stays in its line"),
        pytest.param(trials, "review", _nothing, id="verdicts for asks that are gone are waited for"),
        pytest.param(verdicts, "_may_be_placed", lambda _: True, id="a verdict is not judged again"),
        pytest.param(trials, "on_rested", _nothing, id="nobody is called back after a while"),
        pytest.param(trials, "forget_all", _nothing, id="a stream that is gone is waited for"),
        pytest.param(trials, "finish", _nothing, id="a call is never over"),
    ],
)
def test_broken_code_is_found(owner: object, name: str, broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert any(_fails(seed) for seed in SEEDS)


def _fails(seed: int) -> bool:
    """Broken code may fall over before anybody judges it."""
    try:
        return bool(Play(seed).problems())
    except (AssertionError, KeyError, RuntimeError, TypeError):
        return True
