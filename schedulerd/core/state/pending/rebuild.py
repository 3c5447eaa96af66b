"""Rebuilds all positions after the queue file changed."""

from __future__ import annotations

from schedulerd.core.language.specs import PartitionSpec
from schedulerd.core.state.model.node import Scoring
from schedulerd.core.state.nodes.node_order import NodeOrder
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import enqueue_all, note_possible_swap
from schedulerd.core.state.pending.start_order import admit_next


def rebuild(partition: Partition, spec: PartitionSpec) -> None:
    """Orders all nodes, and enters all pending asks, again; for changes of queues or of the node order."""
    partition.spec = spec
    partition.scoring = Scoring(spec.node_order, spec.node_weights)
    partition.node_order = NodeOrder(partition.rooms.notes)
    for node in partition.nodes.values():
        node.scoring = partition.scoring
        node.rescore()
        if node.ordered:
            partition.node_order.add(node)
    partition.constraints.all_scores_changed()
    partition.request_classes.forget_all()
    partition.pending_counts.clear()
    for noted in (partition.touched, partition.freed_queues):
        noted.clear()
    partition.retry_timers.forget()
    for reservation in partition.reservations:
        partition.reservations_to_check[reservation.node] = None
    for queue in partition.root.subtree():
        queue.reset_pending()
    for application in partition.applications.values():
        application.reset_pending()
    for application in partition.applications.values():
        enqueue_all(partition, application)
    for queue in partition.root.subtree():
        admit_next(partition, queue)
        partition.touched[queue] = None
    for application in partition.applications.values():
        note_possible_swap(partition, application)
