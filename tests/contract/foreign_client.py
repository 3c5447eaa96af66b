"""A resource manager in a process of its own that has the interface's .proto file and gRPC, and nothing of schedulerd.

Called with the folder of the code that protoc made and the daemon's address; prints what it was answered, as JSON.
"""

from __future__ import annotations

import importlib
import json
import queue
import sys
from collections.abc import Callable
from typing import Any

import grpc

LIMIT_SECONDS = 60.0
RM = "foreign"
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
"""


def stream(method: Callable[..., Any]) -> tuple[Callable[[Any], None], Any]:
    """Opens it; gives what sends a request, and the responses."""
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    return requests.put, method(iter(requests.get, None), timeout=LIMIT_SECONDS)


def main(generated: str, target: str) -> None:
    sys.path.insert(0, generated)
    si: Any = importlib.import_module("si.v1.si_pb2")
    stubs: Any = importlib.import_module("si.v1.si_pb2_grpc")
    assert si.__file__.startswith(generated), si.__file__
    with grpc.insecure_channel(target) as channel:
        print(json.dumps(converse(si, stubs.SchedulerStub(channel))))
    assert [name for name in sys.modules if name.split(".")[0] in ("schedulerd", "tests")] == []


def converse(si: Any, stub: Any) -> dict[str, Any]:
    """From registration to the confirmed release of one pod; what was answered to each."""
    registration = si.RegisterResourceManagerRequest(rmID=RM, config=QUEUES)
    stub.RegisterResourceManager(registration, timeout=LIMIT_SECONDS)
    send_node, nodes = stream(stub.UpdateNode)
    send_application, applications = stream(stub.UpdateApplication)
    send_allocation, allocations = stream(stub.UpdateAllocation)
    size = si.Resource(resources={"memory": si.Quantity(value=100), "vcore": si.Quantity(value=10)})

    node = si.NodeInfo(nodeID="node-1", action=si.NodeInfo.CREATE, schedulableResource=size)
    send_node(si.NodeRequest(rmID=RM, nodes=[node]))
    accepted_nodes = [one.nodeID for one in next(nodes).accepted]

    ugi = si.UserGroupInformation(user="ann")
    application = si.AddApplicationRequest(applicationID="app-1", queueName="root.a", ugi=ugi)
    send_application(si.ApplicationRequest(rmID=RM, new=[application]))
    accepted_applications = [one.applicationID for one in next(applications).accepted]

    ask = si.AllocationAsk(applicationID="app-1", allocationKey="pod-1", maxAllocations=1, resourceAsk=size)
    send_allocation(si.AllocationRequest(rmID=RM, asks=[ask]))
    (allocation,) = next(allocations).new

    release = si.AllocationRelease(
        applicationID="app-1", UUID=allocation.UUID, terminationType=si.TerminationType.STOPPED_BY_RM
    )
    releases = si.AllocationReleasesRequest(allocationsToRelease=[release])
    send_allocation(si.AllocationRequest(rmID=RM, releases=releases))
    (released,) = next(allocations).released
    return {
        "nodes": accepted_nodes,
        "applications": accepted_applications,
        "placed": [allocation.allocationKey, allocation.nodeID, allocation.partitionName],
        "released": [released.allocationKey, released.UUID == allocation.UUID],
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
