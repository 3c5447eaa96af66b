"""The one task that owns the scheduler: it takes commands from the inbox, steps them, and hands the facts on.

Nobody else calls `step`, so the scheduler needs no lock. Work is done in turns that hold the loop for about
`TURN_SECONDS`: some commands, one cycle if anything pending could move, then the facts of the whole turn to every sink
at once, which is what lets the responses be batched. A cycle is not queued behind the inbox: it ends the turn, so there
is never more than one, and a flood of requests cannot keep pods from being placed. How a turn is cut depends on the
clock, what the scheduler does does not: it sees one sequence of commands, and the same sequence gives the same facts.
"""

from __future__ import annotations

import asyncio
import reprlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from schedulerd.core.commands import Command, RingAlarms, RunCycle
from schedulerd.core.facts import Fact
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.pace import Pace
from schedulerd.instant import Instant, read_clocks

TURN_SECONDS = 0.005
"""How long commands are taken before the turn is closed. One more cycle and the encoding of responses come on top."""

DISMANTLE_SECONDS = 0.008
"""How long dropped state is freed after each turn; a turn that builds state up takes several times as long."""

DISMANTLED_EACH = 200
"""Pieces that are freed between two looks at the clock: some hundred microseconds."""

LAST_COMMANDS_MAX = 100
"""Commands that are remembered for the log line of a failed step."""

LAST_COMMANDS_BYTES_MAX = 1 << 20
"""Of the requests that these came with, the newest aside: what is read of a request takes up to 20 times its size."""

TRACEBACKS_PER_SECOND_MAX = 5
"""Of failed checks in the log; a client may cause as many as it sends items. All of them are counted."""

_ALARM_SLACK_SECONDS = 0.001
"""The loop's timers have a resolution of a millisecond; requeue a little late saves requeue twice."""

Sink = Callable[[Sequence[Fact], Instant], None]
"""Is given all facts of a turn, in order, and the time of its last step. Times in facts are monotonic."""

log = structlog.stdlib.get_logger(__name__)


class Stopwatch(Protocol):
    """Where the owner reports how long it held the loop."""

    def step_seconds(self, command_name: str, seconds: float) -> None: ...

    def cycle_seconds(self, seconds: float) -> None: ...


class Recorder(Protocol):
    """Whom the owner tells every step, from the first one on, in order."""

    def command(self, now: Instant, command: Command) -> None:
        """Comes before the step."""

    def facts(self, facts: Sequence[Fact]) -> None:
        """All that the step said; does not come if it raised."""


class StepFailed(Exception):
    """The scheduler raised: a bug of ours. Its state cannot be trusted any more, so the process has to end."""


class _Entry:
    __slots__ = ("command", "done", "size_bytes")

    def __init__(self, command: Command, done: asyncio.Future[list[Fact]] | None, size_bytes: int = 0) -> None:
        self.command = command
        self.done = done
        """Set for what was submitted from outside, which is also what counts against the bound of the inbox."""
        self.size_bytes = size_bytes


