"""Runs the world against the core, judges every step, and shortens what fails to what it takes to fail."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from itertools import chain, count

from schedulerd.core import view
from schedulerd.core.commands import Command, RingAlarms
from schedulerd.core.facts import Fact, ResourceManagerChanged
from schedulerd.core.invariants import violations
from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.core.scheduler import Scheduler
from tests.sim.auditor import Auditor
from tests.sim.calm import calm, leftovers, settling
from tests.sim.clusters import TIMEOUTS
from tests.sim.contested_world import ContestedWorld
from tests.sim.gang_law import GangLaw
from tests.sim.gang_world import GangWorld
from tests.sim.oracle import misplaced, overlooked
from tests.sim.rm_memory import ResourceManagerMemory
from tests.sim.room_law import RoomLaw
from tests.sim.sightings import Sightings
from tests.sim.world import Move, Sleep, World

START_NS = 1_700_000_000_000_000_000
COMMANDS_REPLAYED_MAX = 15_000
"""So much work may go into shortening a failure, some 20 s."""

CALM = "in calm,"
"""What a failure after the history begins with."""

WORLDS = (World, GangWorld, ContestedWorld)
"""Which one a seed is about is what it leaves when divided by their number."""

History = list[tuple[int, Command]]
"""Every command with the time of its step."""


@dataclass(frozen=True, slots=True)
class Failure:
    step: int
    """Index into the history of the command after which it showed."""
    problems: list[str]
    history: History = field(repr=False)


def new_scheduler() -> Scheduler:
    uuids = count(1)
    return Scheduler(TIMEOUTS, lambda: f"uuid-{next(uuids)}")


class Judge:
    """Everything that has to hold after every step."""

    def __init__(self, scheduler: Scheduler, memories: dict[str, ResourceManagerMemory], sightings: Sightings) -> None:
        self._scheduler = scheduler
        self._auditor = Auditor()
        self._gang_law = GangLaw()
        self._room_law = RoomLaw(sightings)
        self.memories = memories
        self._sightings = sightings

    def after(self, now_ns: int, command: Command, facts: Sequence[Fact]) -> list[str]:
        """What is wrong after this step, as sentences."""
        self._note_dropped(facts)
        problems = violations(self._scheduler)
        state = view.resource_managers(self._scheduler)
        self._auditor.take(facts)
        problems += self._auditor.problems(state)
        shown = {rm.rm_id: rm for rm in state}
        for memory in self.memories.values():
            problems += memory.hear(command, facts)
            problems += memory.disagreements(shown.get(memory.rm_id))
        problems += misplaced(state, facts)
        problems += self._gang_law.after(now_ns, command, facts, state)
        problems += self._room_law.after(now_ns, command, facts, state)
        if not self._scheduler.wants_cycle():
            problems += overlooked(state)
        self._sightings.observe(command, facts, state)
        return problems

    def denied(self) -> list[str]:
        """Who has a right to room, and would get it if others ended, when everything has settled."""
        return self._room_law.denied(view.resource_managers(self._scheduler))

    def _note_dropped(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, ResourceManagerChanged) and fact.state is ResourceManagerState.INIT:
                dropped = bool(self.memories[fact.rm_id].held)
                self._sightings["re-registration that drops allocations"] += dropped


def simulate(seed: int, steps: int, sightings: Sightings) -> tuple[History, Failure | None]:
    """`steps` moves of the seed's world and then a calm one; stops at the first step that is wrong.

    The history is that of the world.
    """
    world = WORLDS[seed % len(WORLDS)](seed)
    scheduler = new_scheduler()
    judge = Judge(scheduler, world.memories, sightings)
    history: History = []
    for now_ns, command in commands(world, scheduler, steps):
        history.append((now_ns, command))
        is_due = not isinstance(command, RingAlarms) and scheduler.next_deadline_ns() == now_ns
        sightings["message at the instant of an alarm"] += is_due
        problems = _judged_step(scheduler, judge, now_ns, command)
        if problems:
            return history, Failure(len(history) - 1, problems, history)
    return history, _calm(scheduler, judge, history)


def replay(history: History) -> Failure | None:
    """Plays recorded commands on a fresh scheduler and judges them the same way."""
    scheduler = new_scheduler()
    rm_ids = {getattr(command, "rm_id", "") for _, command in history} - {""}
    judge = Judge(scheduler, {rm_id: ResourceManagerMemory(rm_id) for rm_id in sorted(rm_ids)}, Sightings())
    for step, (now_ns, command) in enumerate(history):
        problems = _judged_step(scheduler, judge, now_ns, command)
        if problems:
            return Failure(step, problems, history[: step + 1])
    return _calm(scheduler, judge, history)


def _calm(scheduler: Scheduler, judge: Judge, history: History) -> Failure | None:
    """What goes wrong when nothing does any longer: who has a right to room gets it, and everything ends."""
    start_ns = history[-1][0] if history else START_NS
    for phase, finds in ((settling, judge.denied), (calm, lambda: leftovers(scheduler))):
        for now_ns, command in phase(scheduler, judge.memories, start_ns):
            problems = _judged_step(scheduler, judge, now_ns, command)
            if problems:
                return Failure(len(history) - 1, [f"{CALM} at {command}:", *problems], history)
            start_ns = now_ns
        problems = finds()
        if problems:
            return Failure(len(history) - 1, problems, history)
    return None


def shorten(failure: Failure, fails: Callable[[History], Failure | None] = replay) -> Failure:
    """Leaves out ever smaller pieces of the history, then single items of commands, as long as the rest still fails.

    It has to fail in the same way: with commands left out, UUIDs are given out otherwise than the rest of them says.
    """
    work = 0
    kinds = _kinds(failure)

    def attempt(shorter: History) -> bool:
        nonlocal failure, work
        work += len(shorter)
        found = fails(shorter) if work <= COMMANDS_REPLAYED_MAX else None
        if found is None or not kinds & _kinds(found):
            return False
        failure = found
        return True

    piece = len(failure.history) // 2
    while piece:
        start = 0
        while start < len(failure.history):
            if not attempt(failure.history[:start] + failure.history[start + piece :]):
                start += piece
        piece //= 2
    at = 0
    while at < len(failure.history):
        now_ns, command = failure.history[at]
        before, after = failure.history[:at], failure.history[at + 1 :]
        if not any(attempt([*before, (now_ns, smaller), *after]) for smaller in _with_one_item_less(command)):
            at += 1
    return failure


def _kinds(failure: Failure) -> set[str]:
    """What is wrong, whoever it is wrong with: the last lines of the problems without anything that has a number."""
    lines = [problem.rstrip().splitlines()[-1] for problem in failure.problems if not problem.startswith(CALM)]
    return {re.sub(r"\S*\d\S*", "#", line) for line in lines}


def _with_one_item_less(command: Command) -> Iterator[Command]:
    for one in fields(command):
        items = getattr(command, one.name)
        for at in range(len(items) if isinstance(items, list) else 0):
            smaller = copy(command)
            setattr(smaller, one.name, items[:at] + items[at + 1 :])
            yield smaller


def commands(world: World, scheduler: Scheduler, steps: int) -> Iterator[tuple[int, Command]]:
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


def _last_moves(world: World) -> Iterator[Move]:
    yield from world.last_moves()


def _judged_step(scheduler: Scheduler, judge: Judge, now_ns: int, command: Command) -> list[str]:
    try:
        return judge.after(now_ns, command, scheduler.step(now_ns, command))
    except Exception:  # noqa: BLE001 whatever comes out of a step is a finding, told with the seed that found it
        return [traceback.format_exc()]
