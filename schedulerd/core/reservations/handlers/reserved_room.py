"""Reserved room: its ask is allocated there when the node has the room, or room is made for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.language.resources import Items, Resources
from schedulerd.core.state.actions import predicate_checks, reservations
from schedulerd.core.state.actions.allocating import allocate
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.nodes.own_room import fits_beside_own, gang_fits
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import admits_group
from schedulerd.core.state.quotas.rules import blocked, blocked_by_limits, highest_blocked, stays_blocked
from schedulerd.core.state.step_context import StepContext


class RequiredNode(NamedTuple):
    """What preemption does for an ask whose room is reserved on its required node (`core.reactions`)."""

    make_room: Callable[[StepContext, Reservation, Resources], bool]
    """Preempts; the amounts are what reservations before this one hold there. False if nothing was done."""
    refuse: Callable[[StepContext, Reservation, str], None]
    """A quota keeps the ask out, as the sentence says: says that nothing is preempted."""


def allocate_reserved(context: StepContext, partition: Partition, required_node: RequiredNode) -> bool:
    """Allocates the next ask whose reserved room is free, or preempts for it; False if nothing was done."""
    while partition.reservations_to_check:
        node = next(iter(partition.reservations_to_check))
        reserved_before = Resources()
        for reservation in _in_order(node):
            void = _reason_to_end(partition, reservation)
            if void is not None:
                reservations.end(context, reservation, void)
            elif reservation.predicate_check is None and _serve(context, reservation, reserved_before, required_node):
                return True
            elif reservation in partition.reservations:
                reserved_before.add(reservation.items)
        del partition.reservations_to_check[node]
    return False


def _in_order(node: Node) -> list[Reservation]:
    """Its reservations as they are served: entitled ones first, and of each kind the earlier one first."""
    return sorted(node.reservations, key=lambda one: not one.is_entitled)


def _reason_to_end(partition: Partition, reservation: Reservation) -> ReservationEnd | None:
    """Why the reservation no longer makes sense; None if it still does."""
    application, ask, node = reservation.application, reservation.ask, reservation.node
    group = application.groups.get(ask.group_key)
    if (
        group is None
        or ask not in group
        or not admits_group(partition, application, group)
        or not application.propagates_demand
    ):
        return ReservationEnd.NOT_NEEDED
    takes = node.ready if ask.request_class.required_node else node.ordered
    fits = (
        node.can_ever_fit(reservation.items)
        if ask.request_class.required_node
        else fits_beside_own(application, ask.request_class, node)
    )
    if not takes or not fits:
        return ReservationEnd.NODE
    if not ask.request_class.required_node and not gang_fits(partition, application):
        return ReservationEnd.GANG
    is_refused = partition.objection_without(ask.request_class, node, tuple(reservation.victims)) is not None
    return ReservationEnd.NODE if is_refused else None


def _serve(
    context: StepContext, reservation: Reservation, reserved_before: Resources, required_node: RequiredNode
) -> bool:
    """Allocates the ask in its reserved room, or preempts for it; False if nothing was done.

    `reserved_before` is what the reservations before this one hold on the node.
    """
    application, ask, node = reservation.application, reservation.ask, reservation.node
    partition, queue = context.partition_of(application), application.queue
    pending_class = application.groups[ask.group_key].pending_class
    if node.available.minus(reserved_before).lacks(reservation.items) is not None:
        return _make_room(context, reservation, reserved_before, required_node)
    if reservation.victims and partition.objection(ask.request_class, node) is not None:
        return False
    if highest_blocked(queue, pending_class.items, pending_class.quota_key, _own_reserved(reservation)) is not None:
        if reservation.victims or _lasting_block(application, reservation) is None:
            partition.short_of_quota[reservation] = None
        else:
            reservations.end(context, reservation, ReservationEnd.QUOTA)
        return False
    if partition.wants_predicates(ask.request_class) and reservation.agreed_at < node.changed:
        if ask.unchecked > 0:
            predicate_checks.place_in(context, reservation)
            return True
        return False
    reservations.end(context, reservation, ReservationEnd.PLACED)
    allocate(context, partition, application, ask, node)
    return True


def _own_reserved(reservation: Reservation) -> Items:
    return reservation.items if reservation.is_entitled else ()


def _lasting_block(application: Application, reservation: Reservation) -> str | None:
    """The quota or limit that keeps the ask out even after all pending releases, as a sentence; None if there is
    none."""
    pending_class, own_reserved = (
        application.groups[reservation.ask.group_key].pending_class,
        _own_reserved(reservation),
    )
    for queue in application.queue.path_to_root:
        if stays_blocked(queue, reservation.items, own_reserved):
            why = blocked(queue, pending_class.items, pending_class.quota_key, own_reserved)
            return why.clause() if why is not None else None
        why = blocked_by_limits(queue, pending_class.items, pending_class.quota_key)
        if why is not None:
            return why.clause()
    return None


def _make_room(
    context: StepContext, reservation: Reservation, reserved_before: Resources, required_node: RequiredNode
) -> bool:
    """Preempts for an ask on its required node, or ends an entitled reservation that has no victims and still lacks
    room. False if no victims were released."""
    application, ask, node = reservation.application, reservation.ask, reservation.node
    if ask.request_class.required_node:
        is_allowed = context.partition_of(application).spec.preemption_enabled
        return is_allowed and _make_room_on_only_node(context, reservation, reserved_before, required_node)
    if reservation.is_entitled and not reservation.victims and node.shortage(reservation.items, reserved_before):
        reservations.end(context, reservation, ReservationEnd.NODE)
    return False


def _make_room_on_only_node(
    context: StepContext, reservation: Reservation, reserved_before: Resources, required_node: RequiredNode
) -> bool:
    """Preempts for the ask, unless a quota keeps it out: preemption there makes room on the node and not in a quota.
    Then the reservation waits, and a fact says so if the quota can stay full for long."""
    application, partition = reservation.application, context.partition_of(reservation.application)
    pending_class = application.groups[reservation.ask.group_key].pending_class
    if (
        highest_blocked(application.queue, pending_class.items, pending_class.quota_key, _own_reserved(reservation))
        is None
    ):
        return required_node.make_room(context, reservation, reserved_before)
    partition.short_of_quota[reservation] = None
    limit = _lasting_block(application, reservation)
    if limit is not None:
        required_node.refuse(context, reservation, limit)
    return False
