"""Where a reservation helps: on nodes that would have room if no other application used them (SEMANTICS I9).

An ask that would not fit even then waits for nodes to come. A reservation for it would keep others out and never be
used; so would one for a gang that cannot be complete on the nodes there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulerd.core.decide.packing import Bin, fits
from schedulerd.core.model.footprint import Footprint
from schedulerd.core.resources import Resources

if TYPE_CHECKING:
    from schedulerd.core.model.application import Application
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.partition import Partition
    from schedulerd.core.model.request_class import RequestClass


def fits_beside_own(application: Application, request_class: RequestClass, node: Node) -> bool:
    """Whether an ask of the request class fits on the node beside what the application itself uses there."""
    return _footprint(application).room(node).lacks(request_class.items) is None


def gang_fits(application: Application) -> bool:
    """Whether all pending placeholders of the application would fit on today's nodes beside what it uses there itself.

    True for an application without pending placeholders. What was found is remembered until the nodes, the pending
    placeholders or the allocations of the application change.
    """
    gang, partition = application.gang, application.partition
    if gang is None or not gang.pending:
        return True
    footprint = _footprint(application)
    wanted = [(group.request_class, group.pending) for group in application.groups.values() if group.placeholder]
    by_node = any(request_class.required_node or request_class.constraint is not None for request_class, _ in wanted)
    version = partition.capacity_changes, footprint.changes, gang.demands, partition.moves if by_node else 0
    if gang.fits is None or gang.fits[0] != version:
        bins = _nodes(partition, footprint, wanted) if by_node else _sizes(partition, footprint)
        partition.retry_timers.budget.visits += len(bins)
        gang.fits = version, fits(partition, wanted, bins)
    return gang.fits[1]


def recheck(partition: Partition) -> None:
    """Nodes or gangs changed: the next cycle checks the reservations of gangs, and later gangs are not held back any
    longer for a gang that cannot be complete."""
    for reservation in partition.reservations:
        gang = reservation.application.gang
        if gang is not None and gang.pending:
            partition.ready[reservation.node] = None
    if partition.priority_gang is not None and not gang_fits(partition.priority_gang):
        partition.set_priority_gang(None)


def _footprint(application: Application) -> Footprint:
    if application.footprint is None:
        application.footprint = Footprint(application.allocations.values())
    return application.footprint


def _sizes(partition: Partition, footprint: Footprint) -> list[Bin]:
    """The nodes that may get new allocations, equal ones together; those that the application uses one by one."""
    own = [node for node in footprint.by_node if node.ordered]
    sizes = dict(partition.sizes())
    for node in own:
        sizes[node.capacity.minus(node.occupied).canonical()] -= 1
    bins = [Bin(footprint.room(node), 1, node) for node in own]
    return bins + [Bin(Resources(size), count) for size, count in sizes.items() if count]


def _nodes(partition: Partition, footprint: Footprint, wanted: list[tuple[RequestClass, int]]) -> list[Bin]:
    """The nodes that may get new allocations one by one, and those that take only what requires them."""
    nodes = dict.fromkeys(node for node in partition.nodes.values() if node.ordered)
    for request_class, _ in wanted:
        required = partition.nodes.get(request_class.required_node)
        if required is not None and required.ready:
            nodes[required] = None
    return [Bin(footprint.room(node), 1, node) for node in nodes]
