"""The daemon on a machine whose wall clock is set: SIGUSR1 sets it back by an hour, the next one forward by a day."""

from __future__ import annotations

import signal
import time
from types import FrameType

import structlog

from schedulerd.cli import main

HOUR_NS, DAY_NS = 3_600 * 10**9, 86_400 * 10**9

_time_ns = time.time_ns
_steps_ns = iter((-HOUR_NS, DAY_NS))
_ahead_ns = 0


def _set_clock(_number: int, _frame: FrameType | None) -> None:
    global _ahead_ns
    _ahead_ns += next(_steps_ns)
    structlog.stdlib.get_logger(__name__).info("wall clock set")


if __name__ == "__main__":
    time.time_ns = lambda: _time_ns() + _ahead_ns
    time.time = lambda: time.time_ns() / 1e9
    signal.signal(signal.SIGUSR1, _set_clock)
    main()
