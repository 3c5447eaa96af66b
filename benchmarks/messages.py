"""The messages of a workload, built before any clock runs."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.workload import GANG_STYLE, GROUP, USER, Ask, Size, Workload
from schedulerd._generated.si.v1 import si_pb2

PARTITION = "default"


def node_request(workload: Workload) -> si_pb2.NodeRequest:
    request = si_pb2.NodeRequest()
    capacity = _resource(workload.node_size)
    for index, node_id in enumerate(workload.node_ids):
        node = request.nodes.add(nodeID=node_id, action=si_pb2.NodeInfo.CREATE, attributes=workload.attributes(index))
        node.schedulableResource.CopyFrom(capacity)
    return request


def application_request(workload: Workload) -> si_pb2.ApplicationRequest:
    request = si_pb2.ApplicationRequest()
    for application_id, queue in workload.applications.items():
        application = request.new.add(applicationID=application_id, queueName=queue, partitionName=PARTITION)
        application.ugi.user = USER
        application.ugi.groups.append(GROUP)
        if workload.gang_size is not None:
            application.placeholderAsk.CopyFrom(_resource(workload.gang_size))
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


def _resource(size: Size) -> si_pb2.Resource:
    resource = si_pb2.Resource()
    resource.resources["memory"].value = size.memory
    resource.resources["vcore"].value = size.vcore
    return resource
