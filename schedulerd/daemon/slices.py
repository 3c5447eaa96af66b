"""Long work that nobody waits for, in slices: others have the interpreter in between.

Python runs one thread at a time. A thread that computes hands over after 5 ms, and a request needs several turns of the
loop: beside it each of them would take that long. So whoever has much to compute stops for a moment much more often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

SLICE_SECONDS = 0.0005
"""For so long is computed in one go; a request that comes meanwhile hardly notices it."""

GAP_SECONDS = 0.001
"""For so long the interpreter is for others then: enough to place a pod, and the shortest time that uvloop can wait."""

ItemT = TypeVar("ItemT")


class Slices:
    """Tells a thread when to stop, and stops it. Only for threads other than the loop's."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Both count in seconds; the first slice begins now."""
        self._clock, self._sleep = clock, sleep
        self._until = clock() + SLICE_SECONDS

    def of(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """The same items; there may be a gap before each."""
        for item in items:
            if self._clock() >= self._until:
                self._sleep(GAP_SECONDS)
                self._until = self._clock() + SLICE_SECONDS
            yield item
