"""Which gangs give way to an earlier one that finds no room on the nodes, so that two halves do not block each other.

Quotas cannot do that to gangs, as each passes the start gate whole (SEMANTICS G2); nodes can. Only later gangs that
are incomplete themselves give way, the latest first, no more of them than needed, and none if the earlier gang would
not be complete even then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from schedulerd.core.decide.own_room import gang_fits
from schedulerd.core.decide.packing import Bin, fits
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.request_class import RequestClass
from schedulerd.core.quotas.quota_key import QuotaKey
from schedulerd.core.quotas.rules import blocked
from schedulerd.core.resources import Resources


def who_gives_way(application: Application) -> list[Application] | None:
    """The later gangs whose placeholders the rest of this one needs, none if their room is on its way already.

    None if it would not help, or if it is not for want of room on a node that the gang is incomplete.
    """
    groups = [group for group in application.groups.values() if group.placeholder]
    if application.gang_ahead is not None or not groups or not application.propagates_demand:
        return None
    if any(group.request_class.refused for group in groups):
        return None
    wanted = [(group.request_class, sum(ask.pending for ask in group)) for group in groups]
    if not gang_fits(application) or not _is_within_quotas(application, wanted):
        return None
    if not all(group.pending_class.unschedulable for group in groups):
        return [] if application.partition.priority_gang is application else None
    later = sorted(
        (one for one in application.partition.open_gangs if one.serial > application.serial),
        key=lambda one: -one.serial,
    )
    leaving = [one for gang in later for one in gang.allocations.values() if one.yields_to_gang]
    holding = [one for one in later if any(_idle_placeholders(one))]

    def is_enough(count: int) -> bool:
        given = [*leaving, *(placeholder for one in holding[:count] for placeholder in _idle_placeholders(one))]
        return _fit(application, wanted, given)

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


def _kept_for_others(application: Application, node: Node) -> Resources:
    """What is reserved there for neither this gang nor one that would be held back for it."""
    kept = Resources()
    for one in node.reservations.values():
        is_later_gang = (
            one.application in application.partition.open_gangs and one.application.serial > application.serial
        )
        if one.application is not application and not is_later_gang:
            kept.add(one.items)
    return kept


def _fit(application: Application, wanted: list[tuple[RequestClass, int]], given: Iterable[Allocation]) -> bool:
    """Whether so many of each size fit where the given placeholders are, once these are gone.

    On all other nodes there is no room for any of them, or they would have been placed. A better packing may exist:
    then nobody gives way in vain, and the gang's own time decides.
    """
    room: dict[Node, Resources] = {}
    for placeholder in given:
        node = placeholder.node
        if node.ordered:
            if node not in room:
                room[node] = node.available.minus(_kept_for_others(application, node))
            room[node].add(placeholder.request_class.items)
    return fits(application.partition, wanted, [Bin(left, 1, node) for node, left in room.items()])
