"""A heap in order, without taking it apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

EntryT = TypeVar("EntryT", bound=tuple[Any, ...])


def in_order(heap: Sequence[EntryT]) -> Iterator[EntryT]:
    """Its entries, smallest first; whoever stops early pays for no more than was taken.

    It must not change meanwhile.
    """
    fringe = [(heap[0], 0)] if heap else []
    while fringe:
        entry, at = heappop(fringe)
        yield entry
        for below in (2 * at + 1, 2 * at + 2):
            if below < len(heap):
                heappush(fringe, (heap[below], below))
