"""The one task that owns the scheduler: it steps the commands of the inbox and passes the facts to the sinks.

No other task calls `step`, so the scheduler needs no lock. The owner works in turns that hold the loop for about
`TURN_SECONDS`: some commands, one cycle if the scheduler wants one, then the facts of the whole turn to every sink at
once, so that responses are batched. A cycle is not queued in the inbox but ends the turn. So there is never more than
one, and a flood of requests cannot keep pods from being allocated. The clock decides where a turn ends. The facts
depend on the sequence of commands alone: the same sequence gives the same facts.
"""

from __future__ import annotations

import asyncio
import reprlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from schedulerd.core.language.commands import Command, RingAlarms, RunCycle
from schedulerd.core.language.facts.fact import CycleRan, Fact
from schedulerd.core.scheduler import Scheduler
from schedulerd.instant import Instant, read_clocks

CYCLE_SECONDS = 0.005
"""What a cycle is to take. Requests and responses wait for its end."""

PLACEMENTS_MIN = 20
"""Below this the cost of a turn outweighs that of what is placed in it."""

_FIRST_GUESS_SECONDS = 50e-6
_WEIGHT = 1 / 8
"""Of the last cycle in the average: a pause of the machine does not make the next cycles short."""

TURN_SECONDS = 0.005
"""How long a turn takes commands from the inbox. A cycle and the encoding of responses come on top."""

DISMANTLE_SECONDS = 0.008
"""How long dropped state is freed after each turn. A turn that builds up state takes several times as long."""

DISMANTLED_EACH = 200
"""Number of pieces freed between two readings of the clock; this takes some hundred microseconds."""

LAST_COMMANDS_MAX = 100
"""Number of commands that are kept for the log line of a failed step."""

LAST_COMMANDS_BYTES_MAX = 1 << 20
"""Maximum total size of the requests of the kept commands; the newest is kept in any case. A decoded request takes up
to 20 times its size in memory."""

TRACEBACKS_PER_SECOND_MAX = 5
"""Tracebacks of failed checks. A client can cause one with each item it sends; all failures are counted."""

HELD_SECONDS = 0.1
"""A loop that was held for longer may have timers that became due while nothing was read."""

QUIET_SECONDS = 0.25
"""All input that arrived while the loop was held has been read when nothing more comes for this time."""

INPUT_FIRST_SECONDS_MAX = 30.0
"""Alarms wait for such input at most for this time, and at most for as long as the loop was held: a flood of requests
cannot keep them from ringing."""

_ALARM_SLACK_SECONDS = 0.001
"""The loop's timers have a resolution of a millisecond. Setting an alarm slightly late avoids waking up twice."""

Sink = Callable[[Sequence[Fact], Instant], None]
"""Called with all facts of a turn, in order, and the time of the turn's last step. Times in facts are monotonic."""

log = structlog.stdlib.get_logger(__name__)


class Stopwatch(Protocol):
    """Receives how long each step and each cycle held the loop."""

    def step_seconds(self, command_name: str, seconds: float) -> None: ...

    def cycle_seconds(self, seconds: float) -> None: ...


class Recorder(Protocol):
    """Receives every command and its facts, in order, from the first step on."""

    def command(self, now: Instant, command: Command) -> None:
        """Called before the step."""

    def facts(self, facts: Sequence[Fact]) -> None:
        """Called after the step with all its facts; not called if the step raised."""


class StepFailed(Exception):
    """The scheduler or a sink raised: a bug of schedulerd. The state cannot be trusted, so the process has to end."""


class _Entry:
    __slots__ = ("command", "done", "size_bytes")

    def __init__(self, command: Command, done: asyncio.Future[list[Fact]] | None, size_bytes: int = 0) -> None:
        self.command = command
        self.done = done
        """Set for a submitted command. None for a posted one, which does not count against the bound of the inbox."""
        self.size_bytes = size_bytes


class Pace:
    """How long a cycle may be, in allocations: as many as take a few milliseconds here and now.

    An allocation costs two to three times as much in a cluster of a hundred thousand nodes as in one of a thousand, and
    machines differ as well. The bound itself is a count and part of the command, so what the scheduler does is still a
    function of its commands alone.
    """

    def __init__(self, placements_max: int) -> None:
        """`placements_max` is never exceeded, however fast it goes."""
        self._placements_max = placements_max
        self._seconds_each = _FIRST_GUESS_SECONDS

    @property
    def placements(self) -> int:
        """That the next cycle may make."""
        return min(self._placements_max, max(PLACEMENTS_MIN, int(CYCLE_SECONDS / self._seconds_each)))

    def took(self, seconds: float, facts: Sequence[Fact]) -> None:
        """A cycle that said this took so long. One that placed nothing does not tell what a placement takes."""
        ran = next((fact for fact in reversed(facts) if isinstance(fact, CycleRan)), None)
        if ran is not None and ran.allocations:
            self._seconds_each += (seconds / ran.allocations - self._seconds_each) * _WEIGHT


