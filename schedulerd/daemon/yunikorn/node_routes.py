"""Routes of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schedulerd.core.state.partition import Partition
from schedulerd.daemon.runtime.json_stream import PAUSE, Listed
from schedulerd.daemon.yunikorn import lookup
from schedulerd.daemon.yunikorn.application_projections import ApplicationObjects
from schedulerd.daemon.yunikorn.application_routes import application_objects
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.errors import PARTITION_NOT_FOUND, PeerError
from schedulerd.daemon.yunikorn.go_json import Fields
from schedulerd.daemon.yunikorn.node_projections import node_object
from schedulerd.daemon.yunikorn.partition_routes import all_partitions
from schedulerd.daemon.yunikorn.utilization import dominant, utilizations


async def nodes(call: Call) -> object:
    """All nodes of a partition, with their allocations."""
    partition = lookup.partition(call)
    call.check_size(len(partition.nodes) + len(partition.allocations), "/api/v1/nodes")
    return Listed(each_node(partition, application_objects(call, partition)))


def each_node(partition: Partition, objects: ApplicationObjects) -> Iterator[Any]:
    """The nodes, made when they are written."""
    for one in list(partition.nodes.values()):
        yield node_object(one, partition, objects) if partition.nodes.get(one.node_id) is one else PAUSE


async def node(call: Call) -> object:
    """One node."""
    partition = lookup.partition(call)
    found = lookup.node(call, partition)
    call.check_size(len(found.allocations), "/api/v1/nodes")
    return node_object(found, partition, application_objects(call, partition))


async def node_utilizations(call: Call) -> object:
    """How full the nodes are, by partition and resource."""
    found = []
    for rm, partition in all_partitions(call):
        one: Fields = {"clusterId": rm.rm_id, "partition": partition.name}
        if partition.nodes:
            one["utilizations"] = Listed(utilizations(partition))
        found.append(one)
    return Listed(found)


async def node_utilization(call: Call) -> object:
    """The resource that is used most, in the default partition; of version 1.4 of the peer."""
    partition = lookup.resource_manager(call).partitions.get("default")
    if partition is None:
        raise PeerError(404, PARTITION_NOT_FOUND)
    name = dominant(partition)
    if not name:
        return {}
    for one in utilizations(partition):
        await call.work.breathe()
        if one is not PAUSE and one["type"] == name:
            return one
    return {}
