"""The part of `commit` for room that is reserved or being released.

Node, ask, queues and partition change together here as well.
"""

from __future__ import annotations

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import PredicateCheck, PredicateHistory, Purpose
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import update_predicate_wait

_NOT_LEAVING = (None, TerminationType.PLACEHOLDER_REPLACED)
"""The values of `Allocation.releasing` for which its room is not about to be free: in a swap the real ask takes it."""


def reserve(
    partition: Partition, application: Application, ask: Ask, node: Node, *, is_entitled: bool, now_ns: int
) -> Reservation:
    """Reserves room of the node for one pending allocation of the ask."""
    reservation = Reservation(application, ask, node, is_entitled=is_entitled, now_ns=now_ns)
    queue = application.queue
    ask.reservations[reservation] = node.reservations[reservation] = None
    partition.reservations[reservation] = application.reservations[reservation] = None
    node.reserved.add(reservation.items)
    partition.aging_reservations += not is_entitled
    ask.entitled += is_entitled
    if is_entitled:
        node.entitled_reserved.add(reservation.items)
        for one in queue.path_to_root:
            one.quota_reserved.add(reservation.items)
    _reserved_changed(partition, application, node)
    return reservation


def end_reservation(partition: Partition, reservation: Reservation) -> None:
    """Ends a reservation; other asks can have the room again. Its victims are released all the same."""
    application, ask, node = reservation.application, reservation.ask, reservation.node
    queue = application.queue
    del ask.reservations[reservation], node.reservations[reservation]
    del partition.reservations[reservation], application.reservations[reservation]
    partition.short_of_quota.pop(reservation, None)
    node.reserved.subtract(reservation.items)
    partition.aging_reservations -= not reservation.is_entitled
    ask.entitled -= reservation.is_entitled
    if reservation.is_entitled:
        node.entitled_reserved.subtract(reservation.items)
        for one in queue.path_to_root:
            one.quota_reserved.subtract(reservation.items)
        partition.note_free_quota(queue)
    for victim in reservation.victims:
        victim.makes_room = None
    _reserved_changed(partition, application, node)
    if reservation.is_entitled:
        partition.note_free_node(node)
    else:
        partition.note_change(node)
        partition.note_less_reserved(node)


def begin_predicate_check(partition: Partition, predicate_check: PredicateCheck) -> None:
    """A predicate check begins. A check for an allocation in room that is not reserved holds that room until the
    result."""
    application, ask, node = predicate_check.application, predicate_check.ask, predicate_check.node
    if ask.predicate_history is None:
        ask.predicate_history = PredicateHistory()
    ask.predicate_history.predicate_checks[predicate_check] = None
    ask.predicate_history.predicate_reserved += predicate_check.uses_allocation
    node.predicate_checks[predicate_check] = None
    if predicate_check.purpose is Purpose.ALLOCATE and predicate_check.reservation is None:
        predicate_check.items = ask.request_class.items
        _hold(partition, predicate_check, 1)
    if predicate_check.reservation is not None:
        predicate_check.reservation.predicate_check = predicate_check
    if predicate_check.search is not None:
        predicate_check.search.predicate_check = predicate_check
    if predicate_check.placeholder is not None:
        predicate_check.placeholder.predicate_check = predicate_check
    partition.callbacks.open_predicate_checks[predicate_check.call_id] = predicate_check
    update_predicate_wait(partition, application, ask)


def end_predicate_check(partition: Partition, predicate_check: PredicateCheck) -> None:
    """A predicate check ends, and the room that it held is free.

    Does not make the ask ready again and does not let other asks have the room, because usually the ask is allocated at
    once. If it was not, the caller uses `predicate_checks.return_ask`.
    """
    ask, node = predicate_check.ask, predicate_check.node
    assert ask.predicate_history is not None
    del ask.predicate_history.predicate_checks[predicate_check], node.predicate_checks[predicate_check]
    ask.predicate_history.predicate_reserved -= predicate_check.uses_allocation
    if predicate_check.items:
        _hold(partition, predicate_check, -1)
    if predicate_check.reservation is not None:
        predicate_check.reservation.predicate_check = None
    if predicate_check.search is not None:
        predicate_check.search.predicate_check = None
    if predicate_check.placeholder is not None:
        predicate_check.placeholder.predicate_check = None
    del partition.callbacks.open_predicate_checks[predicate_check.call_id]


def note_check_room_free(partition: Partition, predicate_check: PredicateCheck) -> None:
    """Other asks can have the room that the check held. Refusals on this node remain valid, because the node did not
    change."""
    application = predicate_check.application
    if predicate_check.items:
        partition.note_less_reserved(predicate_check.node)
        partition.note_free_quota(application.queue)


def _hold(partition: Partition, predicate_check: PredicateCheck, times: int) -> None:
    application, node, items = predicate_check.application, predicate_check.node, predicate_check.items
    node.reserved.add(items, times)
    node.entitled_reserved.add(items, times)
    node.predicate_reserved.add(items, times)
    application.predicate_reserved.add(items, times)
    for one in application.queue.path_to_root:
        one.quota_reserved.add(items, times)
        one.predicate_reserved.add(items, times)
    _reserved_changed(partition, application, node)
    application.usage_changed()
    for one in application.queue.path_to_root:
        one.rekey()


def make_room(reservation: Reservation, victim: Allocation, now_ns: int) -> None:
    """The allocation is a victim of the reservation: the RM was asked to release it."""
    if not reservation.victims:
        reservation.asked_to_end_ns = now_ns
    reservation.victims[victim] = None
    victim.makes_room = reservation


def begin_release(allocation: Allocation, termination: TerminationType) -> None:
    """The RM was asked to release the allocation. Except in a swap, its room counts as `leaving` on node and queues."""
    allocation.releasing = termination
    count_leaving(allocation, 1)
    if allocation.application.gang is not None:
        allocation.application.gang.above_min = None


def end_release(partition: Partition, allocation: Allocation) -> None:
    """The allocation is gone, whether or not the RM was asked to release it."""
    count_leaving(allocation, -1)
    reservation = allocation.makes_room
    if reservation is not None:
        del reservation.victims[allocation]
        partition.reservations_to_check[reservation.node] = None


def drop_victim(partition: Partition, allocation: Allocation) -> None:
    """The allocation moved to another node, so its release frees nothing for the reservation: it is no victim now."""
    reservation = allocation.makes_room
    assert reservation is not None
    del reservation.victims[allocation]
    allocation.makes_room = None
    partition.reservations_to_check[reservation.node] = None


def count_leaving(allocation: Allocation, times: int) -> None:
    """Counts the room of the allocation as `leaving`, unless a swap takes it."""
    if allocation.releasing in _NOT_LEAVING:
        return
    items, queue = allocation.request_class.items, allocation.application.queue
    allocation.node.leaving.add(items, times)
    for one in queue.path_to_root:
        one.leaving.add(items, times)


def _reserved_changed(partition: Partition, application: Application, node: Node) -> None:
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
    if partition.constraints.rules:
        partition.constraints.moved(node)
