"""Asks that are old enough: a node is reserved for them, and they are allocated there when it has room."""

from __future__ import annotations

from schedulerd.core.alarm_events import RetryDue
from schedulerd.core.decide.own_room import fits_beside_own, gang_fits
from schedulerd.core.decide.preemption import shortage
from schedulerd.core.handlers import predicate_checks, preemption, reservations, reserving
from schedulerd.core.handlers.allocating import allocate
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.request_class import PendingClass
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.preemption_facts import PreemptionRefusal, ReservationEnd
from schedulerd.core.quotas.rules import blocked, blocked_by_limits, highest_blocked, stays_blocked
from schedulerd.core.quotas.sentences import sentence
from schedulerd.core.resources import Items, Resources
from schedulerd.core.step_context import StepContext


def mark_unschedulable(context: StepContext, partition: Partition, pending_class: PendingClass, first: Ask) -> None:
    """No node has room for the request class, of which `first` is the next to be placed."""
    partition.mark_unschedulable(pending_class)
    timers, delay_ns = partition.retry_timers, context.cluster.timeouts.reservation_delay_ns
    timers.expect_reservation(pending_class, first.asked_at_ns)
    if pending_class.request_class.required_node or first.asked_at_ns + delay_ns <= context.now_ns:
        timers.has_due = True


def schedule_alarm(context: StepContext, partition: Partition) -> None:
    """Sees to it that the next cycle, or an alarm, looks who is due."""
    timers = partition.retry_timers
    timers.wake(partition.moves)
    next_ns = timers.next_ns(context.cluster.timeouts.reservation_delay_ns)
    if next_ns is None:
        context.cluster.alarms.cancel(timers.alarm)
        return
    if next_ns <= context.now_ns:
        timers.has_due = True
    elif timers.alarm is None or not timers.alarm.live or next_ns < timers.alarm.deadline_ns:
        context.cluster.alarms.cancel(timers.alarm)
        timers.alarm = context.cluster.alarms.set(next_ns, RetryDue(partition))


def enqueue_due(context: StepContext, partition: Partition) -> None:
    """Enqueues every ask that is due now for a reservation, and every application that is due for preemption."""
    partition.retry_timers.has_due = False
    reserving.enqueue_due(context, partition)
    preemption.enqueue_due(context, partition)


def serve_next(context: StepContext, partition: Partition) -> bool:
    """Places the next ask whose reserved room is there, or makes room for it; False if there is none."""
    while partition.ready:
        node = next(iter(partition.ready))
        kept = Resources()
        for reservation in sorted(node.reservations.values(), key=lambda one: not one.is_entitled):
            void = _void(partition, reservation)
            if void is not None:
                reservations.end(context, reservation, void)
            elif reservation.predicate_check is None and _serve(context, reservation, kept):
                return True
            elif reservation in partition.reservations:
                kept.add(reservation.items)
        del partition.ready[node]
    return False


def _void(partition: Partition, reservation: Reservation) -> ReservationEnd | None:
    """Why the reservation is for nothing; None if it is not."""
    application, ask, node = reservation.application, reservation.ask, reservation.node
    group = application.groups.get(ask.band)
    if group is None or ask not in group or not application.admits_group(group) or not application.propagates_demand:
        return ReservationEnd.NOT_NEEDED
    takes = node.ready if ask.request_class.required_node else node.ordered
    fits = (
        node.can_ever_fit(reservation.items)
        if ask.request_class.required_node
        else fits_beside_own(application, ask.request_class, node)
    )
    if not takes or not fits:
        return ReservationEnd.NODE
    if not ask.request_class.required_node and not gang_fits(application):
        return ReservationEnd.GANG
    is_refused = partition.objection_without(ask.request_class, node, tuple(reservation.victims)) is not None
    return ReservationEnd.NODE if is_refused else None


def _serve(context: StepContext, reservation: Reservation, kept: Resources) -> bool:
    """`kept` is what those before it have a right to."""
    application, ask, node = reservation.application, reservation.ask, reservation.node
    partition, queue = application.partition, application.queue
    kind = application.groups[ask.band].pending_class
    if node.available.minus(kept).lacks(reservation.items) is not None:
        return _make_room(context, reservation, kept)
    if reservation.victims and partition.objection(ask.request_class, node) is not None:
        return False
    if highest_blocked(queue, kind.items, kind.quota_key, _own_claim(reservation)) is not None:
        if reservation.victims or _lasting_refusal(application, reservation) is None:
            partition.short_of_quota[reservation] = None
        else:
            reservations.end(context, reservation, ReservationEnd.QUOTA)
        return False
    if partition.callbacks.predicates and reservation.agreed_at < node.changed:
        if ask.untried > 0:
            predicate_checks.place_in(context, reservation)
            return True
        return False
    reservations.end(context, reservation, ReservationEnd.PLACED)
    allocate(context, application, ask, node)
    return True


def _own_claim(reservation: Reservation) -> Items:
    return reservation.items if reservation.is_entitled else ()


def _lasting_refusal(application: Application, reservation: Reservation) -> str | None:
    """Which quota or limit keeps it out even when all that was asked to go has gone, as a sentence; None if none."""
    kind, own_claim = application.groups[reservation.ask.band].pending_class, _own_claim(reservation)
    for queue in application.queue.path_to_root:
        if stays_blocked(queue, reservation.items, own_claim):
            why = blocked(queue, kind.items, kind.quota_key, own_claim)
            return sentence(why) if why is not None else None
        why = blocked_by_limits(queue, kind.items, kind.quota_key)
        if why is not None:
            return sentence(why)
    return None


def _make_room(context: StepContext, reservation: Reservation, kept: Resources) -> bool:
    """False if nobody is asked to end for it now."""
    application, ask, node = reservation.application, reservation.ask, reservation.node
    if ask.request_class.required_node:
        is_allowed = application.partition.spec.preemption_enabled
        return is_allowed and _make_room_on_only_node(context, reservation, kept)
    if reservation.is_entitled and not reservation.victims and shortage(reservation.items, node, kept):
        reservations.end(context, reservation, ReservationEnd.NODE)
    return False


def _make_room_on_only_node(context: StepContext, reservation: Reservation, kept: Resources) -> bool:
    """Others end for room on its node, not for a quota: without one it waits, and says so if that may be long."""
    application, partition = reservation.application, reservation.application.partition
    kind = application.groups[reservation.ask.band].pending_class
    if highest_blocked(application.queue, kind.items, kind.quota_key, _own_claim(reservation)) is None:
        return preemption.for_required_node(context, reservation, kept)
    partition.short_of_quota[reservation] = None
    limit = _lasting_refusal(application, reservation)
    if limit is not None:
        reason = f"{limit}; others end for room on its node, not for a quota"
        preemption.refuse_required_node(context, reservation, PreemptionRefusal.QUOTA, reason)
    return False


def forget_node(context: StepContext, partition: Partition, node: Node) -> None:
    """The node is about to go, and nothing can be kept there."""
    reservations.end_all(context, node)
    partition.ready.pop(node, None)
