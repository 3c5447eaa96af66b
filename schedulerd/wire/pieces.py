"""How requests are cut into commands, so that no single step of the scheduler holds the event loop.

The pieces are made one by one, so that the loop can turn between them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from schedulerd.core.commands import NodeUpdate, UpdateNodes

ITEMS_MAX = 200
"""Items per command. One takes the core 10 to 20 microseconds, so a command holds the loop for 2 to 4 ms."""


def slices(*lengths: int) -> Iterator[Sequence[slice]]:
    """Cuts lists that are handled one after the other into pieces of `ITEMS_MAX` items: one slice per list each.

    >>> [[(s.start, s.stop) for s in piece] for piece in slices(600, 10)]
    [[(0, 200), (0, 0)], [(200, 400), (0, 0)], [(400, 600), (0, 0)], [(600, 600), (0, 10)]]
    """
    total = sum(lengths)
    for first in range(0, total, ITEMS_MAX):
        start, stop, pieces = first, min(first + ITEMS_MAX, total), []
        for length in lengths:
            pieces.append(slice(min(max(start, 0), length), min(max(stop, 0), length)))
            start, stop = start - length, stop - length
        yield pieces


def node_updates(rm_id: str, nodes: Iterable[NodeUpdate]) -> Iterator[UpdateNodes]:
    """The nodes in order. A node weighs one item plus one for each allocation it brings along, and is never cut."""
    weight = 0
    batch: list[NodeUpdate] = []
    for node in nodes:
        size = 1 + len(node.existing)
        if batch and weight + size > ITEMS_MAX:
            yield UpdateNodes(rm_id, batch)
            batch, weight = [], 0
        batch.append(node)
        weight += size
    if batch:
        yield UpdateNodes(rm_id, batch)
