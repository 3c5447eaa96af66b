"""The part of `commit` for unclaimed allocations: they change the ledger of their node, and no other."""

from __future__ import annotations

from schedulerd.core.state.model.node import Node, Unclaimed
from schedulerd.core.state.partition import Partition


def hold(partition: Partition, one: Unclaimed) -> None:
    """Books the allocation on its node, room or not: it runs there already."""
    node = one.node
    partition.unclaimed.add(one)
    node.unclaimed[one.uuid] = one
    node.allocated.add(one.items)
    node.available.subtract(one.items)
    _moved(partition, node)
    if partition.constraints.rules:
        partition.constraints.placed(one)


def drop(partition: Partition, one: Unclaimed, *, frees_room: bool) -> None:
    """The allocation is unclaimed no longer. `frees_room`: waiting asks may have its room, because nothing else takes
    it at once."""
    node = one.node
    partition.unclaimed.remove(one)
    del node.unclaimed[one.uuid]
    node.allocated.subtract(one.items)
    node.available.add(one.items)
    _moved(partition, node)
    if partition.constraints.rules:
        partition.constraints.freed(one)
    if frees_room:
        partition.note_free_node(node)


def _moved(partition: Partition, node: Node) -> None:
    node.rescore()
    if node.ordered:
        partition.node_order.moved(node)
