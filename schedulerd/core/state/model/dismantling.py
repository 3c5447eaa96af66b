"""Frees the dropped state of RMs and partitions in slices.

Applications, nodes and allocations refer to each other in cycles. Dropped state would stay in memory until a full
garbage collection, which the daemon runs rarely (`daemon.runtime.collector`). Taking a large state apart at once would
block the event loop. So a step hands what it drops to `Dismantling`, which the host runs between steps, some pieces at
a time. Nothing else refers to the dropped state, so no fact depends on the time when this happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, islice

from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.predicate_check import PredicateCheck
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition


class Dismantling:
    """Queue of the state to take apart, first in, first out."""

    __slots__ = ("_dropped",)

    def __init__(self) -> None:
        self._dropped: deque[Iterator[None]] = deque()

    def drop(self, pieces: Iterator[None]) -> None:
        """Adds dropped state. Each iteration of `pieces` frees one piece."""
        self._dropped.append(pieces)

    def run(self, count: int) -> bool:
        """Frees up to `count` pieces; False when nothing is left."""
        while self._dropped:
            taken = sum(1 for _ in islice(self._dropped[0], count))
            count -= taken
            if not count:
                break
            self._dropped.popleft()
        return bool(self._dropped)


def pieces_of(partition: Partition) -> Iterator[None]:
    """Takes a partition apart. Its alarms must be cancelled before."""
    partition.cleanup_alarm = partition.priority_gang = None
    while partition.reservations:
        yield from _reservation(partition.reservations.popitem()[0])
    for application in chain(partition.applications.values(), partition.terminated.values()):
        if isinstance(application, RejectedApplication):
            application.alarm = None
        else:
            yield from _application(application)
    for node in partition.nodes.values():
        yield from _node(node)
    for queue in partition.root.subtree():
        yield from _queue(queue)
    yield from partition.capacity.dismantle()
    yield from partition.capacity_renewal.dismantle()
    yield from partition.constraints.dismantle()
    yield from partition.sent_constraints.dismantle()
    yield from partition.retry_timers.dismantle()
    yield from partition.refused_asks.dismantle()
    yield from partition.request_classes.dismantle()
    yield from partition.pending_counts.dismantle()
    yield from partition.node_order.dismantle()
    yield from partition.rooms.dismantle()
    yield from clear_stepwise(
        partition.open_gangs,
        partition.bound_gangs,
        partition.declared_gangs,
        partition.short_of_quota,
        partition.reservations_to_check,
        partition.denied,
    )
    yield from clear_stepwise(partition.freed_nodes, partition.freed_queues, partition.touched, partition.swaps)
    yield from clear_stepwise(partition.applications, partition.terminated, partition.terminated_by_id)
    yield from partition.unclaimed.dismantle()
    yield from clear_stepwise(partition.nodes, partition.allocations)


def pieces_of_trials(predicate_checks: dict[int, PredicateCheck]) -> Iterator[None]:
    """Takes the open predicate checks of an RM apart."""
    for predicate_check in predicate_checks.values():
        yield from _predicate_check(predicate_check)
    yield from clear_stepwise(predicate_checks)


def _application(application: Application) -> Iterator[None]:
    application.starts_after = None
    application.alarm = application.gang_alarm = application.run_alarm = application.start_alarm = None
    for ask in application.asks.values():
        yield from _ask(ask)
    while application.allocations:
        _allocation(application.allocations.popitem()[1])
        yield
    for group in application.groups.values():
        yield from group.dismantle()
    if application.gang is not None:
        yield from application.gang.dismantle()
    yield from application.pending_index.dismantle()
    application.reset_position()
    yield from clear_stepwise(application.asks, application.groups, application.reservations)


def _ask(ask: Ask) -> Iterator[None]:
    ask.group = None
    if ask.predicate_history is not None:
        ask.predicate_history.awaits = None
        yield from clear_stepwise(ask.predicate_history.predicate_checks, ask.predicate_history.refused)
    yield from clear_stepwise(ask.swaps, ask.reservations, ask.allocations)
    yield


def _allocation(allocation: Allocation) -> None:
    allocation.alarm = allocation.swap = allocation.predicate_check = allocation.makes_room = None


def _node(node: Node) -> Iterator[None]:
    yield from clear_stepwise(node.allocations, node.unclaimed, node.reservations, node.predicate_checks)


def _reservation(reservation: Reservation) -> Iterator[None]:
    reservation.alarm = reservation.predicate_check = reservation.answer = None
    yield from clear_stepwise(reservation.victims)
    yield


def _predicate_check(predicate_check: PredicateCheck) -> Iterator[None]:
    if predicate_check.search is not None:
        predicate_check.search.predicate_check = None
    predicate_check.alarm = predicate_check.placeholder = predicate_check.reservation = predicate_check.search = None
    predicate_check.victims = ()
    yield from clear_stepwise(predicate_check.awaited_by)


def _queue(queue: Queue) -> Iterator[None]:
    queue.above_max_alarm = None
    yield from queue.pending_index.dismantle()
    yield from clear_stepwise(queue.applications, queue.children)
    queue.reset_position()
    queue.path_to_root = ()


def dismantle_tree(root: Queue) -> None:
    """Frees a tree of queues that was made for a trial, at once."""
    for queue in [*root.subtree()]:
        for _ in _queue(queue):
            pass
