"""Routes of clusters, partitions, placement rules and queues."""

from __future__ import annotations

from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.runtime.json_stream import Listed
from schedulerd.daemon.yunikorn import lookup
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.partition_projections import partition_object
from schedulerd.daemon.yunikorn.queue_projections import QueueObjects
from schedulerd.daemon.yunikorn.rules import rules

CLUSTER_NAME = "kubernetes"
"""A constant of the peer."""


async def clusters(call: Call) -> object:
    """One object for each partition of each resource manager."""
    return Listed(
        {
            "startTime": call.rest.started_at_ns,
            "rmBuildInformation": [dict(sorted({**rm.build_info, "rmId": rm.rm_id}.items()))],
            "partition": partition.name,
            "clusterName": CLUSTER_NAME,
        }
        for rm, partition in all_partitions(call)
    )


async def partitions(call: Call) -> object:
    """The partitions of all resource managers."""
    return Listed([await partition_object(call, rm, one) for rm, one in all_partitions(call)])


def all_partitions(call: Call) -> list[tuple[ResourceManager, Partition]]:
    """All partitions, or those of the resource manager that `rm` of the query names."""
    return [(rm, one) for rm in call.resource_managers() for one in rm.partitions.values()]


async def placement_rules(call: Call) -> object:
    """The placement rules of a partition in their order."""
    return rules(lookup.partition(call))


async def queues(call: Call) -> object:
    """The queue tree of a partition."""
    partition = lookup.partition(call)
    _check_queues(call, sum(1 for _ in partition.root.walk()))
    objects = await QueueObjects.of(call, lookup.resource_manager(call), partition)
    return objects.tree(partition.root)


async def queue(call: Call) -> object:
    """One queue; with the key `subtree`, whatever its value, with all queues below it."""
    partition = lookup.partition(call)
    found = lookup.queue(call, partition.root)
    with_children = "subtree" in call.request.query_params
    _check_queues(call, sum(1 for _ in found.walk()) if with_children else len(found.children))
    objects = await QueueObjects.of(call, lookup.resource_manager(call), partition)
    return objects.queue(found, with_children=with_children)


def _check_queues(call: Call, count: int) -> None:
    call.check_size(count, "/api/v1/queues")
