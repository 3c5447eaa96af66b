"""Iterates over a heap in order, without changing it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

EntryT = TypeVar("EntryT", bound=tuple[Any, ...])


def in_order(heap: Sequence[EntryT]) -> Iterator[EntryT]:
    """The entries, smallest first. Lazy: the cost is that of the entries taken.

    The heap must not change during the iteration.
    """
    fringe = [(heap[0], 0)] if heap else []
    while fringe:
        entry, at = heappop(fringe)
        yield entry
        for below in (2 * at + 1, 2 * at + 2):
            if below < len(heap):
                heappush(fringe, (heap[below], below))
