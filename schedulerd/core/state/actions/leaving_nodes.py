"""A node leaves its partition."""

from __future__ import annotations

from schedulerd.core.language.facts.fact import (
    NodeChanged,
)
from schedulerd.core.language.facts.unclaimed import UnclaimedEnd
from schedulerd.core.language.fsm import move
from schedulerd.core.language.lifecycles import NODE, NodeTrigger
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.actions import unclaimed
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import StepContext


def drop(context: StepContext, partition: Partition, node: Node, message: str) -> None:
    """Forgets a node without allocations of applications and without reservations."""
    for one in list(node.unclaimed.values()):
        unclaimed.end(context, partition, one, UnclaimedEnd.NODE_REMOVED, message=message, confirm=True)
    old, node.state = node.state, move(NODE, node.state, NodeTrigger.DECOMMISSION)
    del partition.nodes[node.node_id]
    partition.refused_asks.nodes_to_retry.pop(node, None)
    commit.report_use(partition, node, None)
    partition.constraints.forget(node)
    partition.capacity_changed()
    context.emit(
        NodeChanged(
            rm_id=partition.rm_id,
            partition=partition.name,
            node_id=node.node_id,
            old_state=old,
            state=node.state,
            capacity=Resources(),
            occupied=Resources(),
            cause=message,
        )
    )
