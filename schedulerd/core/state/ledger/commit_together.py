"""Many allocations of one application are booked together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation, Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.node import Node
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.ask_group import AskGroup
from schedulerd.core.state.pending.asks import dequeue_several


def allocate(
    partition: Partition,
    application: Application,
    group: AskGroup,
    planned: Sequence[tuple[Ask, Node]],
    new_uuid: Callable[[], str],
) -> list[Allocation]:
    """The same as `commit.allocate` for one pending allocation of each of these asks, which are members of a gang and
    of one group, on its node. Ledgers are changed once, and each node is moved once."""
    request_class, allocations = group.request_class, []
    of_application, of_partition = application.allocations, partition.allocations
    for ask, node in planned:
        uuid = new_uuid()
        allocation = Allocation(uuid, application, ask, node, ask.spec, request_class)
        ask.placed += 1
        ask.allocations[uuid] = of_application[uuid] = of_partition[uuid] = node.allocations[uuid] = allocation
        allocations.append(allocation)
    commit.begin_use(partition, application, allocations)
    items = request_class.items
    for node, count in Counter(node for _, node in planned).items():
        for name, amount in items:
            node.allocated[name] += amount * count
            node.available[name] -= amount * count  # stays as 0: searches read it, and a missing name costs a call
        node.rescore()
        if node.ordered:
            partition.node_order.moved(node)
    if partition.constraints.rules:
        for allocation in allocations:
            partition.constraints.placed(allocation)
    dequeue_several(partition, application, group, Counter(ask for ask, _ in planned))
    commit.rekey(application)
    return allocations
