"""The owner's turns, driven by the real scheduler and a clock that the test sets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from schedulerd.core.commands import (
    Command,
    ConnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RingAlarms,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.facts import Allocated, CheckFailed, Fact, ResourceManagerChanged
from schedulerd.core.lifecycles import ResourceManagerState
from schedulerd.core.resources import Resources
from schedulerd.core.specs import SECOND_NS, ConfigurationText, Timeouts
from schedulerd.daemon.runtime import owner as module
from schedulerd.daemon.runtime.owner import (
    DISMANTLE_SECONDS,
    DISMANTLED_EACH,
    TRACEBACKS_PER_SECOND_MAX,
    TURN_SECONDS,
    Owner,
    Recorder,
    Sink,
    StepFailed,
)
from schedulerd.instant import Instant
from tests.instants import at
from tests.unit.daemon.fake_call import turns
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, registration

SETUP: tuple[Command, ...] = (
    registration(),
    ConnectResourceManager("rm"),
    UpdateApplications("rm", [NewApplication("app-1", "root.a", user="u")]),
    UpdateNodes("rm", [NodeUpdate("node-1", NodeAction.CREATE, capacity=Resources(vcore=1000))]),
)


def asks(first: int, count: int) -> UpdateAllocations:
    keys = range(first, first + count)
    return UpdateAllocations("rm", asks=[NewAsk("app-1", f"pod-{key}", Resources(vcore=1)) for key in keys])


class World:
    """An owner with its scheduler, the facts that its sink got turn by turn, and the time."""

    def __init__(
        self,
        inbox_max: int = 100,
        scheduler: RecordingScheduler | None = None,
        sinks: Sequence[Sink] = (),
        recorder: Recorder | None = None,
    ) -> None:
        self.scheduler = scheduler or RecordingScheduler()
        self.turns: list[list[Fact]] = []
        self.times: Callable[[], int] = lambda: SECOND_NS
        """The monotonic clock."""
        self.set_ahead_ns = 0
        """How far the wall clock is set ahead of `tests.instants`."""
        self.owner = Owner(
            self.scheduler,
            [lambda facts, now: self.turns.append(list(facts)), *sinks],
            NoStopwatch(),
            inbox_max=inbox_max,
            placements_max=2,
            recorder=recorder,
            clocks=self._clocks,
        )

    def _clocks(self) -> Instant:
        now = at(self.times())
        return now._replace(wall_ns=now.wall_ns + self.set_ahead_ns)

    async def take(self, *commands: Command) -> None:
        """Submits and waits until all of it was told to the sinks."""
        for done in [await self.owner.submit(command) for command in commands]:
            await done


def run(world: World, play: Callable[[World], Coroutine[None, None, None]]) -> None:
    async def all_of_it() -> None:
        owner = asyncio.create_task(world.owner.run())
        async with asyncio.timeout(10):
            player = asyncio.create_task(play(world))
            await asyncio.wait({owner, player}, return_when=asyncio.FIRST_COMPLETED)
            for task in (player, owner):
                task.cancel()
            for ended in await asyncio.gather(owner, player, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    asyncio.run(all_of_it())


def test_commands_that_wait_are_one_turn_and_one_batch_of_facts() -> None:
    async def play(world: World) -> None:
        await world.take(*SETUP)
        assert len(world.turns) == 1
        assert world.scheduler.commands == [type(command).__name__ for command in SETUP]

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


def test_an_error_of_the_scheduler_ends_the_owner_with_the_last_commands_in_the_log() -> None:
    world = World()

    def broken_step(now_ns: int, command: Command) -> list[Fact]:
        raise KeyError("no such thing")

    async def play(world: World) -> None:
        await world.take(*SETUP)
        world.scheduler.step = broken_step  # type: ignore[method-assign]
        await world.take(asks(0, 1))

    with capture_logs() as lines, pytest.raises(StepFailed, match="no such thing"):
        run(world, play)
    (line,) = [line for line in lines if line["event"] == "step failed"]
    assert line["log_level"] == "critical"
    assert [("NewApplication" in text, "pod-0" in text) for text in line["last_commands"][2:]] == [
        (True, False),
        (False, False),
        (False, True),
    ]


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


def test_an_error_of_a_sink_is_no_less_serious() -> None:
    def broken_sink(facts: Sequence[Fact], now: Instant) -> None:
        raise ValueError("cannot count")

    async def play(world: World) -> None:
        await world.take(registration())

    with capture_logs(), pytest.raises(StepFailed, match="cannot count"):
        run(World(sinks=[broken_sink]), play)


def test_the_last_commands_are_bounded_in_number_and_each_is_short() -> None:
    async def play(world: World) -> None:
        await world.take(*SETUP)
        for number in range(module.LAST_COMMANDS_MAX):
            await world.take(asks(1000 * number, 100))
        world.owner.post(None)  # type: ignore[arg-type]  # what no caller does: the scheduler raises
        await asyncio.Event().wait()

    with capture_logs() as lines, pytest.raises(StepFailed):
        run(World(), play)
    (line,) = [line for line in lines if line["event"] == "step failed"]
    assert len(line["last_commands"]) == module.LAST_COMMANDS_MAX
    assert max(len(text) for text in line["last_commands"]) < 500


def test_the_last_commands_keep_no_more_than_so_much_of_large_requests() -> None:
    async def play(world: World) -> None:
        await world.take(*SETUP)
        for number in range(10):
            await (await world.owner.submit(asks(number, 1), size_bytes=module.LAST_COMMANDS_BYTES_MAX // 3))
        await (await world.owner.submit(asks(10, 1), size_bytes=10 * module.LAST_COMMANDS_BYTES_MAX))
        for number in range(11, 13):
            await (await world.owner.submit(asks(number, 1), size_bytes=module.LAST_COMMANDS_BYTES_MAX // 2))
        world.owner.post(None)  # type: ignore[arg-type]  # as above
        await asyncio.Event().wait()

    with capture_logs() as lines, pytest.raises(StepFailed):
        run(World(), play)
    (line,) = [line for line in lines if line["event"] == "step failed"]
    told = [text for text in line["last_commands"] if "UpdateAllocations" in text]
    assert [f"pod-{number}" in text for number, text in zip((11, 12), told, strict=True)] == [True, True]


def test_a_queue_file_is_not_among_the_last_commands() -> None:
    async def play(world: World) -> None:
        secret = ConfigurationText("hunter2 " * 10, "queues.yaml", "ABC")
        await world.take(replace(registration(), configuration=secret))
        world.owner.post(None)  # type: ignore[arg-type]  # as above
        await asyncio.Event().wait()

    with capture_logs() as lines, pytest.raises(StepFailed):
        run(World(), play)
    assert "RegisterResourceManager" in repr(lines)
    assert "hunter2" not in repr(lines)


def test_the_tracebacks_of_failed_checks_are_logged_a_few_in_a_second_and_life_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def raises(*_: object) -> None:
        raise LookupError("a bug")

    async def play(world: World) -> None:
        await world.take(*SETUP)
        with monkeypatch.context() as patch, capture_logs() as lines:
            patch.setattr("schedulerd.core.checks.identifier", raises)
            await world.take(asks(0, 2), asks(2, TRACEBACKS_PER_SECOND_MAX))
            world.times = lambda: 2 * SECOND_NS
            await world.take(asks(9, 1))
        assert [str(line["exc_info"]) for line in lines] == ["a bug"] * (TRACEBACKS_PER_SECOND_MAX + 1)
        assert {line["log_level"] for line in lines} == {"error"}
        said = [fact for turn in world.turns for fact in turn]
        assert len([fact for fact in said if isinstance(fact, CheckFailed)]) == TRACEBACKS_PER_SECOND_MAX + 3
        await world.take(asks(20, 1))
        assert any(isinstance(fact, Allocated) for turn in world.turns for fact in turn)

    run(World(), play)
