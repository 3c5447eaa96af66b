"""What tests put into books and take out of them."""

from __future__ import annotations

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import messages
from schedulerd.client.books import Books

POD = messages.resource({"memory": 1})


def a_node(
    name: str = "node", action: si_pb2.NodeInfo.ActionFromRM.ValueType = si_pb2.NodeInfo.CREATE
) -> si_pb2.NodeInfo:
    return messages.node(name, {"memory": 100}, action=action, attributes={"si/node-partition": "gpu"})


def an_application(name: str = "app") -> si_pb2.AddApplicationRequest:
    return si_pb2.AddApplicationRequest(applicationID=name, queueName="root.a", partitionName="gpu")


def an_ask(key: str = "pod", count: int = 1, priority: int = 0) -> si_pb2.AllocationAsk:
    return si_pb2.AllocationAsk(
        applicationID="app", allocationKey=key, maxAllocations=count, priority=priority, resourceAsk=POD
    )


def an_allocation(uuid: str, key: str = "pod", node: str = "node", application: str = "app") -> si_pb2.Allocation:
    return si_pb2.Allocation(UUID=uuid, allocationKey=key, applicationID=application, nodeID=node, resourcePerAlloc=POD)


def a_release(
    uuid: str, termination: si_pb2.TerminationType.ValueType = si_pb2.STOPPED_BY_RM, key: str = "pod"
) -> si_pb2.AllocationRelease:
    return si_pb2.AllocationRelease(UUID=uuid, applicationID="app", allocationKey=key, terminationType=termination)


def placed(*allocations: si_pb2.Allocation) -> si_pb2.AllocationResponse:
    return si_pb2.AllocationResponse(new=allocations)


def released(*releases: si_pb2.AllocationRelease) -> si_pb2.AllocationResponse:
    return si_pb2.AllocationResponse(released=releases)


def accepted() -> tuple[si_pb2.NodeResponse, si_pb2.ApplicationResponse]:
    return (
        si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="node")]),
        si_pb2.ApplicationResponse(accepted=[si_pb2.AcceptedApplication(applicationID="app")]),
    )


def wanted(books: Books) -> dict[str, int]:
    """`maxAllocations` by key of what would be asked for."""
    return {ask.allocationKey: ask.maxAllocations for ask in books.report.asks()}


def held(books: Books) -> list[str]:
    return [allocation.UUID for allocation in books.allocations()]


def asked_anew(books: Books) -> dict[str, int]:
    return {ask.allocationKey: ask.maxAllocations for ask in books.report.asks_anew()}


def found(node: str, *allocations: si_pb2.Allocation) -> si_pb2.NodeInfo:
    return messages.node(node, None, action=si_pb2.NodeInfo.UPDATE, existing=allocations)


def there(books: Books) -> dict[str, tuple[str, str, int]]:
    """Node, key and memory of what is reported, by UUID."""
    return {
        each.UUID: (node.nodeID, each.allocationKey, each.resourcePerAlloc.resources["memory"].value)
        for node in books.report.nodes()
        for each in node.existingAllocations
    }


def sized(memory: int, key: str = "pod", count: int = 1) -> si_pb2.AllocationAsk:
    ask = an_ask(key, count)
    ask.resourceAsk.CopyFrom(messages.resource({"memory": memory}))
    return ask


def tagged(**tags: str) -> si_pb2.AddApplicationRequest:
    added = an_application()
    added.tags.update({f"namespace.{name}": value for name, value in tags.items()})
    return added


def quotas(books: Books) -> list[dict[str, str]]:
    return [dict(added.tags) for added in books.report.applications()]
