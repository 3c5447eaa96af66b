"""A step of a shutdown is waited for as long as it may take, and what is left is named."""

from __future__ import annotations

import asyncio
import threading

import pytest
from structlog.testing import capture_logs

from schedulerd.daemon.admin.http import SHUTDOWN_TIMEOUT_SECONDS
from schedulerd.daemon.runtime import shutdown
from schedulerd.daemon.runtime.failures import ExitCode
from schedulerd.daemon.runtime.shutdown import (
    CLOSING_SECONDS_MAX,
    NAMES_MAX,
    STEP_SECONDS_MAX,
    exit_within,
    until_ended,
)
from schedulerd.daemon.server import LAST_CALLS_SECONDS
from schedulerd.journal_files.writer import CLOSE_SECONDS
from tests.unit import virtual_loop

LIMIT_SECONDS = 20.0


async def forever() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


def test_a_step_that_ends_is_waited_for_and_one_that_does_not_is_left() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        with capture_logs() as lines:
            await until_ended("quick", {asyncio.create_task(asyncio.sleep(STEP_SECONDS_MAX - 1))})
        assert (loop.time(), lines) == (STEP_SECONDS_MAX - 1, [])

        began = loop.time()
        never = asyncio.create_task(forever())
        with capture_logs() as lines:
            await until_ended("slow", {never})
        assert loop.time() - began == STEP_SECONDS_MAX
        assert (lines[0]["step"], lines[0]["log_level"]) == ("slow", "error")
        assert "forever" in lines[0]["tasks"][0]
        for _ in range(2):
            never.cancel()
            await asyncio.sleep(0)

    virtual_loop.run(story())


@pytest.mark.parametrize("more", [0, 3])
def test_so_many_of_what_is_left_are_named_and_the_others_counted(more: int) -> None:
    async def story() -> None:
        tasks = [asyncio.create_task(asyncio.Event().wait()) for _ in range(NAMES_MAX + more)]
        with capture_logs() as lines:
            await until_ended("slow", tasks)
        assert len(lines[0]["tasks"]) == NAMES_MAX + bool(more)
        assert (lines[0]["tasks"][-1] == f"and {more} more") == bool(more)

    virtual_loop.run(story())


def test_the_process_exits_even_if_the_last_line_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    exits: list[int] = []
    exited, written = threading.Event(), threading.Event()

    def exit_(status: int) -> None:
        exits.append(status)
        exited.set()

    monkeypatch.setattr(shutdown, "LAST_LINE_SECONDS", 0.01)
    monkeypatch.setattr(shutdown.log, "error", lambda *_, **__: written.wait())
    monkeypatch.setattr("os._exit", exit_)

    async def story() -> None:
        exit_within(0, ExitCode.STUCK)

    asyncio.run(story())
    assert exited.wait(LIMIT_SECONDS)
    written.set()
    assert exits == [ExitCode.STUCK]


def test_the_bound_of_all_is_above_that_of_all_steps() -> None:
    steps = [LAST_CALLS_SECONDS, STEP_SECONDS_MAX, STEP_SECONDS_MAX, STEP_SECONDS_MAX, CLOSE_SECONDS]
    assert sum(steps) < CLOSING_SECONDS_MAX
    assert SHUTDOWN_TIMEOUT_SECONDS < STEP_SECONDS_MAX
