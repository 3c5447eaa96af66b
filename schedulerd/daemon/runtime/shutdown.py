"""The bounds of a shutdown: one for each step, and one for the whole.

The bound for the whole covers what no step can bound: a loop that is blocked, and a thread in a system call that does
not return (a file system that is gone). Python would wait for such a thread when it exits.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Collection, Iterable
from typing import Any

import structlog

from schedulerd.daemon.runtime.failures import ExitCode
from schedulerd.daemon.runtime.logs import flush

STEP_SECONDS_MAX = 3.0
"""Maximum duration of a step of the shutdown; after it the shutdown goes on."""

CLOSING_SECONDS_MAX = 15.0
"""How much longer than `drain_timeout_s` the whole shutdown may take; after it the process exits as it is. More than
the sum of the bounds of all steps."""

LAST_LINE_SECONDS = 1.0
"""How long writing the last log line may take: the reader of the log may be gone."""

NAMES_MAX = 20
"""Number of threads, and of tasks, that a log line about a shutdown names."""

log = structlog.stdlib.get_logger(__name__)


async def until_ended(step: str, tasks: Collection[asyncio.Task[Any]]) -> None:
    """Waits for the tasks of a step of the shutdown, `STEP_SECONDS_MAX` at most; logs the tasks that are left."""
    _, late = await asyncio.wait(tasks, timeout=STEP_SECONDS_MAX)
    if late:
        log.error(
            "step of the shutdown is not over in time: going on",
            step=step,
            seconds=STEP_SECONDS_MAX,
            tasks=_names(late),
        )


def exit_within(seconds: float, status: ExitCode) -> None:
    """Exits with `status` in `seconds` from now, if the process still runs. Call it on the running loop.

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
