"""Whether a reservation can help: the ask or gang would fit if no other application used the nodes (SEMANTICS I9).

Otherwise it waits for new nodes, and a reservation would keep other asks out and never be used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.footprint import Footprint
from schedulerd.core.state.nodes.packing import Bin, fits

if TYPE_CHECKING:
    from schedulerd.core.state.model.application import Application
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.partition import Partition
    from schedulerd.core.state.pending.request_class import RequestClass


def fits_beside_own(application: Application, request_class: RequestClass, node: Node) -> bool:
    """Whether an ask of the request class fits on the node beside the allocations of its own application."""
    return _footprint(application).room(node).lacks(request_class.items) is None


def gang_fits(partition: Partition, application: Application) -> bool:
    """Whether all pending placeholders fit on the nodes beside the application's own allocations, without other
    applications.

    True without pending placeholders. The answer is cached until nodes, pending placeholders or allocations of the
    application change.
    """
    gang = application.gang
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


def domain_fits(partition: Partition, application: Application, task_group: str) -> bool:
    """Whether the members of the task group that are asked for fit into its domain beside the application's own
    allocations, without other applications. As many of them count as the task group needs."""
    gang, footprint = application.gang, _footprint(application)
    assert gang is not None
    left, wanted = gang.missing(gang.declared[task_group]), []
    for group in application.groups.values():
        if group.task_group == task_group and not group.placeholder:
            wanted.append((group.request_class, min(left, group.pending)))
            left -= min(left, group.pending)
    return fits(partition, wanted, _nodes(partition, footprint, wanted))


def gangs_that_hold(partition: Partition) -> list[Application]:
    """The applications whose gangs declare their task groups and hold room slot by slot."""
    return [
        one
        for one in partition.open_gangs
        if one.gang is not None and one.gang.state is GangState.GATHERING and one.placeholders
    ]


def exceed_all_nodes(partition: Partition, applications: Iterable[Application]) -> bool:
    """Whether these gangs need more room together than there is on all schedulable nodes: they cannot all be
    complete."""
    left = Resources()
    for size, count in partition.sizes().items():
        left.add(size, count)
    for one in applications:
        assert one.gang is not None
        left.subtract(one.gang.asked.items())
        left.subtract(one.placeholder_allocated.items())
    return any(amount < 0 for amount in left.values())


def _footprint(application: Application) -> Footprint:
    if application.footprint is None:
        application.footprint = Footprint(application.allocations.values())
    return application.footprint


def _sizes(partition: Partition, footprint: Footprint) -> list[Bin]:
    """The schedulable nodes as bins: one for each node that the application uses, and one for each size of the other
    nodes."""
    own = [node for node in footprint.by_node if node.ordered]
    sizes = dict(partition.sizes())
    for node in own:
        sizes[node.capacity.minus(node.occupied).canonical()] -= 1
    bins = [Bin(footprint.room(node), 1, node) for node in own]
    return bins + [Bin(Resources(size), count) for size, count in sizes.items() if count]


def _nodes(partition: Partition, footprint: Footprint, wanted: list[tuple[RequestClass, int]]) -> list[Bin]:
    """A bin for each schedulable node, and for each required node that is ready."""
    nodes = dict.fromkeys(node for node in partition.nodes.values() if node.ordered)
    for request_class, _ in wanted:
        required = partition.nodes.get(request_class.required_node)
        if required is not None and required.ready:
            nodes[required] = None
    return [Bin(footprint.room(node), 1, node) for node in nodes]
