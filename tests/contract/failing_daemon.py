"""The daemon with a bug put into its core on purpose: an ask with the key `bug` makes the scheduler raise."""

from __future__ import annotations

from schedulerd.core.language.commands import Command, UpdateAllocations
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.scheduler import Scheduler
from tests.contract.measured_daemon import measured_main

_step = Scheduler.step


def _failing_step(self: Scheduler, now_ns: int, command: Command) -> list[Fact]:
    if isinstance(command, UpdateAllocations) and any(ask.allocation_key == "bug" for ask in command.asks):
        raise ZeroDivisionError("put here by a test")
    return _step(self, now_ns, command)


if __name__ == "__main__":
    Scheduler.step = _failing_step  # type: ignore[method-assign]
    measured_main()
