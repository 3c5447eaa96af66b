"""Decides when Python searches for cyclic garbage: new objects at any time, all objects only while the daemon is idle.

Reference counts free nearly everything that the scheduler drops, at once. Little is left for the collector, but to find
it the collector walks all objects: with a million pending asks this would hold the loop for hundreds of milliseconds,
again and again. So objects that survive a collection are hidden from the collector (`gc.freeze` moves a list, at the
same cost for any length), and a collection walks only the objects that were created since the last one. All objects are
walked when the daemon is idle, or after an hour if it is never idle. Memory that grows a lot may be garbage, so large
growth starts a walk even while the daemon is busy.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from typing import Literal

import structlog

YOUNG_MAX = 20_000
"""A collection starts when this many more objects were created than freed. With the default of 700, each batch of asks
would start dozens of collections."""

LOOK_SECONDS = 60.0
"""Interval between two checks whether all objects should be walked."""

IDLE_SECONDS_MIN = 600.0
"""Minimum time between two walks of all objects while the daemon is idle."""

BUSY_SECONDS_MIN = 3600.0
"""Minimum time between two walks of all objects while the daemon is busy."""

IDLE_GROWTH = 0.5
"""Growth of memory that starts a walk while the daemon is idle, as a part of the memory after the last walk."""

BUSY_GROWTH = 1.0
"""Growth of memory that starts a walk while the daemon is busy, as a part of the memory after the last walk. The cost
of a walk is proportional to this growth, so walks take a few percent of the time."""

GROWN_BLOCKS_MIN = 4_000_000
"""Growth in blocks of memory, about 400 MB, below which growth starts no walk."""

log = structlog.stdlib.get_logger(__name__)


def spare_the_old() -> None:
    """Excludes objects that survive a collection from later collections, the objects that exist now among them."""
    gc.set_threshold(YOUNG_MAX, 0, 0)
    _walk()
    if _after_collection not in gc.callbacks:
        gc.callbacks.append(_after_collection)


def _after_collection(phase: Literal["start", "stop"], _: dict[str, int]) -> None:
    if phase == "stop":
        gc.freeze()


def _walk() -> int:
    """Frees all cyclic garbage; returns the number of objects."""
    gc.unfreeze()
    return gc.collect()


class Collector:
    """Walks all objects while `is_idle` says that the daemon is idle, and when memory has grown a lot."""

    def __init__(self, is_idle: Callable[[], bool], blocks: Callable[[], int] = sys.getallocatedblocks) -> None:
        """`blocks` counts the blocks of memory that Python's objects take."""
        self._is_idle = is_idle
        self._blocks = blocks
        self._blocks_before = blocks()

    async def run(self) -> None:
        """Checks every `LOOK_SECONDS` whether a walk is due, forever."""
        walked_at = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            if self.is_due(now - walked_at):
                walked_at = now
                self.walk()

    def walk(self) -> None:
        """Frees all cyclic garbage and logs how long that held the loop."""
        started = time.perf_counter()
        found = _walk()
        self._blocks_before = self._blocks()
        log.debug("cyclic garbage", objects=found, held_loop_ms=round((time.perf_counter() - started) * 1e3, 1))

    def is_due(self, seconds: float) -> bool:
        """Whether all objects should be walked now, `seconds` after the last walk."""
        is_idle, before = self._is_idle(), self._blocks_before
        growth = before * (IDLE_GROWTH if is_idle else BUSY_GROWTH)
        if self._blocks() - before >= max(GROWN_BLOCKS_MIN, int(growth)):
            return True
        return seconds >= (IDLE_SECONDS_MIN if is_idle else BUSY_SECONDS_MIN)
