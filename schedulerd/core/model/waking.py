"""Who is tried again at the end of a step: asks that had no node, after nodes changed or others came and went.

Nothing polls. What changed is noted as it happens, and looked at once here, however often it changed in the step.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from schedulerd.core.model.host import ClosedFor
from schedulerd.core.model.shape import Shape
from schedulerd.core.resources import Resources

if TYPE_CHECKING:
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.partition import Partition

LOOKED_AT_MAX = 64
"""How many nodes are looked at again after a step because those who were called back did not take their room."""


def after_step(partition: Partition) -> None:
    """Lets those be tried again who may have a node now."""
    if partition.constraints.changed:
        _wake_regrouped(partition)
    if partition.freed_nodes:
        _wake(partition)
        if partition.turned_down:
            for node in partition.freed_nodes:
                _call_back(partition, node)
        partition.freed_nodes.clear()
        try_denied_again(partition)
    if partition.turned_down.wanted:
        _call_back_more(partition)


def _wake(partition: Partition) -> None:
    """Lets shapes be tried again that a node made of the best of all freed nodes would fit, or the one required."""
    most = Resources()
    for node in partition.freed_nodes:
        if node.ordered:
            for name, amount in node.free.items():
                most[name] = max(most[name], amount)
    for shape in [shape for shape in partition.shapes.parked() if _may_fit(partition, shape, most)]:
        _unpark(partition, shape)


def _may_fit(partition: Partition, shape: Shape, most: Resources) -> bool:
    """Whether a node that was freed may be one for the shape; none of them has more than `most`."""
    if shape.turned_down:
        return False
    if shape.required_node:
        return partition.first_fit(shape) is not None
    if most.lacks(shape.items) is not None:
        return False
    return shape.constraint is None or partition.constraints.fits_any(shape, partition.freed_nodes)


def _call_back(partition: Partition, node: Node) -> None:
    """Lets as many of those that were turned down be tried again as fit on the node."""
    turned_down = partition.turned_down
    turned_down.wanted.pop(node, None)
    for shape in turned_down.shapes():
        if partition.refusal(shape, node) is None:
            count = max(1, min(node.free[name] // amount for name, amount in shape.items))
            called = turned_down.first(shape, node, count)
            for application, ask in called:
                application.turn(ask, down=False)
            if len(called) == count and partition.nodes.get(node.node_id) is node:
                turned_down.wanted[node] = None


def _call_back_more(partition: Partition) -> None:
    """Those who were called back may be wanted no longer, or have to wait for something else: when nobody is left to be
    tried, the room is for the next ones."""
    for node in list(islice(partition.turned_down.wanted, LOOKED_AT_MAX)):
        if partition.root.lines.first() is not None:
            break
        _call_back(partition, node)


def _wake_regrouped(partition: Partition) -> None:
    """More or fewer than before are together somewhere: asks that may, or may not any longer, be there for that are
    looked at again."""
    affinity_of, changed = partition.constraints.affinity, partition.constraints.take_changed()
    if partition.callbacks.predicates:
        # Not only for those that rest: who is on trial, or in line, may rest next, for nodes that were closed before.
        for affinity in changed:
            for node in partition.constraints.nodes_in(affinity, changed):
                partition.note_change(node)
                partition.freed_nodes[node] = None
    for shape in [one for one in partition.shapes.parked() if changed.get(affinity_of(one))]:
        if partition.first_fit(shape) is not None:
            _unpark(partition, shape)
        else:
            partition.patience.retry_shape(shape)
    for reservation in partition.reservations:
        if affinity_of(reservation.ask.shape) in changed:
            partition.ready[reservation.node] = None
    try_denied_again(partition)


def _unpark(partition: Partition, shape: Shape) -> None:
    partition.shapes.unpark(shape)
    closing = partition.root.lines.closed.get(shape)
    if closing is not None and closing.reason is ClosedFor.NODE:
        partition.root.reopen(shape)


def try_denied_again(partition: Partition) -> None:
    """Somebody may take them now: a node changed, or a placeholder is not tried for somebody else any longer."""
    denied, partition.denied = partition.denied, {}
    for group, application in denied.items():
        group.denied = False
        if application.gang is not None:
            application.gang.line_up(group)
        application.look_for_swaps()
