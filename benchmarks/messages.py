"""The messages of a workload, built before any clock runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from benchmarks.full_clusters import FullCluster, Pod
from benchmarks.workload import GANG_STYLE, GROUP, USER, Ask, Size, Workload
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.core.language.task_groups import TASK_GROUPS_TAG
from schedulerd.core.state.partition import REQUIRED_NODE_TAG

PARTITION = "default"
NODES_PER_REQUEST = 500
"""With ten allocations each this is less than a megabyte."""


def node_request(workload: Workload) -> si_pb2.NodeRequest:
    request = si_pb2.NodeRequest()
    capacity = _resource(workload.node_size)
    for index, node_id in enumerate(workload.node_ids):
        node = request.nodes.add(nodeID=node_id, action=si_pb2.NodeInfo.CREATE, attributes=workload.attributes(index))
        node.schedulableResource.CopyFrom(capacity)
    return request


def application_request(
    applications: Mapping[str, str],
    gang_size: Size | None = None,
    task_groups: Mapping[str, str] = MappingProxyType({}),
) -> si_pb2.ApplicationRequest:
    """Applications by id with their queues; `gang_size` is that of the placeholders of each, `task_groups` the tag of
    those that declare a gang without placeholders."""
    request = si_pb2.ApplicationRequest()
    for application_id, queue in applications.items():
        application = request.new.add(applicationID=application_id, queueName=queue, partitionName=PARTITION)
        application.ugi.user = USER
        application.ugi.groups.append(GROUP)
        if application_id in task_groups:
            application.tags[TASK_GROUPS_TAG] = task_groups[application_id]
        if gang_size is not None:
            application.placeholderAsk.CopyFrom(_resource(gang_size))
            application.gangSchedulingStyle = GANG_STYLE
    return request


def allocation_request(asks: Iterable[Ask]) -> si_pb2.AllocationRequest:
    request = si_pb2.AllocationRequest()
    resources: dict[Size, si_pb2.Resource] = {}
    for ask in asks:
        item = request.asks.add(
            applicationID=ask.application_id,
            allocationKey=ask.key,
            partitionName=PARTITION,
            maxAllocations=ask.count,
            taskGroupName=ask.task_group,
            placeholder=ask.placeholder,
        )
        item.resourceAsk.CopyFrom(resources.get(ask.size) or resources.setdefault(ask.size, _resource(ask.size)))
    return request


def full_node_requests(cluster: FullCluster) -> list[si_pb2.NodeRequest]:
    """The nodes with what runs there."""
    return node_requests(cluster.node_ids, cluster.node_size, cluster.running)


def node_requests(node_ids: Iterable[str], node_size: Size, running: Iterable[Pod]) -> list[si_pb2.NodeRequest]:
    """Nodes of one size with what runs there."""
    nodes = {node_id: si_pb2.NodeInfo(nodeID=node_id, action=si_pb2.NodeInfo.CREATE) for node_id in node_ids}
    for node in nodes.values():
        node.schedulableResource.CopyFrom(_resource(node_size))
    for pod in running:
        nodes[pod.node_id].existingAllocations.add(
            allocationKey=pod.key,
            UUID=pod.uuid,
            applicationID=pod.application_id,
            partitionName=PARTITION,
            nodeID=pod.node_id,
            priority=pod.priority,
            resourcePerAlloc=_resource(pod.size),
        )
    infos = list(nodes.values())
    step = NODES_PER_REQUEST
    return [si_pb2.NodeRequest(nodes=infos[first : first + step]) for first in range(0, len(infos), step)]


def claim_request(pods: Iterable[Pod]) -> si_pb2.AllocationRequest:
    """Asks for these, for which others may have to end."""
    request = si_pb2.AllocationRequest()
    for pod in pods:
        request.asks.add(
            applicationID=pod.application_id,
            allocationKey=pod.key,
            partitionName=PARTITION,
            maxAllocations=1,
            priority=pod.priority,
            resourceAsk=_resource(pod.size),
            tags={REQUIRED_NODE_TAG: pod.node_id} if pod.node_id else {},
            preemptionPolicy=si_pb2.PreemptionPolicy(allowPreemptOther=True),
        )
    return request


def _resource(size: Size) -> si_pb2.Resource:
    resource = si_pb2.Resource()
    resource.resources["memory"].value = size.memory
    resource.resources["vcore"].value = size.vcore
    return resource
