"""A command as a process: it reads its settings, runs until a signal comes, and ends in time, with an exit code."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import uvloop
from pydantic import BaseModel

from schedulerd.settings.layers import SettingsInvalid, load_layers

LOG = logging.getLogger(__name__)

EXIT_UNAVAILABLE = 69
"""Something that is needed cannot be reached or used, or a port is in use."""
EXIT_BUG = 70
EXIT_STUCK = 71
EXIT_CONFIG = 78

STOP_SECONDS = 10.0
"""For the end of everything, beyond the time for what is under way."""

Settings = TypeVar("Settings", bound=BaseModel)


def read_settings(model: type[Settings], prefix: str, flags: Mapping[str, object], file: Path | None) -> Settings:
    """Ends the process, with what is wrong, if they cannot be used."""
    try:
        return load_layers(model, prefix, flags, os.environ, file)
    except SettingsInvalid as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_CONFIG)


def run_and_exit(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Runs it on a loop of its own, and ends the process with its exit code."""
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        code = runner.run(work)
    except Exception:
        LOG.critical("a bug of schedulerd", exc_info=True)
        code = EXIT_BUG
    with contextlib.suppress(OSError):  # a connection that was not closed in time is no failure
        runner.close()
    sys.exit(code)


async def until_signal(work: Callable[[], Coroutine[Any, Any, int]], drain_timeout_s: float, note: str = "") -> int:
    """The exit code of `work`, or 0 after SIGTERM or SIGINT, by which it is cancelled. `note` is for the log.

    A second signal ends the process at once, and so does an end that takes `STOP_SECONDS` longer than
    `drain_timeout_s`.
    """
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    assert main is not None
    stopping = False

    def stop(number: signal.Signals) -> None:
        nonlocal stopping
        if stopping:
            os._exit(128 + number)
        stopping = True
        LOG.info("stopping after %s%s", number.name, note)
        _end_within(drain_timeout_s + STOP_SECONDS)
        main.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        return await work()
    except asyncio.CancelledError:
        if not stopping:
            raise
        return 0


def _end_within(seconds: float) -> None:
    """By a thread, as what does not end may be the loop itself."""

    def end() -> None:
        LOG.critical("the process has not ended within %g s after it was told to", seconds)
        os._exit(EXIT_STUCK)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
