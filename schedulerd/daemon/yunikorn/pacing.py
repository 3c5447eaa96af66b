"""How much of the loop's time all REST answers together may take, and in how long pieces.

Answers are made on the loop, because they read the scheduler's state. Each works for `SLICE_SECONDS` at a time, and
then waits until the answers of all clients together have had no more than their share. So an ask that arrives while
large answers are written waits for one slice at most, and most asks wait for none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

SLICE_SECONDS = 0.001
"""How long an answer works without a pause. The longest single piece of work comes on top; none is longer than this."""

LOOP_SHARE_MAX = 0.1
"""Share of the loop's time for all answers. 50,000 pods take about a second of work, and so ten seconds of time."""

GAP_SECONDS = 0.001
"""Shortest pause: the shortest time that the loop can wait."""


Breathe = Callable[[], Awaitable[None]]
"""`Work.breathe`."""


class Pacer:
    """Shared by all answers of a daemon."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`clock` is in seconds, and not the loop's own, which may stand still while the loop is held."""
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()

    def work(self) -> Work:
        """One answer begins to work."""
        return Work(self)

    async def turn(self) -> float:
        """Waits until more work may be done; returns when that is."""
        while (delay := self._free_at - self._clock()) > 0:
            await self._sleep(max(delay, GAP_SECONDS))
        return self._clock()

    def charge(self, since: float) -> None:
        """Counts the work from `since` until now."""
        self._free_at = max(self._free_at, since) + (self._clock() - since) / LOOP_SHARE_MAX

    def is_over(self, since: float) -> bool:
        """Whether a slice that began at `since` is used up."""
        return self._clock() - since >= SLICE_SECONDS


class Work:
    """The work for one answer. Await `breathe` between two pieces of it."""

    __slots__ = ("_pacer", "_since")

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._since: float | None = None

    async def begin(self) -> None:
        """Waits for its turn; the first slice begins."""
        self._since = await self._pacer.turn()

    async def breathe(self) -> None:
        """Lets other work run if the slice is used up."""
        assert self._since is not None
        if self._pacer.is_over(self._since):
            await self.pause()

    async def pause(self) -> None:
        """Lets other work run."""
        self.end()
        await self.begin()

    def end(self) -> None:
        """Counts what was done since the last pause. Nothing is counted while the answer waits for its client."""
        if self._since is not None:
            self._pacer.charge(self._since)
            self._since = None
