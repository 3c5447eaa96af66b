"""When to look at something again: a heap of times, of which the latest set for a thing counts.

What is put off or forgotten is recognised when it surfaces, and dropped then; or when most of the heap is such.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from schedulerd.core.model.apart import emptied

ThingT = TypeVar("ThingT")

_SLACK = 32


class Due(Generic[ThingT]):
    """Things with the time, of the clock that the scheduler is stepped with, at which they are due."""

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
            if len(self._heap) > 2 * len(self._at_ns) + _SLACK:
                self._compact()

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

    def _compact(self) -> None:
        """Of several entries of a thing that are true, the first to surface stays."""
        last_first = sorted(self._heap, reverse=True)
        valid = {entry[2]: entry for entry in last_first if self._at_ns.get(entry[2]) == entry[0]}
        self._heap = list(valid.values())
        heapify(self._heap)

    def clear(self) -> None:
        self._at_ns.clear()
        self._heap.clear()

    def take_apart(self) -> Iterator[None]:
        return emptied(self._heap, self._at_ns)
