"""Measures how late the event loop runs its timers, which shows everything that holds the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL_SECONDS = 0.5


class LoopProbe:
    """Ticks every `INTERVAL_SECONDS`; calls `report` with the delay of each tick in seconds."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._last_tick = asyncio.get_running_loop().time()

    def age_seconds(self) -> float:
        """Time since the last tick; far above the interval if the loop was held."""
        return asyncio.get_running_loop().time() - self._last_tick

    async def run(self) -> None:
        """Ticks forever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_SECONDS
            await asyncio.sleep(INTERVAL_SECONDS)
            self._last_tick = loop.time()
            self._report(max(self._last_tick - due, 0.0))
