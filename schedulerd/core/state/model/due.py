"""A heap of times at which things are due; for each thing only the last time that was set counts.

Outdated entries are dropped when they come to the top, or when they are most of the heap.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from schedulerd.core.state.model.dismantle import clear_stepwise

ThingT = TypeVar("ThingT")

_SLACK = 32


class Due(Generic[ThingT]):
    """Things, each with a due time; on the clock of `Scheduler.step`."""

    __slots__ = ("_heap", "_serial", "times")

    def __init__(self) -> None:
        self.times: dict[ThingT, int] = {}
        """When each thing is due. To be read only."""
        self._heap: list[tuple[int, int, ThingT]] = []
        self._serial = 0

    def __contains__(self, thing: ThingT) -> bool:
        return thing in self.times

    def set(self, thing: ThingT, at_ns: int) -> None:
        """Sets when the thing is due, in place of an earlier setting."""
        if self.times.get(thing) != at_ns:
            self.times[thing] = at_ns
            self._serial += 1
            heappush(self._heap, (at_ns, self._serial, thing))
            if len(self._heap) > 2 * len(self.times) + _SLACK:
                self._compact()

    def set_earlier(self, thing: ThingT, at_ns: int) -> None:
        """As `set`, but never later than an earlier setting."""
        known = self.times.get(thing)
        if known is None or at_ns < known:
            self.set(thing, at_ns)

    def discard(self, thing: ThingT) -> None:
        """The thing is not due any longer; it need not be known."""
        self.times.pop(thing, None)

    def next_ns(self) -> int | None:
        """The earliest due time, or None if there is none."""
        heap = self._heap
        while heap and self.times.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, now_ns: int) -> ThingT | None:
        """Removes and returns the first thing that is due by now, or None."""
        next_ns = self.next_ns()
        if next_ns is None or next_ns > now_ns:
            return None
        thing = heappop(self._heap)[2]
        del self.times[thing]
        return thing

    def _compact(self) -> None:
        """Drops outdated entries. If a thing has several valid ones, the first to come up stays."""
        last_first = sorted(self._heap, reverse=True)
        valid = {entry[2]: entry for entry in last_first if self.times.get(entry[2]) == entry[0]}
        self._heap = list(valid.values())
        heapify(self._heap)

    def clear(self) -> None:
        self.times.clear()
        self._heap.clear()

    def dismantle(self) -> Iterator[None]:
        return clear_stepwise(self._heap, self.times)
