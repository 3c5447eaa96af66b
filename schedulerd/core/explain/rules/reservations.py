"""When the room that is reserved for an ask will be there, as far as it is known."""

from __future__ import annotations

from itertools import islice
from typing import Literal

from schedulerd.core.explain.values import Lack, ReservationFinding, Victim
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.views.node_causes import reserved_before

RESERVATIONS_MAX = 20
"""Reservations of one ask that are explained."""
VICTIMS_MAX = 10
"""Victims of one reservation that are named."""
ALLOCATIONS_SEEN_MAX = 500
"""Allocations of a node among which those with an execution timeout are looked for."""


def findings(ask: Ask) -> list[ReservationFinding]:
    """The reservations of the ask, oldest first."""
    return [_finding(one) for one in islice(ask.reservations, RESERVATIONS_MAX)]


def _finding(one: Reservation) -> ReservationFinding:
    room = one.node.available.minus(reserved_before(one))
    expected, expected_ns = _expected(one.node, room, one)
    victims = [
        Victim(victim.application.application_id, victim.key, victim.uuid, victim.node.node_id)
        for victim in islice(one.victims, VICTIMS_MAX)
    ]
    return ReservationFinding(
        node_id=one.node.node_id,
        entitled=one.is_entitled,
        since_ns=one.made_at_ns,
        expires_ns=one.alarm.deadline_ns if one.alarm is not None else None,
        lacks=lacks_of(one.items, room),
        victims=victims,
        victims_left_out=len(one.victims) - len(victims),
        expected=expected,
        expected_ns=expected_ns,
    )


def lacks_of(items: Items, room: Resources) -> list[Lack]:
    """The resources of which there is not enough room. Never more is missing than is asked for: room that is below
    zero, because more was promised or used than there is, counts as none."""
    return [Lack(name, amount, free, amount - free) for name, amount in items if (free := max(0, room[name])) < amount]


def _expected(
    node: Node, room: Resources, one: Reservation
) -> tuple[Literal["now", "releases", "timeouts", "unknown"], int | None]:
    """When the node has the room: what is being released first, then allocations by their execution timeouts."""
    if room.lacks(one.items) is None:
        return "now", None
    room = room.plus(node.leaving)
    if room.lacks(one.items) is None:
        return "releases", None
    seen = (each for each in islice(node.allocations.values(), ALLOCATIONS_SEEN_MAX) if each.releasing is None)
    timed = [(at_ns, number, found) for number, found in enumerate(seen) if (at_ns := _ends_by_ns(found)) is not None]
    for at_ns, _, found in sorted(timed):
        room.add(found.request_class.items)
        if room.lacks(one.items) is None:
            return "timeouts", at_ns
    return "unknown", None


def _ends_by_ns(allocation: Allocation) -> int | None:
    """When the allocation reaches its own execution timeout or that of its application; None without either."""
    alarms = (allocation.alarm, allocation.application.run_alarm)
    return min((one.deadline_ns for one in alarms if one is not None and one.live), default=None)
