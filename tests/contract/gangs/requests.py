"""What the resource manager of the gangs says, in messages of the scheduler interface."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from schedulerd._generated.si.v1 import si_pb2
from tests.contract.gangs.truth import POD_MEMORY, POD_VCORE, Plan, Pod
from tests.contract.raw_client import resource

QUEUE = "root.gang"
USER, GROUP = "testuser", "testgroup"
TASK_GROUP = "tg"
ITEMS_PER_MESSAGE_MAX = 1_000
NODES_PER_MESSAGE_MAX = 100

ItemT = TypeVar("ItemT")


def queue_file(plan: Plan) -> str:
    """One queue with room for exactly all gangs, so that what is counted twice, or never given back, shows."""
    return f"""
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: gang
            properties: {{application.sort.policy: fifo}}
            resources: {{max: {{memory: {plan.pods * POD_MEMORY}, vcore: {plan.pods * POD_VCORE}m}}}}
"""


def applications(plan: Plan) -> si_pb2.ApplicationRequest:
    request = si_pb2.ApplicationRequest()
    for gang in plan.gang_names:
        application = request.new.add(applicationID=gang, queueName=QUEUE, gangSchedulingStyle="Soft")
        application.ugi.user = USER
        application.ugi.groups.append(GROUP)
        application.placeholderAsk.CopyFrom(resource(memory=plan.members * POD_MEMORY, vcore=plan.members * POD_VCORE))
    return request


def nodes(plan: Plan, bound: Iterable[Pod]) -> Iterator[si_pb2.NodeRequest]:
    """Each with the pods that are bound to it; the UUID of an allocation that was taken over is its pod's."""
    by_node = defaultdict(list)
    for pod in bound:
        by_node[pod.node].append(pod)
    capacity = resource(memory=plan.slots * POD_MEMORY, vcore=plan.slots * POD_VCORE)
    for names in _portions(plan.node_names, NODES_PER_MESSAGE_MAX):
        request = si_pb2.NodeRequest()
        for name in names:
            node = request.nodes.add(nodeID=name, action=si_pb2.NodeInfo.CREATE, schedulableResource=capacity)
            for pod in by_node[name]:
                node.existingAllocations.add(
                    allocationKey=pod.name,
                    UUID=pod.uid,
                    resourcePerAlloc=_POD,
                    nodeID=name,
                    applicationID=pod.gang,
                    taskGroupName=TASK_GROUP,
                    placeholder=pod.placeholder,
                )
        yield request


def asks(pods: Iterable[Pod]) -> Iterator[si_pb2.AllocationRequest]:
    for portion in _portions(list(pods), ITEMS_PER_MESSAGE_MAX):
        request = si_pb2.AllocationRequest()
        for pod in portion:
            request.asks.add(
                allocationKey=pod.name,
                applicationID=pod.gang,
                resourceAsk=_POD,
                maxAllocations=1,
                taskGroupName=TASK_GROUP,
                placeholder=pod.placeholder,
            )
        yield request


def confirmations(releases: Sequence[si_pb2.AllocationRelease]) -> Iterator[si_pb2.AllocationRequest]:
    """Says that these are done, each with the type that it came with."""
    for portion in _portions(releases, ITEMS_PER_MESSAGE_MAX):
        request = si_pb2.AllocationRequest()
        request.releases.allocationsToRelease.extend(portion)
        yield request


_POD = resource(memory=POD_MEMORY, vcore=POD_VCORE)


def _portions(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    return (items[first : first + size] for first in range(0, len(items), size))
