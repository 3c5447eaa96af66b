"""Bin packing: whether pending allocations of several sizes fit into given room.

Sizes are packed one after the other: those with a required node or a constraint first, then the largest. For mixed
sizes this can miss a packing that exists; the answer is then no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from schedulerd.core.language.resources import Resources

if TYPE_CHECKING:
    from schedulerd.core.state.constraints.affinity import Affinity
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.partition import Partition
    from schedulerd.core.state.pending.request_class import RequestClass


T = TypeVar("T")


class Bin(NamedTuple):
    """The room of one node, or of several nodes with equal room."""

    room: Resources
    nodes: int
    node: Node | None = None
    """The node, if there is only one and it matters which."""


def fits(partition: Partition, wanted: Iterable[tuple[RequestClass, int]], bins: Iterable[Bin]) -> bool:
    """Whether the given number of allocations of each request class fits into the bins, all together.

    A bin without a node takes no request class with a required node or a placement constraint.
    """
    return packed(partition, wanted, bins) is not None


def packed(partition: Partition, wanted: Iterable[tuple[RequestClass, int]], bins: Iterable[Bin]) -> list[Bin] | None:
    """The bins as they are left if the given number of allocations of each request class is packed into them; None if
    they do not fit."""
    left = list(bins)
    together: dict[tuple[Affinity, str], int] = {}
    for request_class, count in ranked(partition, wanted, lambda one: one[0]):
        left, count = _fill(partition, request_class, count, left, together)
        if count:
            return None
    return left


def ranked(partition: Partition, wanted: Iterable[T], request_class_of: Callable[[T], RequestClass]) -> list[T]:
    """What is wanted, in the order in which it is packed. One request class alone costs no look at the nodes."""
    found = list(wanted)
    if len(found) > 1:
        largest = partition.largest()
        found.sort(key=lambda one: rank(request_class_of(one), largest))
    return found


def rank(request_class: RequestClass, largest: Mapping[str, int]) -> tuple[bool, bool, float]:
    """Request classes are packed in this order."""
    size = max((amount / max(1, largest.get(name, 0)) for name, amount in request_class.items), default=0.0)
    return not request_class.required_node, request_class.constraint is None, -size


def _fill(
    partition: Partition,
    request_class: RequestClass,
    count: int,
    bins: list[Bin],
    together: dict[tuple[Affinity, str], int],
) -> tuple[list[Bin], int]:
    """Packs allocations of one request class. Returns the bins that are left and the number of allocations that do not
    fit."""
    left: list[Bin] = []
    for one in bins:
        each = min((one.room[name] // amount for name, amount in request_class.items), default=count) if count else 0
        if each > 0 and (request_class.required_node or request_class.constraint is not None):
            each = _let_in(partition, request_class, one.node, min(each, count), together)
        if each <= 0:
            left.append(one)
            continue
        full = min(one.nodes, count // each)
        count -= full * each
        if full:
            left.append(Bin(one.room.minus(request_class.resources.times(each)), full, one.node))
        if full < one.nodes and count:  # the rest takes only part of one node
            left.append(Bin(one.room.minus(request_class.resources.times(count)), 1, one.node))
            full, count = full + 1, 0
        if full < one.nodes:
            left.append(Bin(one.room, one.nodes - full, one.node))
    return left, count


def _let_in(
    partition: Partition,
    request_class: RequestClass,
    node: Node | None,
    count: int,
    together: dict[tuple[Affinity, str], int],
) -> int:
    """How many of `count` allocations the node takes by its attributes and by the allocations there today."""
    if node is None or partition.objection(request_class, node) is not None:
        return 0
    limited = partition.constraints.room(request_class, node) if request_class.constraint is not None else None
    if limited is not None:
        group, most = limited
        count = min(count, most - together.get(group, 0))
        together[group] = together.get(group, 0) + max(0, count)
    return count
