"""The bounds of a shutdown: of each step, and of all of it.

The bound of all is for what no step can bound: a loop that is held, and a thread in a system call that does not return
(a file system that is gone), for which Python waits when it exits.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Collection, Iterable
from typing import Any

import structlog

from schedulerd.daemon.failures import ExitCode
from schedulerd.daemon.logs import flush

STEP_SECONDS_MAX = 3.0
"""How long a step of a shutdown may take; the shutdown goes on without it then."""

CLOSING_SECONDS_MAX = 15.0
"""How much longer than `drain_timeout_s` a shutdown may take, all of it; then the process exits as it is. More than all
steps take together, each at its bound."""

LAST_LINE_SECONDS = 1.0
"""How long the last line in the log may take: nobody may read what the process writes any more."""

NAMES_MAX = 20
"""Threads, and tasks, that a log line about a shutdown names."""

log = structlog.stdlib.get_logger(__name__)


async def until_ended(step: str, tasks: Collection[asyncio.Task[Any]]) -> None:
    """Waits for the tasks of a step of the shutdown, `STEP_SECONDS_MAX` at most; the log says which are left."""
    _, late = await asyncio.wait(tasks, timeout=STEP_SECONDS_MAX)
    if late:
        log.error(
            "step of the shutdown is not over in time: going on",
            step=step,
            seconds=STEP_SECONDS_MAX,
            tasks=_names(late),
        )


def exit_within(seconds: float, status: ExitCode) -> None:
    """Ends the process in `seconds` from now, with `status`, if it is still there. Call it on the running loop.

    The log line names the threads that Python waits for, and the tasks of the loop.
    """
    loop = asyncio.get_running_loop()

    def say() -> None:
        threads = sorted(thread.name for thread in threading.enumerate() if not thread.daemon)
        tasks = [] if loop.is_closed() else _names(asyncio.all_tasks(loop))
        log.error("shutdown is not over in time: exiting", seconds=seconds, threads=_cut(threads), tasks=tasks)
        flush()

    def give_up() -> None:
        saying = threading.Thread(target=say, name="last line", daemon=True)
        saying.start()
        saying.join(LAST_LINE_SECONDS)
        os._exit(status)

    timer = threading.Timer(seconds, give_up)
    timer.name, timer.daemon = "shutdown timer", True
    timer.start()


def _names(tasks: Iterable[asyncio.Task[Any]]) -> list[str]:
    return _cut(sorted(repr(task.get_coro()) for task in tasks))


def _cut(names: list[str]) -> list[str]:
    left_out = len(names) - NAMES_MAX
    return [*names[:NAMES_MAX], f"and {left_out} more"] if left_out > 0 else names
