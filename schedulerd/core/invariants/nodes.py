"""What must hold of nodes, of the allocations on them, and of the order in which they are tried."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.counted import differences
from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.partition import Partition


def nodes(partition: Partition) -> Iterator[str]:
    """The ledgers of a node are the sums of its allocations and unclaimed allocations, and the totals of the partition
    those of its nodes."""
    offered, used = Resources(), Resources()
    for node in partition.nodes.values():
        offered.add(node.capacity.items())
        used.add(node.used.items() if node.used is not None else ())
    yield from differences("the total of the partition", partition.total(), offered)
    schedulable = Resources()
    for node in partition.nodes.values():
        schedulable.add(node.capacity.items() if node.state is NodeState.SCHEDULABLE else ())
    yield from differences("the schedulable capacity of the partition", partition.capacity.amounts, schedulable)
    yield from differences("the reported usage of the nodes of the partition", partition.used, used)
    for node in partition.nodes.values():
        counted = Resources()
        for uuid, allocation in node.allocations.items():
            counted.add(allocation.request_class.items)
            if allocation.node is not node or allocation.application.allocations.get(uuid) is not allocation:
                yield f"node {node.node_id} has allocation {uuid} that its application does not have there"
        for one in node.unclaimed.values():
            counted.add(one.items)
        yield from differences(f"allocated of node {node.node_id}", node.allocated, counted)
        if node.available != node.capacity.minus(node.occupied).minus(node.allocated):
            yield (
                f"available of node {node.node_id} is {node.available.nonzero()}, not capacity minus occupied and "
                "allocated"
            )


def allocations(partition: Partition) -> Iterator[str]:
    """The partition has the allocations of its nodes, and no others."""
    counted = {uuid: one for node in partition.nodes.values() for uuid, one in node.allocations.items()}
    used = Resources()
    for allocation in partition.allocations.values():
        used.add(allocation.used.items() if allocation.used is not None else ())
    yield from differences("the reported usage of the allocations of the partition", partition.allocations_used, used)
    if partition.allocations != counted:
        yield f"the partition has {len(partition.allocations)} allocations, its nodes have {len(counted)}"


def node_order(partition: Partition) -> Iterator[str]:
    """The node order has exactly the schedulable nodes, sorted by scores that are up to date."""
    ordered = list(partition.node_order)
    if [(node.score, node.node_id) for node in ordered] != sorted((node.score, node.node_id) for node in ordered):
        yield "the node order is not sorted by score"
    schedulable = {node.node_id for node in partition.nodes.values() if node.state is NodeState.SCHEDULABLE}
    if {node.node_id for node in ordered} != schedulable or len(ordered) != len(schedulable):
        yield "the node order does not hold exactly the schedulable nodes"
    for node in ordered:
        if node.score != partition.scoring.score(node.capacity, node.available_beside_checks):
            yield f"the score of node {node.node_id} is not that of its resources"


def rooms(partition: Partition) -> Iterator[str]:
    """An index of room counts each node that did not change since as it is, and its domains are the sums of their
    nodes."""
    for index in partition.rooms.all():
        counted = {node: (value, room) for value, one in index.domains.items() for node, room in one.nodes.items()}
        for node in {**dict.fromkeys(partition.nodes.values()), **dict.fromkeys(counted)}:
            value, room = index.value_on(node), index.room_on(node)
            if node not in index.changed and counted.get(node) != (
                (value, room) if room and value is not None else None
            ):
                yield f"an index of room has {counted.get(node)} of node {node.node_id}, which has {room} in {value!r}"
        for value, one in index.domains.items():
            if one.room != sum(one.nodes.values()) or not one.nodes:
                yield f"an index of room has {one.room} in {value!r}, which is not the sum of its nodes"
