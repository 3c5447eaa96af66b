"""Sort keys of queues and applications: priority and fairness.

An order is an entry in `APPLICATION_ORDERS` or `QUEUE_ORDERS`: how the share of an entity is worked out from what it
uses, and what follows from that. Priority comes before or after the share, as the queue says
(`application.sort.priority`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from schedulerd.core.language.reading import INT64_MIN
from schedulerd.core.language.resources import Limits, Resources
from schedulerd.core.language.specs import ApplicationOrder, QueueOrder, QueueProperties
from schedulerd.core.state.pending.pending_index import Key

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
SHARE_BITS = 256
"""A share is scaled by 2^256, so that a whole number is exact. Capacities are below 2^127, as they are sums of int64
over fewer than 2^64 nodes, and quotas are int64; so different shares a/b and c/d differ by at least 1/(b*d) > 2^-254,
and stay different, and in order, when they are scaled and rounded down."""
WHOLE = 1 << SHARE_BITS
"""The scaled share of an entity that uses all of what it is measured against."""

Share: TypeAlias = Callable[[Resources, Resources, Limits, Resources], Any]
"""The share of an entity: from what it uses, the guarantee of its queue, the nearest max of each resource type
(`Queue.nearest_max`), and what the schedulable nodes offer together. The entity with the smallest share comes first."""


class SortOrder:
    """An order of siblings: how their shares are worked out, and what follows from that."""

    __slots__ = ("admits_gangs", "share")

    def __init__(self, share: Share | None, *, admits_gangs: bool) -> None:
        self.share = share
        """None if the order does not depend on what is used."""
        self.admits_gangs = admits_gangs
        """Whether applications with a gang may be in a leaf of this order. Not where several gangs would get a part
        of their placeholders each."""


def fair_share(used: Resources, guaranteed: Resources, nearest_max: Limits, capacity: Resources) -> int:
    """The largest share that is used of any resource type, scaled; 0 for nothing.

    A type is measured against the guarantee of the queue, else against the nearest max on the way up to the root, else
    against the capacity. A guarantee of 0 is none. Use of a type with a max of 0 is a whole share. A type that none of
    them names is ignored. No float: the same on all machines.
    """
    largest = 0
    for name, amount in used.items():
        whole = guaranteed.get(name)
        if not whole:
            whole = nearest_max.get(name)
            if whole is None:
                whole = capacity.get(name)
                if not whole:
                    continue
        share = (amount << SHARE_BITS) // whole if whole else WHOLE
        if share > largest:
            largest = share
    return largest


_NO_GUARANTEE = Resources()
_NO_MAX = Limits()


def dominant_share(used: Resources, _guaranteed: Resources, _nearest_max: Limits, capacity: Resources) -> int:
    """The largest share of the capacity that is used of any type, scaled (SEMANTICS I24)."""
    return fair_share(used, _NO_GUARANTEE, _NO_MAX, capacity)


APPLICATION_ORDERS: Mapping[ApplicationOrder, SortOrder] = {
    ApplicationOrder.FIFO: SortOrder(None, admits_gangs=True),
    ApplicationOrder.STATE_AWARE: SortOrder(None, admits_gangs=True),
    ApplicationOrder.FAIR: SortOrder(dominant_share, admits_gangs=False),
    ApplicationOrder.DRF: SortOrder(dominant_share, admits_gangs=False),
}
"""The applications of a leaf (`application.sort.policy`)."""

QUEUE_ORDERS: Mapping[QueueOrder, Share] = {QueueOrder.FAIR: fair_share, QueueOrder.DRF: dominant_share}
"""The queues below a parent (`queue.sort.policy`)."""


def queue_key(
    properties: QueueProperties,
    priority: int | None,
    allocated: Resources,
    guaranteed: Resources,
    nearest_max: Limits,
    capacity: Resources,
    pending: Resources,
    name: str,
) -> Key:
    """Sort key among sibling queues: highest priority, smallest share, most pending, name; or share before priority."""
    rank = -(INT32_MIN if priority is None else priority)
    share = QUEUE_ORDERS[properties.queue_order](allocated, guaranteed, nearest_max, capacity)
    most_pending = -sum(pending.values())
    return (rank, share, most_pending, name) if properties.priority_sort else (share, rank, most_pending, name)


def application_key(
    properties: QueueProperties,
    priority: int | None,
    allocated: Resources,
    guaranteed: Resources,
    nearest_max: Limits,
    capacity: Resources,
    age: tuple[int, str],
) -> Key:
    """Sort key in a leaf: highest priority, then oldest or smallest share; or priority after that."""
    rank = -(INT32_MIN if priority is None else priority)
    share_of = APPLICATION_ORDERS[properties.application_order].share
    if share_of is not None:
        share = share_of(allocated, guaranteed, nearest_max, capacity)
        return (rank, share, age) if properties.priority_sort else (share, rank, age)
    return (rank, age) if properties.priority_sort else (age, rank)


def short_gang_key(properties: QueueProperties, age: tuple[int, str]) -> Key:
    """Sort key in a leaf of an application whose gang is short: before all that are not."""
    rank = INT64_MIN
    if APPLICATION_ORDERS[properties.application_order].share is not None:
        return (rank, -1, age) if properties.priority_sort else (-1, rank, age)
    return (rank, age) if properties.priority_sort else ((INT64_MIN, age[1]), rank)


_BEFORE_ALL = INT64_MIN, ""


def draining_queue_key(
    properties: QueueProperties,
    priority: int | None,
    allocated: Resources,
    guaranteed: Resources,
    nearest_max: Limits,
    capacity: Resources,
    name: str,
) -> Key:
    """Order of a queue that drains below a leaf which was its parent: before applications that are equal otherwise."""
    return (*application_key(properties, priority, allocated, guaranteed, nearest_max, capacity, _BEFORE_ALL), name)
