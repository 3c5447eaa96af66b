"""When to look at something again: a heap of times, of which the latest set for a thing counts.

What is put off or forgotten is recognised when it surfaces, and dropped then.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")


class Due(Generic[ThingT]):
    """Things with the time, in nanoseconds since the epoch, at which they are due."""

    __slots__ = ("_at_ns", "_heap", "_serial")

    def __init__(self) -> None:
        self._at_ns: dict[ThingT, int] = {}
        self._heap: list[tuple[int, int, ThingT]] = []
        self._serial = 0

    def __contains__(self, thing: ThingT) -> bool:
        return thing in self._at_ns

    def set(self, thing: ThingT, at_ns: int) -> None:
        """It is due then, whatever was said of it before."""
        if self._at_ns.get(thing) != at_ns:
            self._at_ns[thing] = at_ns
            self._serial += 1
            heappush(self._heap, (at_ns, self._serial, thing))

    def hurry(self, thing: ThingT, at_ns: int) -> None:
        """It is due then, or earlier if it was to be due earlier."""
        known = self._at_ns.get(thing)
        if known is None or at_ns < known:
            self.set(thing, at_ns)

    def discard(self, thing: ThingT) -> None:
        """It is not due any longer; fine if it was not."""
        self._at_ns.pop(thing, None)

    def next_ns(self) -> int | None:
        """When the first of them is due, or None if there are none."""
        heap = self._heap
        while heap and self._at_ns.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, now_ns: int) -> ThingT | None:
        """Takes out the first that is due by now."""
        next_ns = self.next_ns()
        if next_ns is None or next_ns > now_ns:
            return None
        thing = heappop(self._heap)[2]
        del self._at_ns[thing]
        return thing

    def clear(self) -> None:
        self._at_ns.clear()
        self._heap.clear()
