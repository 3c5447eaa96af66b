"""Which gangs are released in a gang deadlock: several gangs are incomplete, and each holds room that another needs.

Full nodes cause it. Quotas and limits do not, because only whole gangs pass the gang gate (SEMANTICS G2); but they do
when they are lowered later, or when an RM reports gangs that are above them. Only later, incomplete gangs are released:
the latest first, as few as are enough, and none if the earlier gang would not be complete even then.

Where the RM refuses nodes for slots of a gang that declares its task groups, amounts prove nothing: then the latest
gang is released, whether or not that helps. One that gave back twice is not asked again by a younger one that no
priority puts before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cmp_to_key

from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.nodes.own_room import gang_fits
from schedulerd.core.state.nodes.packing import Bin, fits
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import gang_ahead
from schedulerd.core.state.pending.gang_order import are_equal, is_ahead
from schedulerd.core.state.quotas.headroom import Headroom
from schedulerd.core.state.quotas.rules import highest_blocked

GIVEN_BACK_MAX = 2
"""So often a gang gives back what it holds before gangs that are younger, and of equal priority, ask it no longer."""


def gangs_to_release(partition: Partition, application: Application) -> list[Application] | None:
    """The later gangs that must release their placeholders for this gang; empty if releases that are pending are
    enough.

    None if that would not help, or if the gang is incomplete for another reason than missing room on nodes, in quotas
    or in limits.
    """
    groups = [group for group in application.groups.values() if group.placeholder]
    if gang_ahead(partition, application) is not None or not groups or not application.propagates_demand:
        return None
    is_refused = any(group.request_class.refused for group in groups)
    if (is_refused and not application.declares_gang) or not gang_fits(partition, application):
        return None
    later = _later(partition, application)
    holding = [one for one in later if any(_idle_placeholders(one)) and not _has_given_enough(one, application)]
    if is_refused:
        return holding[:1] or None
    is_limited = [_is_blocked_by_rule(application, group) for group in groups]
    if not all(limited or group.pending_class.unschedulable for limited, group in zip(is_limited, groups, strict=True)):
        return [] if partition.priority_gang is application else None
    leaving = [one for gang in later for one in gang.allocations.values() if one.ask_again_when_gone]
    room = _room(partition, application) if any(is_limited) else {}

    def is_enough(count: int) -> bool:
        given = [*leaving, *(placeholder for one in holding[:count] for placeholder in _idle_placeholders(one))]
        return _is_within_quotas(partition, application, groups, given) and _fit(
            partition, application, groups, room, given
        )

    count = bisect_left(range(len(holding) + 1), True, key=is_enough)
    return holding[:count] if count <= len(holding) else None


def _later(partition: Partition, application: Application) -> list[Application]:
    """The incomplete gangs that are served after this one, the last one first."""
    later = [one for one in partition.open_gangs if one is not application and is_ahead(application, one)]
    return sorted(later, key=cmp_to_key(_last_first))


def _last_first(one: Application, other: Application) -> int:
    return 1 if is_ahead(one, other) else -1


def _has_given_enough(one: Application, application: Application) -> bool:
    assert one.gang is not None
    return one.gang.gave_back >= GIVEN_BACK_MAX and one.age < application.age and are_equal(one, application)


def _idle_placeholders(application: Application) -> Iterable[Allocation]:
    assert application.gang is not None
    return application.gang.idle_placeholders()


def _is_blocked_by_rule(application: Application, group: AskGroup) -> bool:
    pending_class = group.pending_class
    return highest_blocked(application.queue, pending_class.items, pending_class.quota_key) is not None


def _is_within_quotas(
    partition: Partition, application: Application, groups: Iterable[AskGroup], given: Iterable[Allocation]
) -> bool:
    """Whether quotas and limits let in all that is pending in the groups once the given placeholders are released."""
    headroom = Headroom(partition.usages)
    released: dict[Application, Resources] = {}
    for one in given:
        released.setdefault(one.application, Resources()).add(one.request_class.items)
    for gang, resources in released.items():
        headroom.free(gang.queue, gang.limit_subject, resources)
    for group in groups:
        if headroom.room_for(application.queue, group.pending_class, group.pending) < group.pending:
            return False
        headroom.take(application.queue, group.pending_class, group.pending)
    return True


def _reserved_for_others(partition: Partition, application: Application, node: Node) -> Resources:
    """What is reserved on the node for applications other than this gang and later gangs, which would wait for it."""
    held = Resources()
    for one in node.reservations:
        if one.application is application:
            continue
        if one.application not in partition.open_gangs or not is_ahead(application, one.application):
            held.add(one.items)
    return held


def _room(partition: Partition, application: Application) -> dict[Node, Resources]:
    """What the gang may use of each schedulable node today."""
    partition.retry_timers.budget.visits += len(partition.nodes)
    return {
        node: node.available.minus(_reserved_for_others(partition, application, node))
        for node in partition.nodes.values()
        if node.ordered
    }


def _fit(
    partition: Partition,
    application: Application,
    groups: Iterable[AskGroup],
    room: dict[Node, Resources],
    given: Iterable[Allocation],
) -> bool:
    """Whether all that is pending in the groups fits into this room and on the nodes of the given placeholders once
    these are released.

    If no rule blocks the gang, other nodes than those have no room for any of it, or it would have been allocated
    there. The packing can miss one that exists; then no gang is released, and the gang's own timeout decides.
    """
    more: dict[Node, Resources] = {}
    for placeholder in given:
        node = placeholder.node
        if node.ordered:
            if node not in more:
                today = room.get(node)
                reserved = _reserved_for_others(partition, application, node) if today is None else Resources()
                more[node] = (node.available if today is None else today).minus(reserved)
            more[node].add(placeholder.request_class.items)
    wanted = [(group.request_class, group.pending) for group in groups]
    return fits(partition, wanted, [Bin(left, 1, node) for node, left in {**room, **more}.items()])