class Owner:
    """Runs `scheduler` on the current loop. `sinks` are called in order; what they raise counts as a failed step.

    The scheduler is stepped with the monotonic time, and every deadline is in it (SEMANTICS I19); recorder and sinks
    get the wall time of the step as well.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        sinks: Sequence[Sink],
        stopwatch: Stopwatch,
        *,
        inbox_max: int,
        placements_max: int,
        recorder: Recorder | None = None,
        clocks: Callable[[], Instant] = read_clocks,
    ) -> None:
        self._scheduler = scheduler
        self._sinks = tuple(sinks)
        self._stopwatch = stopwatch
        self._pace = Pace(placements_max)
        self._recorder = recorder
        self._clocks = clocks
        self._now = Instant(0, 0)
        self._inbox: asyncio.Queue[_Entry] = asyncio.Queue()
        self._room = asyncio.Semaphore(inbox_max)
        self._last_commands: deque[tuple[Instant, Command, int]] = deque()
        """With the time of the step, and the size of the request."""
        self._last_commands_bytes = 0
        self._facts: list[Fact] = []
        self._done: list[tuple[asyncio.Future[list[Fact]], list[Fact]]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ns: int | None = None
        self._tracebacks_second = self._tracebacks = 0
        """How many tracebacks were written in the second of the last one."""

    @property
    def depth(self) -> int:
        """Commands that wait in the inbox."""
        return self._inbox.qsize()

    def attach(self, sink: Sink) -> None:
        """Calls one more sink, after the others, from the next turn on."""
        self._sinks = (*self._sinks, sink)

    def detach(self, sink: Sink) -> None:
        """Does not call it any longer."""
        self._sinks = tuple(one for one in self._sinks if one != sink)

    async def submit(self, command: Command, size_bytes: int = 0) -> asyncio.Future[list[Fact]]:
        """Queues what was sent from outside; waits while the inbox is full, which is what slows a reader down.

        `size_bytes` is that of the request it came with, if that may be large. The future is done when the scheduler
        has taken the command and every sink has seen what it said, which is the result of the future.
        """
        await self._room.acquire()
        done: asyncio.Future[list[Fact]] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait(_Entry(command, done, size_bytes))
        return done

    def post(self, command: Command) -> None:
        """Queues what the daemon itself has to say about a link; never waits, and there are only a few per link."""
        self._inbox.put_nowait(_Entry(command, None))

    async def run(self) -> None:
        """Takes turns for ever, and sleeps when there is nothing to do. Raises `StepFailed`."""
        dismantles = False
        try:
            while True:
                if self._inbox.empty() and not self._scheduler.wants_cycle() and not dismantles:
                    self._turn(await self._inbox.get())
                else:
                    self._turn(None if self._inbox.empty() else self._inbox.get_nowait())
                self._arm()
                await asyncio.sleep(0)
                dismantles = self._dismantle()
                if dismantles:
                    await asyncio.sleep(0)
        finally:
            self._disarm()

    def _turn(self, entry: _Entry | None) -> None:
        try:
            self._steps(entry)
            self._tell()
        except Exception as error:
            log.critical(
                "step failed",
                exc_info=error,
                last_commands=[f"{now.wall_ns} {_SHORT.repr(command)}" for now, command, _ in self._last_commands],
            )
            raise StepFailed(f"{type(error).__name__}: {error}") from error

    def _steps(self, entry: _Entry | None) -> None:
        started = time.perf_counter()
        while entry is not None:
            before = time.perf_counter()
            facts = self._step(entry.command, entry.size_bytes)
            after = time.perf_counter()
            self._stopwatch.step_seconds(type(entry.command).__name__, after - before)
            if entry.done is not None:
                self._room.release()
                self._done.append((entry.done, facts))
            entry = None if after - started > TURN_SECONDS or self._inbox.empty() else self._inbox.get_nowait()
        if self._scheduler.wants_cycle():
            before = time.perf_counter()
            facts = self._step(RunCycle(self._pace.placements))
            seconds = time.perf_counter() - before
            self._stopwatch.cycle_seconds(seconds)
            self._pace.took(seconds, facts)

    def _dismantle(self) -> bool:
        """Frees some of what was dropped; returns whether there is more."""
        until = time.perf_counter() + DISMANTLE_SECONDS
        while self._scheduler.dismantle(DISMANTLED_EACH):
            if time.perf_counter() >= until:
                return True
        return False

    def _step(self, command: Command, size_bytes: int = 0) -> list[Fact]:
        self._now = self._clocks()
        self._remember(command, size_bytes)
        if isinstance(command, RingAlarms):
            self._alarm_ns = None
        if self._recorder is not None:
            self._recorder.command(self._now, command)
        facts = self._scheduler.step(self._now.monotonic_ns, command)
        if self._recorder is not None:
            self._recorder.facts(facts)
        if self._scheduler.failed_checks:
            self._log_failed_checks(self._scheduler.failed_checks)
        self._facts += facts
        return facts

    def _log_failed_checks(self, errors: Sequence[Exception]) -> None:
        """Writes the tracebacks; which items they are of is said by the facts, whose lines follow."""
        second = self._now.monotonic_ns // 1_000_000_000
        if second != self._tracebacks_second:
            self._tracebacks_second, self._tracebacks = second, 0
        for error in errors[: max(0, TRACEBACKS_PER_SECOND_MAX - self._tracebacks)]:
            self._tracebacks += 1
            log.error("exception while an item was checked: the item is rejected", exc_info=error)

    def _remember(self, command: Command, size_bytes: int) -> None:
        last = self._last_commands
        last.append((self._now, command, size_bytes))
        self._last_commands_bytes += size_bytes
        while len(last) > LAST_COMMANDS_MAX or (self._last_commands_bytes > LAST_COMMANDS_BYTES_MAX and len(last) > 1):
            self._last_commands_bytes -= last.popleft()[2]

    def _tell(self) -> None:
        facts, self._facts = self._facts, []
        if facts:
            for sink in self._sinks:
                sink(facts, self._now)
        done, self._done = self._done, []
        for future, said in done:
            if not future.done():
                future.set_result(said)

    def _arm(self) -> None:
        """Sets the one alarm to the scheduler's next deadline, unless it is set to it or rings (is in the inbox)."""
        deadline_ns = self._scheduler.next_deadline_ns()
        if deadline_ns == self._alarm_ns:
            return
        self._disarm()
        if deadline_ns is not None:
            delay_seconds = max(deadline_ns - self._clocks().monotonic_ns, 0) / 1e9 + _ALARM_SLACK_SECONDS
            self._alarm = asyncio.get_running_loop().call_later(delay_seconds, self._ring)
        self._alarm_ns = deadline_ns

    def _ring(self) -> None:
        self._alarm = None
        self.post(RingAlarms())

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


_SHORT = reprlib.Repr()
_SHORT.maxother = 400
