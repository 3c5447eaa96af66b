"""The part of `commit` that is about room which is not free for everybody: kept for somebody, or about to be free.

Node, ask, queues and partition change together here as well.
"""

from __future__ import annotations

from schedulerd.core.commands import TerminationType
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.predicate_check import PredicateCheck, PredicateHistory, Purpose
from schedulerd.core.model.reservation import Reservation


def reserve(application: Application, ask: Ask, node: Node, *, is_entitled: bool, now_ns: int) -> Reservation:
    """Keeps room of the node for one pending allocation of the ask, which has none there yet."""
    reservation = Reservation(application, ask, node, is_entitled=is_entitled, now_ns=now_ns)
    partition, queue = application.partition, application.queue
    ask.reservations[node] = node.reservations[ask] = reservation
    partition.reservations[reservation] = application.reservations[reservation] = None
    node.reserved.add(reservation.items)
    partition.aging_reservations += not is_entitled
    if is_entitled:
        node.entitled_reserved.add(reservation.items)
        for one in queue.path_to_root:
            one.quota_reserved.add(reservation.items)
    _kept_changed(application, node)
    return reservation


def end_reservation(reservation: Reservation) -> None:
    """The room is for everybody again. Who was asked to go for it goes all the same."""
    application, ask, node = reservation.application, reservation.ask, reservation.node
    partition, queue = application.partition, application.queue
    del ask.reservations[node], node.reservations[ask]
    del partition.reservations[reservation], application.reservations[reservation]
    partition.short_of_quota.pop(reservation, None)
    node.reserved.subtract(reservation.items)
    partition.aging_reservations -= not reservation.is_entitled
    if reservation.is_entitled:
        node.entitled_reserved.subtract(reservation.items)
        for one in queue.path_to_root:
            one.quota_reserved.subtract(reservation.items)
        partition.note_free_quota(queue)
    for victim in reservation.victims:
        victim.makes_room = None
    _kept_changed(application, node)
    if reservation.is_entitled:
        partition.note_free_node(node)
    else:
        partition.note_change(node)
        partition.note_less_kept(node)


def put_on_trial(predicate_check: PredicateCheck) -> None:
    """The result is waited for. To be placed in room that nobody keeps for it, the ask holds that."""
    application, ask, node = predicate_check.application, predicate_check.ask, predicate_check.node
    if ask.predicate_history is None:
        ask.predicate_history = PredicateHistory()
    ask.predicate_history.predicate_checks[predicate_check] = None
    ask.predicate_history.predicate_reserved += predicate_check.takes_one
    node.predicate_checks[predicate_check] = None
    if predicate_check.purpose is Purpose.PLACE and predicate_check.reservation is None:
        predicate_check.items = ask.request_class.items
        _hold(predicate_check, 1)
    if predicate_check.reservation is not None:
        predicate_check.reservation.predicate_check = predicate_check
    if predicate_check.search is not None:
        predicate_check.search.predicate_check = predicate_check
    if predicate_check.placeholder is not None:
        predicate_check.placeholder.predicate_check = predicate_check
    application.partition.callbacks.open_predicate_checks[predicate_check.call_id] = predicate_check
    application.review_predicate_wait(ask)


def end_trial(predicate_check: PredicateCheck) -> None:
    """No result is waited for any longer, and nothing is held. Whether the ask stands in line again is for `review` to
    say, and for `note_less_held` that others may have the room, as most are placed in that very moment."""
    application, ask, node = predicate_check.application, predicate_check.ask, predicate_check.node
    assert ask.predicate_history is not None
    del ask.predicate_history.predicate_checks[predicate_check], node.predicate_checks[predicate_check]
    ask.predicate_history.predicate_reserved -= predicate_check.takes_one
    if predicate_check.items:
        _hold(predicate_check, -1)
    if predicate_check.reservation is not None:
        predicate_check.reservation.predicate_check = None
    if predicate_check.search is not None:
        predicate_check.search.predicate_check = None
    if predicate_check.placeholder is not None:
        predicate_check.placeholder.predicate_check = None
    del application.partition.callbacks.open_predicate_checks[predicate_check.call_id]


def note_less_held(predicate_check: PredicateCheck) -> None:
    """What it held is for everybody again. The node is as it was: who was refused there is not asked about again."""
    application = predicate_check.application
    if predicate_check.items:
        application.partition.note_less_kept(predicate_check.node)
        application.partition.note_free_quota(application.queue)


def _hold(predicate_check: PredicateCheck, times: int) -> None:
    application, node, items = predicate_check.application, predicate_check.node, predicate_check.items
    node.reserved.add(items, times)
    node.entitled_reserved.add(items, times)
    node.predicate_reserved.add(items, times)
    application.predicate_reserved.add(items, times)
    for one in application.queue.path_to_root:
        one.quota_reserved.add(items, times)
        one.predicate_reserved.add(items, times)
    _kept_changed(application, node)
    application.usage_changed()
    for one in application.queue.path_to_root:
        one.rekey()


def make_room(reservation: Reservation, victim: Allocation, now_ns: int) -> None:
    """The allocation was asked to go for the sake of the reservation."""
    if not reservation.victims:
        reservation.asked_to_end_ns = now_ns
    reservation.victims[victim] = None
    victim.makes_room = reservation


def leave(allocation: Allocation, termination: TerminationType) -> None:
    """It was asked to go. If nobody takes its room in exchange, others may count on that room."""
    allocation.releasing = termination
    _count_leaving(allocation, 1)


def left(allocation: Allocation) -> None:
    """It is gone; fine if it was not asked to go."""
    _count_leaving(allocation, -1)
    reservation = allocation.makes_room
    if reservation is not None:
        del reservation.victims[allocation]
        allocation.application.partition.ready[reservation.node] = None


def _count_leaving(allocation: Allocation, times: int) -> None:
    if allocation.releasing in (None, TerminationType.PLACEHOLDER_REPLACED):
        return
    items, queue = allocation.request_class.items, allocation.application.queue
    allocation.node.leaving.add(items, times)
    for one in queue.path_to_root:
        one.leaving.add(items, times)


def _kept_changed(application: Application, node: Node) -> None:
    node.rescore()
    if node.ordered:
        application.partition.node_order.moved(node)
    if application.partition.constraints.rules:
        application.partition.constraints.moved(node)
