"""An allocation that stays has other amounts, or is on another node, because its resource manager says so.

The pod has its amounts, or runs there, already (SEMANTICS I17, I25). So nothing is refused, and what is then above a
quota or a node's capacity is over-commit like any other.
"""

from __future__ import annotations

from schedulerd.core.language.facts.fact import AllocationChanged, ChangeCause
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.actions import predicate_checks, relief_time, reservations
from schedulerd.core.state.ledger import commit_changes
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.step_context import StepContext


def resize(context: StepContext, allocation: Allocation, resources: Resources) -> None:
    """The allocation has these amounts, in all ledgers at once; fine if it has them already."""
    old = allocation.request_class.resources
    if old.canonical() == resources.canonical():
        return
    partition = context.partition_of(allocation.application)
    commit_changes.resize(partition, allocation, resources)
    for queue in allocation.application.queue.path_to_root:
        relief_time.watch(context, partition, queue)
    context.emit(_changed(allocation, ChangeCause.RESIZED, allocation.uuid, allocation.node, old))


def move(context: StepContext, allocation: Allocation, node: Node, uuid: str) -> None:
    """The allocation is on the node, and its resource manager knows it by this UUID; fine if that is so already.

    One that was told to go is still told to go: the one release that is out stands for it.
    """
    old_uuid, old_node = allocation.uuid, allocation.node
    if (old_uuid, old_node) == (uuid, node):
        return
    if allocation.predicate_check is not None:
        predicate_checks.void(context, allocation.predicate_check)
    made = reservations.room_made(allocation, context.now_ns) if node is not old_node else None
    commit_changes.move(context.partition_of(allocation.application), allocation, node, uuid)
    if made is not None:
        context.emit(made)
    context.emit(
        _changed(allocation, ChangeCause.MOVED, old_uuid, old_node, allocation.request_class.resources),
    )


def _changed(
    allocation: Allocation, cause: ChangeCause, old_uuid: str, old_node: Node, old_resources: Resources
) -> AllocationChanged:
    application = allocation.application
    return AllocationChanged(
        rm_id=application.rm_id,
        partition=application.partition_name,
        queue=application.queue.path,
        application_id=application.application_id,
        allocation_key=allocation.key,
        uuid=allocation.uuid,
        node_id=allocation.node.node_id,
        resources=allocation.request_class.resources,
        placeholder=allocation.placeholder,
        cause=cause,
        old_uuid=old_uuid,
        old_node_id=old_node.node_id,
        old_resources=old_resources,
    )
