"""Measures how late the event loop runs what is due: everything that holds it shows here, whoever it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

INTERVAL_SECONDS = 0.5


class LoopProbe:
    """A tick every `INTERVAL_SECONDS`; `report` is given how many seconds late each came."""

    def __init__(self, report: Callable[[float], None]) -> None:
        self._report = report
        self._last_tick = asyncio.get_running_loop().time()

    def age_seconds(self) -> float:
        """Time since the last tick; far above the interval if the loop was held."""
        return asyncio.get_running_loop().time() - self._last_tick

    async def run(self) -> None:
        """Ticks for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_SECONDS
            await asyncio.sleep(INTERVAL_SECONDS)
            self._last_tick = loop.time()
            self._report(max(self._last_tick - due, 0.0))
