"""Which gangs are released in a gang deadlock, in which gangs hold parts of full nodes and none can be completed.

Quotas cannot cause a deadlock, because a gang passes the gang gate as a whole (SEMANTICS G2); nodes can. Only later,
incomplete gangs are released: the latest first, as few as are enough, and none if the earlier gang would not be
complete even then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from schedulerd.core.gangs.rules.own_room import gang_fits
from schedulerd.core.gangs.rules.packing import Bin, fits
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.partition import Partition
from schedulerd.core.pending.enqueueing import gang_ahead
from schedulerd.core.pending.request_class import RequestClass
from schedulerd.core.quotas.quota_key import QuotaKey
from schedulerd.core.quotas.rules import blocked
from schedulerd.core.resources import Resources


def gangs_to_release(partition: Partition, application: Application) -> list[Application] | None:
    """The later gangs that must release their placeholders for this gang; empty if releases that are pending are
    enough.

    None if that would not help, or if the gang is incomplete for another reason than missing room on nodes.
    """
    groups = [group for group in application.groups.values() if group.placeholder]
    if gang_ahead(partition, application) is not None or not groups or not application.propagates_demand:
        return None
    if any(group.request_class.refused for group in groups):
        return None
    wanted = [(group.request_class, sum(ask.pending for ask in group)) for group in groups]
    if not gang_fits(partition, application) or not _is_within_quotas(application, wanted):
        return None
    if not all(group.pending_class.unschedulable for group in groups):
        return [] if partition.priority_gang is application else None
    later = sorted(
        (one for one in partition.open_gangs if one.serial > application.serial),
        key=lambda one: -one.serial,
    )
    leaving = [one for gang in later for one in gang.allocations.values() if one.ask_again_when_gone]
    holding = [one for one in later if any(_idle_placeholders(one))]

    def is_enough(count: int) -> bool:
        given = [*leaving, *(placeholder for one in holding[:count] for placeholder in _idle_placeholders(one))]
        return _fit(partition, application, wanted, given)

    count = bisect_left(range(len(holding) + 1), True, key=is_enough)
    return holding[:count] if count <= len(holding) else None


def _idle_placeholders(application: Application) -> Iterable[Allocation]:
    assert application.gang is not None
    return application.gang.idle_placeholders()


def _is_within_quotas(application: Application, wanted: list[tuple[RequestClass, int]]) -> bool:
    rest = Resources()
    for request_class, count in wanted:
        rest.add(request_class.items, count)
    whole, key = rest.canonical(), QuotaKey(application.limit_subject)
    return all(blocked(queue, whole, key) is None for queue in application.queue.path_to_root)


def _reserved_for_others(partition: Partition, application: Application, node: Node) -> Resources:
    """What is reserved on the node for applications other than this gang and later gangs, which would wait for it."""
    held = Resources()
    for one in node.reservations.values():
        is_later_gang = one.application in partition.open_gangs and one.application.serial > application.serial
        if one.application is not application and not is_later_gang:
            held.add(one.items)
    return held


def _fit(
    partition: Partition, application: Application, wanted: list[tuple[RequestClass, int]], given: Iterable[Allocation]
) -> bool:
    """Whether the wanted allocations fit on the nodes of the given placeholders once these are released.

    Other nodes have no room for any of them, or they would have been allocated there. The packing can miss one that
    exists; then no gang is released, and the gang's own timeout decides.
    """
    room: dict[Node, Resources] = {}
    for placeholder in given:
        node = placeholder.node
        if node.ordered:
            if node not in room:
                room[node] = node.available.minus(_reserved_for_others(partition, application, node))
            room[node].add(placeholder.request_class.items)
    return fits(partition, wanted, [Bin(left, 1, node) for node, left in room.items()])
