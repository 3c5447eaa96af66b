"""The rule that room is reserved only where it helps (SEMANTICS I9), judged without the packing of the scheduler.

What is judged is what every packing has to satisfy; only a gang whose placeholders are all alike is judged exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schedulerd.core.language.facts.fact import Allocated, Fact
from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.language.resources import Resources
from schedulerd.core.views.values import ApplicationView, PartitionView
from tests.sim.room_books import Place, RoomBook


class Wanted(NamedTuple):
    """Pending placeholders of one size."""

    size: Resources
    required_node: str
    members: int


def wanted(item: ApplicationView, placed: Iterable[Fact] = ()) -> list[Wanted]:
    """What the gang still lacks after these placements; equal placeholders together."""
    counts: dict[tuple[tuple[tuple[str, int], ...], str], int] = {}
    for ask in item.asks:
        if ask.placeholder and ask.pending:
            name = Resources(ask.resources).canonical(), ask.required_node
            counts[name] = counts.get(name, 0) + ask.pending
    for fact in placed:
        if isinstance(fact, Allocated) and fact.application_id == item.application_id and fact.placeholder:
            for name in [one for one in counts if one[0] == fact.resources.canonical()]:
                counts[name] -= 1
                break
    return [Wanted(Resources(size), node, count) for (size, node), count in counts.items() if count > 0]


def room(book: RoomBook, node_id: str, application_id: str) -> Resources:
    """What the node would have if only this application ran there."""
    node = book.nodes[node_id]
    left = node.capacity.minus(node.occupied)
    for one in book.allocations.values():
        if (one.node_id, one.application_id) == (node_id, application_id):
            left.subtract(one.resources.items())
    return left


def could_fit(book: RoomBook, item: ApplicationView, sizes: Iterable[Wanted]) -> bool:
    """False if no packing could place all of these on today's nodes beside what the application has there."""
    rooms = {name: room(book, name, item.application_id) for name in book.nodes}
    is_open = {name for name, node in book.nodes.items() if node.state is NodeState.SCHEDULABLE}
    total = Resources()
    for name in rooms:
        total.add((what, max(0, amount)) for what, amount in rooms[name].items())
    for size, required_node, count in sizes:
        nodes = {required_node} & rooms.keys() if required_node else is_open
        each = [min(rooms[name][what] // amount for what, amount in size.canonical()) for name in sorted(nodes)]
        if sum(max(0, one) for one in each) < count:
            return False
        total.subtract(size.items(), count)
    return all(amount >= 0 for amount in total.values())


def fits_for_certain(book: RoomBook, item: ApplicationView) -> bool:
    """Whether the gang could be complete on today's nodes whatever way is used to find that out."""
    sizes = wanted(item)
    return not sizes or (len(sizes) == 1 and could_fit(book, item, sizes))


def against(
    book: RoomBook, item: ApplicationView | None, place: Place, size: Resources, sizes: Iterable[Wanted]
) -> Iterator[str]:
    """Why a reservation there does not help."""
    if room(book, place.node_id, place.application_id).lacks(size.items()) is not None:
        yield "its own application is in the way on the node"
    if item is not None and not could_fit(book, item, sizes):
        yield f"its gang cannot be complete on the nodes: {list(sizes)}"


def useless(book: RoomBook, partition: PartitionView) -> Iterator[str]:
    """Reservations that do not help and are there all the same, when everything has settled."""
    items = {one.application_id: one for one in partition.applications}
    for place, kept in book.reservations.items():
        item = items.get(place.application_id)
        asks = item.asks if item is not None else ()
        if item is None or any(one.allocation_key == place.allocation_key and one.required_node for one in asks):
            continue
        for text in against(book, item, place, kept.fact.resources, wanted(item)):
            yield f"room is kept for {place}, though {text}"
