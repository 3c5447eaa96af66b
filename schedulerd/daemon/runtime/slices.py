"""Runs long computations of a thread in slices, so that the event loop can run in between.

Python runs one thread at a time. A computing thread hands over after 5 ms, and a request needs several turns of the
loop, each of which would wait that long. So a thread with a long computation pauses much more often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

SLICE_SECONDS = 0.0005
"""How long a thread computes without a pause; this hardly delays a request that comes meanwhile."""

GAP_SECONDS = 0.001
"""Duration of a pause: enough to allocate a pod, and the shortest time that uvloop can wait."""

ItemT = TypeVar("ItemT")


class Slices:
    """Pauses a thread between slices. Only for threads other than the loop's."""

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """`clock` and `sleep` are in seconds. The first slice begins now."""
        self._clock, self._sleep = clock, sleep
        self._until = clock() + SLICE_SECONDS

    def of(self, items: Iterable[ItemT]) -> Iterator[ItemT]:
        """Gives the items unchanged; there may be a pause before each."""
        for item in items:
            if self._clock() >= self._until:
                self._sleep(GAP_SECONDS)
                self._until = self._clock() + SLICE_SECONDS
            yield item
