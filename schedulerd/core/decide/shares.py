"""Who comes first, as sort keys: by priority and by fairness.

A share is usage over guarantee, per resource type; where nothing is guaranteed the usage itself counts, so whoever
has a guarantee below which it stays goes first. Two entities are compared by their largest share, then their second
largest and so on, which is what comparing these tuples does. Priority comes before or after the order, as the queue
says (`application.sort.priority`).
"""

from __future__ import annotations

from schedulerd.core.model.pending_index import Key
from schedulerd.core.resources import Resources
from schedulerd.core.specs import ApplicationOrder, QueueProperties

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1


def shares(used: Resources, guaranteed: Resources) -> tuple[float, ...]:
    """The shares in use, largest first; a type without usage has no share."""
    found = [amount / (guaranteed[name] or 1) for name, amount in used.items() if amount]
    found.sort(reverse=True)
    return tuple(found)


def queue_key(
    priority: int | None,
    allocated: Resources,
    guaranteed: Resources,
    pending: Resources,
    name: str,
    *,
    sort_by_priority: bool,
) -> Key:
    """Order among sibling queues: highest priority, smallest share, most pending, name; or share before priority."""
    rank = -(INT32_MIN if priority is None else priority)
    share, most_pending = shares(allocated, guaranteed), -sum(pending.values())
    return (rank, share, most_pending, name) if sort_by_priority else (share, rank, most_pending, name)


def application_key(
    properties: QueueProperties, priority: int | None, allocated: Resources, guaranteed: Resources, serial: int
) -> Key:
    """Order in a leaf: highest priority, then first submitted or smallest share; or priority after that."""
    rank = -(INT32_MIN if priority is None else priority)
    if properties.application_order is ApplicationOrder.FAIR:
        share = shares(allocated, guaranteed)
        return (rank, share, serial) if properties.priority_sort else (share, rank, serial)
    return (rank, serial) if properties.priority_sort else (serial, rank)


def draining_queue_key(
    properties: QueueProperties, priority: int | None, allocated: Resources, guaranteed: Resources, name: str
) -> Key:
    """Order of a queue that drains below a leaf which was its parent: before applications that are equal otherwise."""
    return (*application_key(properties, priority, allocated, guaranteed, -1), name)
