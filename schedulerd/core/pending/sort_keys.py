"""Sort keys of queues and applications: priority and fairness.

An order is an entry in `APPLICATION_ORDERS` or `QUEUE_ORDERS`: how the share of an entity is worked out from what it
uses, and what follows from that. Priority comes before or after the share, as the queue says
(`application.sort.priority`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from schedulerd.core.pending.pending_index import Key
from schedulerd.core.resources import Resources
from schedulerd.core.specs import ApplicationOrder, QueueOrder, QueueProperties

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
SHARE_BITS = 256
"""A share of the capacity is scaled by 2^256, so that a whole number is exact. Capacities are below 2^127, as they are
sums of int64 over fewer than 2^64 nodes; so different shares a/b and c/d differ by at least 1/(b*d) > 2^-254, and stay
different, and in order, when they are scaled and rounded down."""


Share: TypeAlias = Callable[[Resources, Resources, Resources], Any]
"""The share of an entity: from what it uses, what is guaranteed, and what the schedulable nodes offer together. The
entity with the smallest share comes first."""


class SortOrder:
    """An order of siblings: how their shares are worked out, and what follows from that."""

    __slots__ = ("admits_gangs", "share")

    def __init__(self, share: Share | None, *, admits_gangs: bool) -> None:
        self.share = share
        """None if the order does not depend on what is used."""
        self.admits_gangs = admits_gangs
        """Whether applications with a gang may be in a leaf of this order. Not where several gangs would get a part
        of their placeholders each."""


def shares(used: Resources, guaranteed: Resources, _capacity: Resources) -> tuple[float, ...]:
    """Usage over guarantee by type, largest first; a type without usage has no share.

    Where nothing is guaranteed the usage itself counts, so an entity below its guarantee goes first. Two entities are
    compared by their largest share, then their second largest and so on, which is what comparing these tuples does.
    """
    found = [amount / ((name in guaranteed and guaranteed[name]) or 1) for name, amount in used.items() if amount]
    found.sort(reverse=True)
    return tuple(found)


def dominant_share(used: Resources, _guaranteed: Resources, capacity: Resources) -> int:
    """The largest share of the capacity that is used of any type, scaled; 0 for nothing.

    A type that no schedulable node offers is ignored (SEMANTICS I24). No float: the same on all machines.
    """
    largest = 0
    for name, amount in used.items():
        offered = capacity[name]
        if offered:
            share = (amount << SHARE_BITS) // offered
            if share > largest:
                largest = share
    return largest


APPLICATION_ORDERS: Mapping[ApplicationOrder, SortOrder] = {
    ApplicationOrder.FIFO: SortOrder(None, admits_gangs=True),
    ApplicationOrder.STATE_AWARE: SortOrder(None, admits_gangs=True),
    ApplicationOrder.FAIR: SortOrder(shares, admits_gangs=False),
    ApplicationOrder.DRF: SortOrder(dominant_share, admits_gangs=False),
}
"""The applications of a leaf (`application.sort.policy`)."""

QUEUE_ORDERS: Mapping[QueueOrder, Share] = {QueueOrder.FAIR: shares, QueueOrder.DRF: dominant_share}
"""The queues below a parent (`queue.sort.policy`)."""

OF_CAPACITY: frozenset[Share] = frozenset({dominant_share})
"""Shares that depend on the capacity: with it all of them change."""


def depends_on_capacity(properties: QueueProperties) -> bool:
    """Whether keys of what waits in a queue with these properties may depend on the capacity."""
    shares_of = APPLICATION_ORDERS[properties.application_order].share, QUEUE_ORDERS[properties.queue_order]
    return not OF_CAPACITY.isdisjoint(shares_of)


def queue_key(
    properties: QueueProperties,
    priority: int | None,
    allocated: Resources,
    guaranteed: Resources,
    capacity: Resources,
    pending: Resources,
    name: str,
) -> Key:
    """Sort key among sibling queues: highest priority, smallest share, most pending, name; or share before priority."""
    rank = -(INT32_MIN if priority is None else priority)
    share = QUEUE_ORDERS[properties.queue_order](allocated, guaranteed, capacity)
    most_pending = -sum(pending.values())
    return (rank, share, most_pending, name) if properties.priority_sort else (share, rank, most_pending, name)


def application_key(
    properties: QueueProperties,
    priority: int | None,
    allocated: Resources,
    guaranteed: Resources,
    capacity: Resources,
    serial: int,
) -> Key:
    """Sort key in a leaf: highest priority, then first submitted or smallest share; or priority after that."""
    rank = -(INT32_MIN if priority is None else priority)
    share_of = APPLICATION_ORDERS[properties.application_order].share
    if share_of is not None:
        share = share_of(allocated, guaranteed, capacity)
        return (rank, share, serial) if properties.priority_sort else (share, rank, serial)
    return (rank, serial) if properties.priority_sort else (serial, rank)


def draining_queue_key(
    properties: QueueProperties,
    priority: int | None,
    allocated: Resources,
    guaranteed: Resources,
    capacity: Resources,
    name: str,
) -> Key:
    """Order of a queue that drains below a leaf which was its parent: before applications that are equal otherwise."""
    return (*application_key(properties, priority, allocated, guaranteed, capacity, -1), name)
