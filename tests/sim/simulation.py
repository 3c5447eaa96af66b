"""Runs a world against the core and judges every step; what fails can be played again."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count

from schedulerd.config import matches
from schedulerd.core.language.commands import Command, RingAlarms
from schedulerd.core.scheduler import Scheduler
from tests.sim.autoscaled_world import AutoscaledGangWorld
from tests.sim.calm import calm, leftovers, settling
from tests.sim.clusters import TIMEOUTS, by_drf
from tests.sim.constrained_judging_world import (
    ConstrainedJudgingContestedWorld,
    ConstrainedJudgingGangWorld,
    ConstrainedJudgingWorld,
)
from tests.sim.constrained_world import ConstrainedWorld
from tests.sim.contested_world import ContestedWorld
from tests.sim.crowded_world import CrowdedWorld
from tests.sim.declared_world import DeclaredGangWorld, JudgingDeclaredGangWorld
from tests.sim.faults import Faults
from tests.sim.gang_world import GangWorld
from tests.sim.judge import AutoscaledJudge, DeclaredJudge, Judge, PredicateJudge
from tests.sim.judging_world import AnyJudgingWorld, JudgingContestedWorld, JudgingGangWorld, JudgingWorld
from tests.sim.limited_gang_world import LimitedGangWorld
from tests.sim.observations import Observations
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.shim_world import WORLDS as SHIM_WORLDS
from tests.sim.stopping_world import StoppingWorld
from tests.sim.world import Move, Sleep, World

START_NS = 1_700_000_000_000_000_000

CALM = "in calm,"
"""What a failure after the history begins with."""

DRF_EVERY, DRF_REST = 4, 0
"""One seed in so many, with this rest, has queue files with the order `drf`."""

WORLDS: tuple[type[World], ...] = (World, GangWorld, ContestedWorld)
EVERY_WORLD: tuple[type[World], ...] = (
    *WORLDS,
    CrowdedWorld,
    ConstrainedWorld,
    JudgingWorld,
    JudgingGangWorld,
    JudgingContestedWorld,
    ConstrainedJudgingWorld,
    ConstrainedJudgingGangWorld,
    ConstrainedJudgingContestedWorld,
)
"""Those that the seeds which are known to find mutants are about: another one here would make them other histories."""
DECLARED_WORLDS: tuple[type[World], ...] = (DeclaredGangWorld, JudgingDeclaredGangWorld)
SOAKED_WORLDS: tuple[type[World], ...] = (
    *EVERY_WORLD,
    *SHIM_WORLDS,
    StoppingWorld,
    LimitedGangWorld,
    *DECLARED_WORLDS,
    AutoscaledGangWorld,
)
"""Those of `python -m tests.sim`."""

History = list[tuple[int, Command]]
"""Every command with the time of its step."""


@dataclass(frozen=True, slots=True)
class Failure:
    step: int
    """Index into the history of the command after which it showed."""
    problems: list[str]
    history: History = field(repr=False)
    judge: type[Judge] = Judge
    """Who found it."""


def new_scheduler() -> Scheduler:
    uuids = count(1)
    return Scheduler(TIMEOUTS, lambda: f"uuid-{next(uuids)}", matches)


def simulate(
    seed: int,
    steps: int,
    observations: Observations,
    worlds: Sequence[type[World]] = WORLDS,
    *,
    is_faulty: bool = False,
    look_at_all_every: int = 1,
) -> tuple[History, Failure | None]:
    """`steps` moves of the seed's world and then a calm one; stops at the first step that is wrong.

    Which world a seed is about is what it leaves when divided by their number. The history is that of the world.
    `look_at_all_every` is that of the `Watch`.
    """
    world = worlds[seed % len(worlds)](seed)
    scheduler = new_scheduler()
    judge = _judge_of(world, scheduler, observations, look_at_all_every)
    moves: World | Faults = Faults(world, seed, observations.faults) if is_faulty else world
    history: History = []
    for now_ns, command in commands(moves, scheduler, steps):
        if seed % DRF_EVERY == DRF_REST:
            command = by_drf(command)
        history.append((now_ns, command))
        is_due = not isinstance(command, RingAlarms) and scheduler.next_deadline_ns() == now_ns
        observations["message at the instant of an alarm"] += is_due
        problems = _judged_step(scheduler, judge, now_ns, command)
        if problems:
            return history, Failure(len(history) - 1, problems, history, type(judge))
    return history, _calm(scheduler, judge, history)


def replay(history: History, judge: type[Judge] = Judge) -> Failure | None:
    """Plays recorded commands on a fresh scheduler and judges them the same way."""
    scheduler = new_scheduler()
    rm_ids = {getattr(command, "rm_id", "") for _, command in history} - {""}
    judging = judge(scheduler, {rm_id: ResourceManagerMemory(rm_id) for rm_id in sorted(rm_ids)}, Observations())
    for step, (now_ns, command) in enumerate(history):
        problems = _judged_step(scheduler, judging, now_ns, command)
        if problems:
            return Failure(step, problems, history[: step + 1], judge)
    return _calm(scheduler, judging, history)


def _judge_of(world: World, scheduler: Scheduler, observations: Observations, look_at_all_every: int) -> Judge:
    if isinstance(world, AutoscaledGangWorld):
        return AutoscaledJudge(scheduler, world.memories, observations, look_at_all_every, None, world.autoscalers)
    if isinstance(world, DeclaredGangWorld):
        calls = world.calls if isinstance(world, AnyJudgingWorld) else None
        return DeclaredJudge(scheduler, world.memories, observations, look_at_all_every, calls)
    if isinstance(world, AnyJudgingWorld):
        return PredicateJudge(scheduler, world.memories, observations, look_at_all_every, world.calls)
    kind = PredicateJudge if isinstance(world, ConstrainedWorld) else Judge
    return kind(scheduler, world.memories, observations, look_at_all_every)


def _calm(scheduler: Scheduler, judge: Judge, history: History) -> Failure | None:
    """What goes wrong when nothing does any longer: who has a right to room gets it, and everything ends."""
    start_ns = history[-1][0] if history else START_NS

    def failed(problems: list[str]) -> Failure:
        return Failure(len(history) - 1, problems, history, type(judge))

    phases: tuple[tuple[Callable[[int], Iterator[tuple[int, Command]]], Callable[[], list[str]]], ...] = (
        (partial(settling, scheduler, judge.memories), judge.denied),
        (judge.growing, judge.unserved),
        (partial(calm, scheduler, judge.memories), lambda: leftovers(scheduler)),
    )
    for phase, finds in phases:
        for now_ns, command in phase(start_ns):
            for said in chain((command,), judge.answers()):
                problems = _judged_step(scheduler, judge, now_ns, said)
                if problems:
                    return failed([f"{CALM} at {said}:", *problems])
            start_ns = now_ns
        problems = finds()
        if problems:
            return failed(problems)
    return None


def commands(world: World | Faults, scheduler: Scheduler, steps: int) -> Iterator[tuple[int, Command]]:
    """The world's moves as commands with their time; a sleep rings the alarms on its way."""
    now_ns = START_NS
    for move in chain((world.next_move() for _ in range(steps)), _last_moves(world)):
        if not isinstance(move, Sleep):
            yield now_ns, move
            continue
        end_ns = now_ns + move.duration_ns
        if move.to_deadline:
            end_ns = max(now_ns, scheduler.next_deadline_ns() or now_ns)
        while move.rings and (deadline_ns := scheduler.next_deadline_ns()) is not None and deadline_ns <= end_ns:
            now_ns = max(now_ns, deadline_ns)
            yield now_ns, RingAlarms()
        now_ns = end_ns


def _last_moves(world: World | Faults) -> Iterator[Move]:
    yield from world.last_moves()


def _judged_step(scheduler: Scheduler, judge: Judge, now_ns: int, command: Command) -> list[str]:
    try:
        return judge.after(now_ns, command, scheduler.step(now_ns, command))
    except Exception:  # noqa: BLE001 whatever comes out of a step is a finding, told with the seed that found it
        return [traceback.format_exc()]
