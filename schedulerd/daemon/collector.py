"""When Python looks for cyclic garbage: among what is new at any time, among everything only while nobody waits.

Nearly all of what the scheduler drops is freed at once, by reference counts. What is left for the collector is little,
and to find it the collector walks every object there is: with a million pending asks that would hold the loop for
hundreds of milliseconds, again and again. So what has outlived one collection is put out of its sight (`gc.freeze`
moves a list, whatever its length), and each collection walks what was made since the last one. Everything is walked
when the daemon has nothing to do; if it never has, after an hour all the same. Memory that grows by much in the
meantime may be garbage, and is a reason to walk at once, whoever waits.
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
"""New objects, less those that are gone, that start a collection; at the default of 700 each batch of asks would start
dozens."""

LOOK_SECONDS = 60.0
"""How often it is looked whether this is the time to walk everything."""

IDLE_SECONDS_MIN = 600.0
"""From one walk to the next, if nobody waits."""

BUSY_SECONDS_MIN = 3600.0
"""Likewise, if there is always somebody who does."""

IDLE_GROWTH = 0.5
"""By what part of what it was memory grows at least before everything is walked for that, if nobody waits."""

BUSY_GROWTH = 1.0
"""The same if somebody waits. A walk then takes as long as the growth that it is for: some percent of the time."""

GROWN_BLOCKS_MIN = 4_000_000
"""Blocks of memory, some 400 MB, below which growth is no reason to walk."""

log = structlog.stdlib.get_logger(__name__)


def spare_the_old() -> None:
    """What is there now is here to stay, and so is what outlives a collection."""
    gc.set_threshold(YOUNG_MAX, 0, 0)
    _walk()
    if _after_collection not in gc.callbacks:
        gc.callbacks.append(_after_collection)


def _after_collection(phase: Literal["start", "stop"], _: dict[str, int]) -> None:
    if phase == "stop":
        gc.freeze()


def _walk() -> int:
    """Frees all cyclic garbage; gives how many objects it was."""
    gc.unfreeze()
    return gc.collect()


class Collector:
    """Walks everything at times when `is_idle` says that nobody waits, and when memory has grown by much."""

    def __init__(self, is_idle: Callable[[], bool], blocks: Callable[[], int] = sys.getallocatedblocks) -> None:
        """`blocks` counts the blocks of memory that Python's objects take."""
        self._is_idle = is_idle
        self._blocks = blocks
        self._blocks_before = blocks()

    async def run(self) -> None:
        """For ever."""
        walked_at = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            if self.is_due(now - walked_at):
                walked_at = now
                self.walk()

    def walk(self) -> None:
        """Frees all cyclic garbage."""
        started = time.perf_counter()
        found = _walk()
        self._blocks_before = self._blocks()
        log.debug("cyclic garbage", objects=found, held_loop_ms=round((time.perf_counter() - started) * 1e3, 1))

    def is_due(self, seconds: float) -> bool:
        """Whether everything is to be walked, so long after the last time."""
        is_idle, before = self._is_idle(), self._blocks_before
        growth = before * (IDLE_GROWTH if is_idle else BUSY_GROWTH)
        if self._blocks() - before >= max(GROWN_BLOCKS_MIN, int(growth)):
            return True
        return seconds >= (IDLE_SECONDS_MIN if is_idle else BUSY_SECONDS_MIN)
