"""The owner's turns, driven by the real scheduler and a clock that the test sets."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from schedulerd.core.language.commands import (
    Command,
    ConnectResourceManager,
    RingAlarms,
    UpdateAllocations,
)
from schedulerd.core.language.facts.fact import Allocated, Fact, ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from schedulerd.daemon.runtime import owner as module
from schedulerd.daemon.runtime.owner import (
    DISMANTLE_SECONDS,
    DISMANTLED_EACH,
    TURN_SECONDS,
    StepFailed,
)
from schedulerd.instant import Instant
from tests.instants import at
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.recording import RecordingScheduler, registration
from tests.unit.daemon.runtime.owner_world import SETUP, World, asks, run


def test_commands_that_wait_are_one_turn_and_one_batch_of_facts() -> None:
    async def play(world: World) -> None:
        await world.take(*SETUP)
        assert len(world.turns) == 1
        assert world.scheduler.commands == [type(command).__name__ for command in SETUP]

    run(World(), play)


def test_it_says_when_it_last_had_something_to_do() -> None:
    async def play(world: World) -> None:
        before = time.perf_counter()
        await world.take(*SETUP)
        assert before < world.owner.worked_at < time.perf_counter()

    run(World(), play)


def test_a_turn_ends_with_one_cycle_until_nothing_can_be_placed() -> None:
    async def play(world: World) -> None:
        await world.take(*SETUP, asks(0, 5))
        await all_placed.wait()
        placed = [len([fact for fact in turn if isinstance(fact, Allocated)]) for turn in world.turns]
        assert placed == [2, 2, 1]
        assert world.scheduler.commands[len(SETUP) :] == ["UpdateAllocations", "RunCycle", "RunCycle", "RunCycle"]

    all_placed = asyncio.Event()
    placed_so_far: list[Fact] = []

    def count(facts: Sequence[Fact], now: Instant) -> None:
        placed_so_far.extend(fact for fact in facts if isinstance(fact, Allocated))
        if len(placed_so_far) == 5:
            all_placed.set()

    run(World(sinks=[count]), play)


def test_dropped_state_is_freed_between_turns_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each turn for so long, whatever comes meanwhile; and on when nothing comes."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    freed: list[tuple[int, int]] = []
    all_freed = asyncio.Event()

    class Dismantled(RecordingScheduler):
        """Has five slices of dropped state from its third command on."""

        left = 5

        def dismantle(self, count: int) -> bool:
            if len(self.stepped) < 3:
                return False
            clock.now += DISMANTLE_SECONDS / 2
            self.left -= 1
            freed.append((len(self.stepped), count))
            if not self.left:
                all_freed.set()
            return self.left > 0

    async def play(world: World) -> None:
        await world.take(*SETUP)
        await all_freed.wait()
        assert freed == [(len(SETUP), DISMANTLED_EACH)] * 5
        await world.take(asks(0, 1))

    run(World(scheduler=Dismantled()), play)


@pytest.mark.parametrize(("seconds", "in_a_turn"), [(TURN_SECONDS * 0.999, 2), (TURN_SECONDS * 1.001, 1)])
def test_a_flood_of_commands_does_not_keep_cycles_from_running(
    monkeypatch: pytest.MonkeyPatch, seconds: float, in_a_turn: int
) -> None:
    """Commands are taken until the turn has lasted so long; whoever is taken then is the last one before a cycle."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock.now))

    class Slow(RecordingScheduler):
        def step(self, now_ns: int, command: Command) -> list[Fact]:
            clock.now += seconds if isinstance(command, UpdateAllocations) else 0.0
            return super().step(now_ns, command)

    async def play(world: World) -> None:
        await world.take(*SETUP)
        await world.take(*(asks(10 * number, 10) for number in range(4)))
        turn = ["UpdateAllocations"] * in_a_turn + ["RunCycle"]
        assert world.scheduler.commands[len(SETUP) :] == turn * (4 // in_a_turn)

    run(World(scheduler=Slow()), play)


def test_submitting_to_a_full_inbox_waits() -> None:
    async def play(world: World) -> None:
        first = [await world.owner.submit(command) for command in SETUP]
        late = asyncio.create_task(world.take(asks(0, 1)))
        await turns()
        assert world.owner.depth == len(SETUP)
        owner = asyncio.create_task(world.owner.run())
        await asyncio.gather(*first, late)
        owner.cancel()
        assert world.scheduler.commands[: len(SETUP) + 2] == [
            *(type(command).__name__ for command in SETUP),
            "UpdateAllocations",
            "RunCycle",
        ]

    asyncio.run(asyncio.wait_for(play(World(inbox_max=len(SETUP))), 10))


def test_what_the_daemon_itself_says_never_waits() -> None:
    async def play(world: World) -> None:
        for _ in range(5):
            world.owner.post(ConnectResourceManager("rm"))
        assert world.owner.depth == 5
        await world.take(registration())
        assert world.scheduler.commands == ["ConnectResourceManager"] * 5 + ["RegisterResourceManager"]

    run(World(inbox_max=1), play)


HOUR_NS, DAY_NS = 3_600 * SECOND_NS, 86_400 * SECOND_NS


@pytest.mark.parametrize("set_ahead_ns", [-HOUR_NS, DAY_NS])
def test_a_wall_clock_that_is_set_rings_no_alarm_and_holds_back_none(set_ahead_ns: int) -> None:
    """One registers at 1 s and has 10 s to connect; the wall clock is set at 2 s."""

    async def play(world: World) -> None:
        world.times = lambda: SECOND_NS
        await world.take(registration())
        world.times, world.set_ahead_ns = lambda: 2 * SECOND_NS, set_ahead_ns
        world.owner.post(RingAlarms())
        await world.take(registration("other"))
        assert not stopped
        world.times = lambda: 11 * SECOND_NS
        world.owner.post(RingAlarms())
        await world.take(registration("other"))
        assert stopped == [Instant(11 * SECOND_NS, at(11 * SECOND_NS).wall_ns + set_ahead_ns)]

    stopped: list[Instant] = []

    def notice(facts: Sequence[Fact], now: Instant) -> None:
        changed = (fact for fact in facts if isinstance(fact, ResourceManagerChanged) and fact.rm_id == "rm")
        stopped.extend(now for fact in changed if fact.state is ResourceManagerState.STOPPED)

    run(World(scheduler=RecordingScheduler(Timeouts(reconnect_ns=10 * SECOND_NS)), sinks=[notice]), play)


def test_the_scheduler_is_stepped_with_the_monotonic_time_and_the_recorder_gets_both() -> None:
    async def play(world: World) -> None:
        await world.take(registration())
        world.times, world.set_ahead_ns = lambda: 2 * SECOND_NS, -HOUR_NS
        await world.take(ConnectResourceManager("rm"))
        assert [now_ns for now_ns, _ in world.scheduler.stepped] == [SECOND_NS, 2 * SECOND_NS]
        assert [now for now, _ in tape.begun] == [
            at(SECOND_NS),
            Instant(2 * SECOND_NS, at(2 * SECOND_NS).wall_ns - HOUR_NS),
        ]

    tape = Tape()
    run(World(recorder=tape), play)


def test_the_alarm_rings_when_a_deadline_has_come() -> None:
    async def play(world: World) -> None:
        # The registration is stepped at one time; when the alarm is set, the deadline has come already.
        times = itertools.chain([SECOND_NS], itertools.repeat(100 * SECOND_NS))
        world.times = lambda: next(times)
        await world.take(registration())
        await stopped.wait()
        assert world.scheduler.commands == ["RegisterResourceManager", "RingAlarms"]
        assert world.scheduler.next_deadline_ns() is None

    stopped = asyncio.Event()

    def notice(facts: Sequence[Fact], now: Instant) -> None:
        for fact in facts:
            if isinstance(fact, ResourceManagerChanged) and fact.state is ResourceManagerState.STOPPED:
                assert now == at(100 * SECOND_NS)
                stopped.set()

    run(World(scheduler=RecordingScheduler(Timeouts(reconnect_ns=10 * SECOND_NS)), sinks=[notice]), play)
    assert stopped.is_set()


def test_a_deadline_that_was_moved_moves_the_alarm() -> None:
    async def play(world: World) -> None:
        await world.take(registration())
        assert world.owner._alarm is not None
        await world.take(ConnectResourceManager("rm"))
        await asyncio.sleep(0)
        assert world.scheduler.next_deadline_ns() is None
        assert world.owner._alarm is None

    run(World(), play)


class Tape:
    """Records what it is told of each step: time and command before it, the facts after it."""

    def __init__(self) -> None:
        self.begun: list[tuple[Instant, Command]] = []
        self.said: list[Sequence[Fact]] = []

    def command(self, now: Instant, command: Command) -> None:
        assert len(self.begun) == len(self.said), "the step before has not ended"
        self.begun.append((now, command))

    def facts(self, facts: Sequence[Fact]) -> None:
        self.said.append(list(facts))


def test_a_recorder_is_told_every_step_with_its_time_and_what_it_said() -> None:
    async def play(world: World) -> None:
        world.times = itertools.count(SECOND_NS, 1000).__next__
        await world.take(*SETUP, asks(0, 5))
        await world.take(asks(5, 1))

    tape = Tape()
    world = World(recorder=tape)
    run(world, play)
    assert [(now.monotonic_ns, command) for now, command in tape.begun] == world.scheduler.stepped
    assert {"RunCycle", "UpdateAllocations"} <= {type(command).__name__ for _, command in tape.begun}
    assert [fact for facts in tape.said for fact in facts] == [fact for turn in world.turns for fact in turn]


def test_a_recorder_has_the_command_at_which_the_scheduler_raised() -> None:
    async def play(world: World) -> None:
        await world.take(*SETUP)
        world.owner.post(None)  # type: ignore[arg-type]  # what no caller does: the scheduler raises
        await asyncio.Event().wait()

    tape = Tape()
    world = World(recorder=tape)
    with capture_logs(), pytest.raises(StepFailed):
        run(world, play)
    assert [(now.monotonic_ns, command) for now, command in tape.begun] == world.scheduler.stepped
    assert len(tape.said) == len(tape.begun) - 1
