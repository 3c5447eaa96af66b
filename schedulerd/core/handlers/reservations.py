"""Room of nodes that is kept for asks: who gets it, and when that ends .

An ask that finds no node for a while has the node kept for it that lacks least, one that may run on a single node has
that one at once. It ends when the ask is placed, here or elsewhere, or goes, or its node does; and after a time, so
that a node is not blocked for ever by what does not come to fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from schedulerd.core import commit_room
from schedulerd.core.alarms import AlarmKind
from schedulerd.core.facts import Fact
from schedulerd.core.model.allocation import Allocation, Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.ask_group import AskGroup
from schedulerd.core.model.host import Host
from schedulerd.core.model.node import Node
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.model.shape import Shape
from schedulerd.core.preemption_facts import ReservationEnd, ReservationEnded, Reserved, RoomMade
from schedulerd.core.turn import Turn

SPARE_MAX = 64
"""How many more asks are lined up for reservations than can be made now, so as not to look for each anew."""


def look(turn: Turn, partition: Partition) -> None:
    """Lines up the asks that are old enough, of the shapes that are due, in the order in which they would be placed."""
    patience, delay_ns = partition.patience, turn.cluster.timeouts.reservation_delay_ns
    while (shape := patience.reservations_due.pop(turn.now_ns - delay_ns)) is not None:
        if not shape.parked:
            continue
        if shape.required_node:
            asks = _asks_of(partition.root, shape)
            patience.reserving.extend(entry for entry in asks if entry[1].rests_until_ns <= turn.now_ns)
            continue
        room = max(0, partition.reservable - len(patience.reserving)) + SPARE_MAX
        old = (entry for entry in _asks_of(partition.root, shape) if _due_ns(turn, entry[1]) <= turn.now_ns)
        found = list(islice(old, room + 1))
        patience.reserving.extend(found[:room])
        if len(found) > room:
            patience.unserved[shape] = None
            continue
        young = [_due_ns(turn, ask) for _, ask in _asks_of(partition.root, shape) if _due_ns(turn, ask) > turn.now_ns]
        if young:
            patience.reservations_due.set(shape, min(young) - delay_ns)


def _asks_of(host: Host, shape: Shape) -> Iterator[tuple[Application, Ask]]:
    """All that wait for a node here and below, in order, and have none kept for them."""
    for contender in host.lines.needing(shape):
        if isinstance(contender, AskGroup):
            assert isinstance(host, Application)
            for ask in contender.in_order():
                if ask.unreserved > 0:
                    yield host, ask
        elif isinstance(contender, Host):
            yield from _asks_of(contender, shape)


def _due_ns(turn: Turn, ask: Ask) -> int:
    return max(ask.asked_at_ns + turn.cluster.timeouts.reservation_delay_ns, ask.rests_until_ns)


def reserve_next(turn: Turn, partition: Partition) -> bool:
    """Keeps room for the next ask that is lined up; False if there is none for which that can be done."""
    reserving = partition.patience.reserving
    while reserving:
        application, ask = reserving[0]
        group = application.groups.get(ask.band)
        if group is None or ask not in group or not group.needs or not group.kind.parked or ask.unreserved <= 0:
            reserving.popleft()
            continue
        required = ask.shape.required_node
        if not required and partition.reservable <= 0:
            partition.patience.unserved[group.kind] = None
            reserving.popleft()
            continue
        reserving.popleft()
        node = _required_node(partition, ask) if required else _best_node(partition, ask)
        if node is None:
            continue
        if not required and ask.unreserved > 1:
            reserving.appendleft((application, ask))
        keep(turn, application, ask, node, is_firm=bool(required))
        return True
    return False


def _required_node(partition: Partition, ask: Ask) -> Node | None:
    node = partition.nodes.get(ask.shape.required_node)
    if node is None or node in ask.reservations or not node.ready or not node.can_ever_fit(ask.shape.items):
        return None
    return node if partition.objection(ask.shape, node) is None else None


def _best_node(partition: Partition, ask: Ask) -> Node | None:
    def may(node: Node) -> bool:
        return (
            not node.reservations
            and node.can_ever_fit(ask.shape.items)
            and partition.objection(ask.shape, node) is None
        )

    return partition.node_order.least_short(ask.shape, may)


def keep(turn: Turn, application: Application, ask: Ask, node: Node, *, is_firm: bool) -> Reservation:
    """Room of the node is kept for one allocation of the ask from now on."""
    reservation = commit_room.reserve(application, ask, node, is_firm=is_firm, now_ns=turn.now_ns)
    partition, queue = application.partition, application.queue
    assert queue is not None
    deadline_ns = turn.now_ns + turn.cluster.timeouts.reservation_ns
    reservation.alarm = turn.cluster.alarms.set(deadline_ns, AlarmKind.RESERVATION, reservation)
    partition.ready[node] = None
    turn.say(
        Reserved(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            node_id=node.node_id,
            resources=ask.shape.resources,
            firm=is_firm,
        )
    )
    return reservation


def end(turn: Turn, reservation: Reservation, why: ReservationEnd) -> None:
    """The room is for everybody again, and others may have some kept for them."""
    application, ask = reservation.application, reservation.ask
    partition, queue = application.partition, application.queue
    assert queue is not None
    turn.cluster.alarms.cancel(reservation.alarm)
    commit_room.end_reservation(reservation)
    delay_ns = turn.cluster.timeouts.reservation_delay_ns
    for shape in partition.patience.unserved:
        partition.patience.reservations_due.hurry(shape, turn.now_ns - delay_ns)
    partition.patience.unserved.clear()
    if ask.pending and application.groups[ask.band].kind.parked:
        due_ns = max(_due_ns(turn, ask), turn.now_ns + delay_ns)
        partition.patience.reservations_due.hurry(application.groups[ask.band].kind, due_ns - delay_ns)
    turn.say(
        ReservationEnded(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            allocation_key=ask.key,
            node_id=reservation.node.node_id,
            firm=reservation.is_firm,
            end=why,
            kept_ns=turn.now_ns - reservation.made_at_ns,
        )
    )


def trim(turn: Turn, ask: Ask) -> None:
    """Less of the ask is pending: no more room is kept than it still needs, and what was kept last goes first."""
    for reservation in list(reversed(ask.reservations.values()))[: max(0, -ask.unreserved)]:
        end(turn, reservation, ReservationEnd.NOT_NEEDED)


def end_all(turn: Turn, node: Node) -> None:
    """The node is about to go."""
    for reservation in list(node.reservations.values()):
        end(turn, reservation, ReservationEnd.NODE)


def on_expired(turn: Turn, reservation: Reservation) -> None:
    """The room was kept for long enough, unless somebody who has to go for it is still there."""
    if reservation.victims:
        deadline_ns = turn.now_ns + turn.cluster.timeouts.reservation_ns
        reservation.alarm = turn.cluster.alarms.set(deadline_ns, AlarmKind.RESERVATION, reservation)
        return
    reservation.ask.rests_until_ns = turn.now_ns + turn.cluster.timeouts.reservation_ns
    end(turn, reservation, ReservationEnd.EXPIRED)


def room_made(victim: Allocation, now_ns: int) -> Fact | None:
    """What to say if this was the last that had to go for its ask; to be called before it is forgotten."""
    reservation = victim.makes_room
    if reservation is None or len(reservation.victims) > 1:
        return None
    application = reservation.application
    assert application.queue is not None
    return RoomMade(
        rm_id=application.partition.rm_id,
        partition=application.partition.name,
        queue=application.queue.path,
        application_id=application.application_id,
        allocation_key=reservation.ask.key,
        node_id=reservation.node.node_id,
        waited_ns=now_ns - reservation.made_at_ns,
    )