class Owner:
    """Runs `scheduler` on the current loop. `sinks` are called in order; if a sink raises, the step counts as failed.

    The scheduler is stepped with the monotonic time, which all deadlines use (SEMANTICS I19). The recorder and the
    sinks get the wall time of the step as well.
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
        self.worked_at = 0.0
        """When the last turn began, by `time.perf_counter`."""
        self._last_commands: deque[tuple[Instant, Command, int]] = deque()
        """The last commands, each with the time of its step and the size of its request in bytes."""
        self._last_commands_bytes = 0
        self._facts: list[Fact] = []
        self._done: list[tuple[asyncio.Future[list[Fact]], list[Fact]]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ns: int | None = None
        self._rang_ns: int | None = None
        """When the RingAlarms that is in the inbox came there; None if none is."""
        self._input_first_until = 0.0
        """Until when alarms wait for input that arrived while the loop was held, by the loop's clock; 0.0 if they do
        not."""
        self._heard_at = 0.0
        """When input came last, while alarms wait for it, by the loop's clock."""
        self._tracebacks_second = self._tracebacks = 0
        """The monotonic second of the last failed check, and the number of tracebacks written in it."""

    @property
    def depth(self) -> int:
        """Number of commands in the inbox."""
        return self._inbox.qsize()

    def attach(self, sink: Sink) -> None:
        """Adds a sink behind the others; it is called from the next turn on."""
        self._sinks = (*self._sinks, sink)

    def detach(self, sink: Sink) -> None:
        """Stops calling a sink."""
        self._sinks = tuple(one for one in self._sinks if one != sink)

    async def submit(self, command: Command, size_bytes: int = 0) -> asyncio.Future[list[Fact]]:
        """Queues a command that came from outside; waits while the inbox is full, which slows the stream's reader down.

        `size_bytes` is the size of the command's request, if that may be large. The returned future is done when the
        scheduler has taken the command and every sink has seen its facts; the result of the future is these facts.
        """
        await self._room.acquire()
        self._note_input()
        done: asyncio.Future[list[Fact]] = asyncio.get_running_loop().create_future()
        self._inbox.put_nowait(_Entry(command, done, size_bytes))
        return done

    def post(self, command: Command) -> None:
        """Queues a command of the daemon itself, of which there are a few for each RM session. Never waits."""
        self._note_input()
        self._inbox.put_nowait(_Entry(command, None))

    def was_held(self, seconds: float) -> None:
        """The loop did not turn for so long, because the process was stopped or something held it.

        Alarms that became due meanwhile are overdue for no fault of the clients, whose requests may lie in sockets. So
        what had arrived is read first: no alarm rings before nothing came for a moment, or the bound is reached.
        """
        if seconds > HELD_SECONDS:
            now = asyncio.get_running_loop().time()
            until = now + min(seconds, INPUT_FIRST_SECONDS_MAX)
            self._input_first_until = max(self._input_first_until, until)
            self._heard_at = now

    def _note_input(self) -> None:
        if self._input_first_until:
            self._heard_at = asyncio.get_running_loop().time()

    def _is_input_first(self) -> bool:
        """Whether alarms wait for input; if so, they are tried again in a moment."""
        if not self._input_first_until:
            return False
        loop = asyncio.get_running_loop()
        again_at = min(self._heard_at + QUIET_SECONDS, self._input_first_until)
        is_reading = not self._inbox.empty() or self._room.locked()
        if is_reading:
            again_at = min(max(again_at, loop.time() + QUIET_SECONDS), self._input_first_until)
        if loop.time() < again_at:
            self._disarm()
            self._alarm = loop.call_at(again_at, self._ring)
            return True
        self._input_first_until = 0.0
        return False

    async def run(self) -> None:
        """Runs turns forever, and sleeps while there is nothing to do. Raises `StepFailed`."""
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
        started = self.worked_at = time.perf_counter()
        while entry is not None:
            before = after = time.perf_counter()
            facts: list[Fact] = []
            if not isinstance(entry.command, RingAlarms) or self._may_ring():
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

    def _may_ring(self) -> bool:
        """Whether the RingAlarms that comes up in the inbox is stepped now, and does not wait for input."""
        self._note_gap(self._clocks().monotonic_ns)
        self._rang_ns = None
        return not self._is_input_first()

    def _note_gap(self, now_ns: int) -> None:
        """Notes if the loop was held since the RingAlarms came to the inbox: it would ring what became due since."""
        if self._rang_ns is not None:
            self.was_held((now_ns - max(self._rang_ns, self._now.monotonic_ns)) / 1e9)

    def _dismantle(self) -> bool:
        """Frees some of the dropped state; returns whether there is more."""
        until = time.perf_counter() + DISMANTLE_SECONDS
        while self._scheduler.dismantle(DISMANTLED_EACH):
            if time.perf_counter() >= until:
                return True
        return False

    def _step(self, command: Command, size_bytes: int = 0) -> list[Fact]:
        now = self._clocks()
        self._note_gap(now.monotonic_ns)
        self._now = now
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
        """Writes the tracebacks. The facts name the items that failed, and their log lines follow."""
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
        """Sets the timer to the scheduler's next deadline, unless it is set or its RingAlarms is in the inbox."""
        deadline_ns = self._scheduler.next_deadline_ns()
        if deadline_ns == self._alarm_ns:
            return
        self._disarm()
        if deadline_ns is not None:
            delay_seconds = max(deadline_ns - self._clocks().monotonic_ns, 0) / 1e9 + _ALARM_SLACK_SECONDS
            self._alarm = asyncio.get_running_loop().call_later(delay_seconds, self._ring)
        self._alarm_ns = deadline_ns

    def _ring(self) -> None:
        assert self._alarm is not None
        self.was_held(asyncio.get_running_loop().time() - self._alarm.when())
        self._alarm = None
        self._rang_ns = self._clocks().monotonic_ns
        self._inbox.put_nowait(_Entry(RingAlarms(), None))

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


_SHORT = reprlib.Repr()
_SHORT.maxother = 400
