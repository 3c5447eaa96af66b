"""A resource manager restarts after a limit was lowered under its running gang and a namespace's annotations were
broken: it reports what runs, and every node and pod stays (SEMANTICS I5)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.daemon_process import DaemonProcess
from tests.contract.raw_client import RawClient, allocated, resource

QUEUES = """
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: "*"
        limits:
          - limit: of each user
            users: ["*"]
            maxresources: {{memory: {user_max}}}
"""
ANNOTATIONS = {
    "namespace.resourcequota": '{"resources": {"memory": {"value": 100}}}',
    "namespace.resourcemaxapps": "3",
}
BROKEN = {"namespace.resourcequota": "{broken", "namespace.resourcemaxapps": "9" * 5_000}
PODS_EACH = 4
NODES = ("node-0", "node-1")
NODE_MEMORY, POD_MEMORY = 50, 10


def applications(client: RawClient, annotations: dict[str, str], **tags: str) -> si_pb2.ApplicationRequest:
    """A gang in one namespace, and an application without one in the annotated namespace."""
    gang, plain = client.application("gang").new[0], client.application("plain").new[0]
    gang.placeholderAsk.CopyFrom(resource(memory=PODS_EACH * POD_MEMORY))
    gang.tags.update(namespace="batch", **tags)
    plain.tags.update(namespace="web", **tags)
    plain.tags.update(annotations)
    for one in (gang, plain):
        one.queueName = ""
    return si_pb2.ApplicationRequest(rmID=client.rm_id, new=[gang, plain])


def nodes(client: RawClient, pods: list[si_pb2.Allocation]) -> si_pb2.NodeRequest:
    request = si_pb2.NodeRequest(rmID=client.rm_id)
    for node_id in NODES:
        node = client.node(node_id, NODE_MEMORY).nodes[0]
        node.existingAllocations.extend(pod for pod in pods if pod.nodeID == node_id)
        request.nodes.append(node)
    return request


def start(
    client: RawClient, user_max: int, new: si_pb2.ApplicationRequest, pods: list[si_pb2.Allocation]
) -> tuple[list[si_pb2.ApplicationResponse], list[si_pb2.NodeResponse]]:
    """Registers and reports applications, then nodes with the pods on them; what was said to that."""
    client.register(QUEUES.format(user_max=user_max))
    with_applications, with_nodes = client.applications(), client.nodes()
    with_applications.send(new)
    to_applications = with_applications.until(lambda got: answered(got) == len(new.new))
    with_nodes.send(nodes(client, pods))
    to_nodes = with_nodes.until(lambda got: answered(got) == len(NODES))
    return to_applications, to_nodes


def answered(responses: list[Any]) -> int:
    return sum(len(response.accepted) + len(response.rejected) for response in responses)


def pods_of(daemon: DaemonProcess, rm_id: str) -> Iterator[tuple[str, str, str]]:
    """UUID, application and node of each allocation in the daemon's books."""
    (manager,) = daemon.state(rm=rm_id)["resource_managers"]
    for partition in manager["partitions"]:
        for node in partition["nodes"]:
            for one in node["allocations"]:
                yield one["uuid"], one["application_id"], node["node_id"]


def test_every_node_and_pod_stays(daemon: DaemonProcess) -> None:
    with RawClient(daemon.target, "restarted") as client:
        start(client, 1_000, applications(client, ANNOTATIONS), [])
        asks = client.asks("gang", [f"gang-{number}" for number in range(PODS_EACH)], POD_MEMORY)
        for ask in asks.asks:
            ask.taskGroupName, ask.placeholder = "workers", True
        asks.asks.extend(client.asks("plain", [f"plain-{number}" for number in range(PODS_EACH)], POD_MEMORY).asks)
        stream = client.allocations()
        stream.send(asks)
        pods = allocated(stream.until(lambda got: len(allocated(got)) == 2 * PODS_EACH))
    before = set(pods_of(daemon, "restarted"))
    assert before == {(pod.UUID, pod.applicationID, pod.nodeID) for pod in pods}

    with RawClient(daemon.target, "restarted") as client:
        forced = applications(client, BROKEN, **{"application.create.force": "true"})
        to_applications, to_nodes = start(client, POD_MEMORY, forced, pods)
        assert [one.reason for response in to_applications for one in response.rejected] == []
        assert [one.reason for response in to_nodes for one in response.rejected] == []
        assert {one.nodeID for response in to_nodes for one in response.accepted} == set(NODES)
        assert set(pods_of(daemon, "restarted")) == before

        stream = client.allocations()
        stream.send(client.asks("plain", ["more"], POD_MEMORY))
        stream.send(client.release("plain", next(pod.UUID for pod in pods if pod.applicationID == "plain")))
        told = stream.until(lambda got: any(response.released for response in got))
        assert allocated(told) == [], "the user is above the new limit: what is too much drains first"
        assert len(list(chain.from_iterable(response.released for response in told))) == 1
    assert daemon.state()["violations"] == []
