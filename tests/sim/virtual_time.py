"""A scheduler under a clock that only moves when it is told to.

It stands where the daemon's shell stands: it supplies the time of every step and enqueues `RingAlarms` when the
scheduler's next deadline is reached, so that nothing above it waits for real time.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.commands import Command, RingAlarms
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.scheduler import Scheduler

RINGS_PER_INSTANT_MAX = 1_000
"""More rings than this without time moving on means that an alarm never goes away."""


class AlarmStuckError(AssertionError):
    """The scheduler's next deadline stays where it is although its alarms were rung."""


class VirtualTime:
    def __init__(self, scheduler: Scheduler, now_ns: int) -> None:
        self.scheduler = scheduler
        self.now_ns = now_ns

    def step(self, command: Command) -> list[Fact]:
        facts = self.scheduler.step(self.now_ns, command)
        for error in self.scheduler.failed_checks:
            raise error
        return facts

    def sleep(self, duration_ns: int) -> Iterator[list[Fact]]:
        """Moves time on, stops at each deadline on the way to ring, and yields the facts of each ring."""
        end_ns = self.now_ns + duration_ns
        rings = 0
        while (deadline_ns := self.scheduler.next_deadline_ns()) is not None and deadline_ns <= end_ns:
            if deadline_ns > self.now_ns:
                self.now_ns = deadline_ns
                rings = 0
            rings += 1
            if rings > RINGS_PER_INSTANT_MAX:
                raise AlarmStuckError(f"deadline {deadline_ns} ns still stands after {rings - 1} RingAlarms")
            yield self.step(RingAlarms())
        self.now_ns = end_ns
