"""How reservations begin and end. `new_reservations` chooses the asks and nodes.

A reservation ends when its ask is allocated or withdrawn or its node is gone. It also ends after a time, so that a node
is not blocked for ever; then neither the ask nor the node gets another one for a while.
"""

from __future__ import annotations

from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.preemption import RoomMade
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded, Reserved
from schedulerd.core.state.actions import predicate_checks
from schedulerd.core.state.alarm_events import ReservationTimeout
from schedulerd.core.state.ledger import commit_room
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import schedule_preemption
from schedulerd.core.state.step_context import StepContext


def due_ns(context: StepContext, ask: Ask) -> int:
    """From when on the ask may have a reservation: at once with a required node, else after `reservation_delay_s`."""
    if ask.request_class.required_node:
        return ask.no_reservation_before_ns
    return max(ask.asked_at_ns + context.cluster.timeouts.reservation_delay_ns, ask.no_reservation_before_ns)


def reserve(context: StepContext, application: Application, ask: Ask, node: Node, *, is_entitled: bool) -> Reservation:
    """Reserves room of the node for one allocation of the ask."""
    partition, queue = context.partition_of(application), application.queue
    reservation = commit_room.reserve(partition, application, ask, node, is_entitled=is_entitled, now_ns=context.now_ns)
    deadline_ns = context.now_ns + context.cluster.timeouts.reservation_ns
    reservation.alarm = context.cluster.alarms.set(deadline_ns, ReservationTimeout(reservation))
    partition.reservations_to_check[node] = None
    context.emit(
        Reserved(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            node_id=node.node_id,
            resources=ask.request_class.resources,
            entitled=is_entitled,
            number=reservation.number,
        )
    )
    return reservation


def end(context: StepContext, reservation: Reservation, why: ReservationEnd) -> None:
    """Ends the reservation. Its room is free again, and other asks may reserve it."""
    application, ask = reservation.application, reservation.ask
    partition, queue = context.partition_of(application), application.queue
    context.cluster.alarms.cancel(reservation.alarm)
    commit_room.end_reservation(partition, reservation)
    if reservation.predicate_check is not None:
        predicate_checks.void(context, reservation.predicate_check)
    if ask.pending and application.groups[ask.group_key].pending_class.unschedulable:
        again_ns = max(due_ns(context, ask), context.now_ns + context.cluster.timeouts.reservation_delay_ns)
        partition.retry_timers.reservations_due.set_earlier(application.groups[ask.group_key].pending_class, again_ns)
    node_due_ns = max(context.now_ns, reservation.node.no_reservation_before_ns)
    partition.retry_timers.retry_on_node(reservation.node, node_due_ns)
    if why in (ReservationEnd.QUOTA, ReservationEnd.NODE) and reservation.node.ordered:  # against endless repetition
        attempt_ns = context.now_ns + context.cluster.timeouts.preemption_attempt_ns
        ask.preemption_retry_ns = max(ask.preemption_retry_ns, attempt_ns)
        # The end renews the refusals of the RM on the node. So room that it refuses would be reserved again at once.
        is_repeated = why is ReservationEnd.NODE or reservation.made_at_ns == context.now_ns
        if is_repeated and not reservation.is_entitled:
            ask.no_reservation_before_ns = max(
                ask.no_reservation_before_ns, context.now_ns + context.cluster.timeouts.reservation_delay_ns
            )
    if ask.pending:
        schedule_preemption(partition, application, ask)
    next_ns = partition.retry_timers.next_ns()
    if next_ns is not None and next_ns <= context.now_ns:  # before the running cycle allocates other asks
        partition.retry_timers.has_due = True
    context.emit(
        ReservationEnded(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            node_id=reservation.node.node_id,
            entitled=reservation.is_entitled,
            end=why,
            kept_ns=context.now_ns - reservation.made_at_ns,
            number=reservation.number,
        )
    )


def trim(context: StepContext, ask: Ask) -> None:
    """Less of the ask is pending: ends the reservations that it no longer needs.

    Aging reservations end before entitled ones, and later ones before earlier ones.
    """
    if ask.unreserved >= 0:
        return
    last_first = sorted(ask.reservations, key=lambda one: (one.is_entitled, -one.number))
    for reservation in last_first[: -ask.unreserved]:
        end(context, reservation, ReservationEnd.NOT_NEEDED)


def end_all(context: StepContext, partition: Partition, node: Node) -> None:
    """Ends all reservations on a node that is about to be removed."""
    for reservation in list(node.reservations):
        end(context, reservation, ReservationEnd.NODE)
    partition.reservations_to_check.pop(node, None)


def on_expired(context: StepContext, reservation: Reservation) -> None:
    """The reservation lasted for its time: it ends, unless one of its victims is still there."""
    if reservation.victims:
        deadline_ns = context.now_ns + context.cluster.timeouts.reservation_ns
        reservation.alarm = context.cluster.alarms.set(deadline_ns, ReservationTimeout(reservation))
        return
    ask = reservation.ask
    ask.no_reservation_before_ns = context.now_ns + context.cluster.timeouts.reservation_ns
    if not reservation.is_entitled:
        reservation.node.no_reservation_before_ns = ask.no_reservation_before_ns
    if reservation.is_entitled:
        ask.preemption_retry_ns = ask.no_reservation_before_ns
    end(context, reservation, ReservationEnd.EXPIRED)


def room_made(victim: Allocation, now_ns: int) -> Fact | None:
    """The fact if this victim is the last one of its reservation, else None. Call this before the victim is removed."""
    reservation = victim.makes_room
    if reservation is None or len(reservation.victims) > 1:
        return None
    application = reservation.application
    assert reservation.asked_to_end_ns is not None
    return RoomMade(
        rm_id=application.rm_id,
        partition=application.partition_name,
        queue=application.queue.path,
        application_id=application.application_id,
        allocation_key=reservation.ask.key,
        node_id=reservation.node.node_id,
        waited_ns=now_ns - reservation.asked_to_end_ns,
        number=reservation.number,
    )
