"""Preemptions that are planned count as if they were committed, for a search that plans further ones.

Ledgers are changed back before anything else sees them: nothing is said, and nothing that waits is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.ledger.commit_room import begin_release, count_leaving
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.plans.plan import PlannedPreemption


@contextmanager
def assumed(partition: Partition, planned: Sequence[PlannedPreemption]) -> Iterator[None]:
    """For the time of the block: room of each node is reserved for its ask, and the victims are being released."""
    reservations = [Reservation(one.application, one.ask, one.node, is_entitled=True, now_ns=0) for one in planned]
    for one, reservation in zip(planned, reservations, strict=True):
        partition.reservations[reservation] = one.node.reservations[reservation] = None
        reserve(one.application, one.ask.request_class.resources, one.node, 1)
        for victim in one.victims:
            leave(victim)
    try:
        yield
    finally:
        for one, reservation in zip(planned, reservations, strict=True):
            del partition.reservations[reservation], one.node.reservations[reservation]
            reserve(one.application, one.ask.request_class.resources, one.node, -1)
            for victim in one.victims:
                stay(victim)


def reserve(application: Application, resources: Resources, node: Node, times: int) -> None:
    """So many times more of the resources count as reserved on the node for the application."""
    node.reserved.add(resources.items(), times)
    node.entitled_reserved.add(resources.items(), times)
    for queue in application.queue.path_to_root:
        queue.quota_reserved.add(resources.items(), times)


def leave(victim: Allocation) -> None:
    """The victim counts as being released."""
    begin_release(victim, TerminationType.PREEMPTED_BY_SCHEDULER)


def stay(victim: Allocation) -> None:
    """The victim counts as not being released any longer."""
    count_leaving(victim, -1)
    victim.releasing = None
    if victim.application.gang is not None:
        victim.application.gang.above_min = None
