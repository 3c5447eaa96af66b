"""How requests are cut into commands, so that no single step of the scheduler holds the event loop.

The pieces are made one by one, so that the loop can turn between them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

from google.protobuf.message import Message

from schedulerd.core.commands import AskRelease, NodeUpdate, UpdateNodes
from schedulerd.wire.reading import PIECE_BYTES_MAX

ITEMS_MAX = 200
"""Items per command. One takes the core 10 to 20 microseconds, so a command holds the loop for 2 to 4 ms."""


APPLICATIONS_BYTES_MAX = 1_024
"""Of applications: no more join a command from that size on. Each goes through all placement rules, and its names may
be matched with regular expressions (`core.decide.placement`)."""

SEARCHES_MAX = 5
"""Releases of asks in one command that name no application: each is searched for in all applications."""

VALUES_PER_ITEM = 64
"""Attributes and tags that take as long as one item does."""


def slices(
    size_bytes: int, *lists: Sequence[Message], piece_bytes_max: int = PIECE_BYTES_MAX
) -> Iterator[Sequence[slice]]:
    """Cuts lists of a request that are handled one after the other into pieces: one slice per list each.

    A piece has `ITEMS_MAX` items at most. Of a request of more than `piece_bytes_max` bytes a piece also takes no more
    items from that size on, so that a hundred large items are not decoded in one turn of the loop.
    """
    lengths = [len(one) for one in lists]
    bounds: Iterable[int] = chain(range(0, sum(lengths), ITEMS_MAX), [sum(lengths)])
    if size_bytes > piece_bytes_max:
        bounds = _bounds_by_bytes(chain.from_iterable(lists), piece_bytes_max)
    for first, last in pairwise(bounds):
        start, stop, pieces = first, last, []
        for length in lengths:
            pieces.append(slice(min(max(start, 0), length), min(max(stop, 0), length)))
            start, stop = start - length, stop - length
        yield pieces


def _bounds_by_bytes(items: Iterable[Message], piece_bytes_max: int) -> Iterator[int]:
    """Where the pieces of these items begin, and where the last one ends."""
    yield 0
    begin = count = size_bytes = 0
    for item in items:
        if count - begin >= ITEMS_MAX or size_bytes >= piece_bytes_max:
            yield count
            begin, size_bytes = count, 0
        count += 1
        size_bytes += item.ByteSize()
    if count:
        yield count


def ask_release_batches(releases: Iterable[AskRelease]) -> Iterator[list[AskRelease]]:
    """The releases in order, in lists of which each is for one command; at least one list, which may be empty."""
    batch: list[AskRelease] = []
    searches = 0
    for release in releases:
        if not release.application_id:
            if searches == SEARCHES_MAX:
                yield batch
                batch, searches = [], 0
            searches += 1
        batch.append(release)
    yield batch


def node_updates(rm_id: str, nodes: Iterable[NodeUpdate]) -> Iterator[UpdateNodes]:
    """The nodes in order. A node is never cut.

    A node weighs one item, one for each allocation it brings along, and one for every `VALUES_PER_ITEM` attributes and
    tags.
    """
    weight = 0
    batch: list[NodeUpdate] = []
    for node in nodes:
        values = len(node.attributes) + sum(len(one.tags) for one in node.existing)
        size = 1 + len(node.existing) + values // VALUES_PER_ITEM
        if batch and weight + size > ITEMS_MAX:
            yield UpdateNodes(rm_id, batch)
            batch, weight = [], 0
        batch.append(node)
        weight += size
    if batch:
        yield UpdateNodes(rm_id, batch)
