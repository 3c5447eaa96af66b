"""The part of `commit` that is about room which is not free for everybody: kept for somebody, or about to be free.

Node, ask, queues and partition change together here as well.
"""

from __future__ import annotations

from schedulerd.core.commands import TerminationType
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.model.trial import Hearing, Purpose, Trial


def reserve(application: Application, ask: Ask, node: Node, *, is_firm: bool, now_ns: int) -> Reservation:
    """Keeps room of the node for one pending allocation of the ask, which has none there yet."""
    reservation = Reservation(application, ask, node, is_firm=is_firm, now_ns=now_ns)
    partition, queue = application.partition, application.queue
    assert queue is not None
    ask.reservations[node] = node.reservations[ask] = reservation
    partition.reservations[reservation] = application.reservations[reservation] = None
    node.kept.add(reservation.items)
    partition.reserved += not is_firm
    if is_firm:
        node.firmly_kept.add(reservation.items)
        for one in queue.lineage:
            one.claimed.add(reservation.items)
    _kept_changed(application, node)
    return reservation


def end_reservation(reservation: Reservation) -> None:
    """The room is for everybody again. Who was asked to go for it goes all the same."""
    application, ask, node = reservation.application, reservation.ask, reservation.node
    partition, queue = application.partition, application.queue
    assert queue is not None
    del ask.reservations[node], node.reservations[ask]
    del partition.reservations[reservation], application.reservations[reservation]
    partition.short_of_quota.pop(reservation, None)
    node.kept.subtract(reservation.items)
    partition.reserved -= not reservation.is_firm
    if reservation.is_firm:
        node.firmly_kept.subtract(reservation.items)
        for one in queue.lineage:
            one.claimed.subtract(reservation.items)
        partition.note_free_quota(queue)
    for victim in reservation.victims:
        victim.makes_room = None
    _kept_changed(application, node)
    if reservation.is_firm:
        partition.note_free_node(node)
    else:
        partition.note_change(node)
        partition.note_less_kept(node)


def put_on_trial(trial: Trial) -> None:
    """The verdict is waited for. To be placed in room that nobody keeps for it, the ask holds that."""
    application, ask, node = trial.application, trial.ask, trial.node
    if ask.hearing is None:
        ask.hearing = Hearing()
    ask.hearing.trials[trial] = None
    ask.hearing.on_trial += trial.takes_one
    node.trials[trial] = None
    if trial.purpose is Purpose.PLACE and trial.reservation is None:
        trial.items = ask.shape.items
        _hold(trial, 1)
    if trial.reservation is not None:
        trial.reservation.trial = trial
    if trial.search is not None:
        trial.search.trial = trial
    if trial.placeholder is not None:
        trial.placeholder.trial = trial
    application.partition.callbacks.open_trials[trial.call_id] = trial
    application.review(ask)


def end_trial(trial: Trial) -> None:
    """No verdict is waited for any longer, and nothing is held. Whether the ask stands in line again is for `review` to
    say, and for `note_less_held` that others may have the room, as most are placed in that very moment."""
    application, ask, node = trial.application, trial.ask, trial.node
    assert ask.hearing is not None
    del ask.hearing.trials[trial], node.trials[trial]
    ask.hearing.on_trial -= trial.takes_one
    if trial.items:
        _hold(trial, -1)
    if trial.reservation is not None:
        trial.reservation.trial = None
    if trial.search is not None:
        trial.search.trial = None
    if trial.placeholder is not None:
        trial.placeholder.trial = None
    del application.partition.callbacks.open_trials[trial.call_id]


def note_less_held(trial: Trial) -> None:
    """What it held is for everybody again. The node is as it was: who was refused there is not asked about again."""
    application = trial.application
    assert application.queue is not None
    if trial.items:
        application.partition.note_less_kept(trial.node)
        application.partition.note_free_quota(application.queue)


def _hold(trial: Trial, times: int) -> None:
    application, node, items = trial.application, trial.node, trial.items
    assert application.queue is not None
    node.kept.add(items, times)
    node.firmly_kept.add(items, times)
    node.on_trial.add(items, times)
    application.on_trial.add(items, times)
    for one in application.queue.lineage:
        one.claimed.add(items, times)
        one.on_trial.add(items, times)
    _kept_changed(application, node)
    application.usage_changed()
    for one in application.queue.lineage:
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
    items, queue = allocation.shape.items, allocation.application.queue
    assert queue is not None
    allocation.node.leaving.add(items, times)
    for one in queue.lineage:
        one.leaving.add(items, times)


def _kept_changed(application: Application, node: Node) -> None:
    node.rescore()
    if node.ordered:
        application.partition.node_order.moved(node)
    if application.partition.constraints.rules:
        application.partition.constraints.moved(node)
