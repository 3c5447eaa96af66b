"""Builds the SI requests of the simulated resource manager, many items to a message.

Asks are copied from templates that lack only the key, which costs a fraction of setting every field: the simulator is
also a load generator, and must not be what is measured.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.simulate.workload import PlannedApplication, PlannedNode, PodSize

PARTITION = "default"
ITEMS_PER_MESSAGE_MAX = 1_000


@dataclass(slots=True)
class Outgoing:
    """Requests in the order to send them; the rmID is filled in by whose connection it is."""

    applications: list[si_pb2.ApplicationRequest]
    allocations: list[si_pb2.AllocationRequest]


class RequestBuilder:
    """Collects what there is to say until `take` is called."""

    def __init__(self) -> None:
        self._outgoing = Outgoing([], [])
        self._application_items = ITEMS_PER_MESSAGE_MAX
        self._allocation_items = ITEMS_PER_MESSAGE_MAX

    def take(self) -> Outgoing:
        """Everything since the last call; each message holds at most `ITEMS_PER_MESSAGE_MAX` items."""
        outgoing, self._outgoing = self._outgoing, Outgoing([], [])
        self._application_items = self._allocation_items = ITEMS_PER_MESSAGE_MAX
        return outgoing

    def add_application(self, plan: PlannedApplication) -> None:
        new = self._application_request().new.add(
            applicationID=plan.application_id, queueName=plan.queue, partitionName=PARTITION
        )
        new.ugi.user = plan.user
        new.ugi.groups.append(plan.user)
        new.tags["kind"] = plan.kind

    def remove_application(self, application_id: str) -> None:
        self._application_request().remove.add(applicationID=application_id, partitionName=PARTITION)

    def ask(self, template: si_pb2.AllocationAsk, key: str) -> None:
        ask = self._allocation_request().asks.add()
        ask.CopyFrom(template)
        ask.allocationKey = key

    def release(self, application_id: str, uuid: str, key: str, termination: si_pb2.TerminationType.ValueType) -> None:
        self._allocation_request().releases.allocationsToRelease.add(
            partitionName=PARTITION,
            applicationID=application_id,
            UUID=uuid,
            allocationKey=key,
            terminationType=termination,
        )

    def release_ask(self, application_id: str, key: str) -> None:
        self._allocation_request().releases.allocationAsksToRelease.add(
            partitionName=PARTITION,
            applicationID=application_id,
            allocationKey=key,
            terminationType=si_pb2.STOPPED_BY_RM,
        )

    def _application_request(self) -> si_pb2.ApplicationRequest:
        if self._application_items == ITEMS_PER_MESSAGE_MAX:
            self._outgoing.applications.append(si_pb2.ApplicationRequest())
            self._application_items = 0
        self._application_items += 1
        return self._outgoing.applications[-1]

    def _allocation_request(self) -> si_pb2.AllocationRequest:
        if self._allocation_items == ITEMS_PER_MESSAGE_MAX:
            self._outgoing.allocations.append(si_pb2.AllocationRequest())
            self._allocation_items = 0
        self._allocation_items += 1
        return self._outgoing.allocations[-1]


def ask_template(application_id: str, size: PodSize) -> si_pb2.AllocationAsk:
    """An ask for one pod of that size that lacks only its key."""
    ask = si_pb2.AllocationAsk(applicationID=application_id, partitionName=PARTITION, maxAllocations=1)
    ask.resourceAsk.resources["memory"].value = size.memory_bytes
    ask.resourceAsk.resources["vcore"].value = size.vcore_milli
    return ask


def node_registration(nodes: Iterable[PlannedNode]) -> si_pb2.NodeRequest:
    """One request that creates all the nodes."""
    request = si_pb2.NodeRequest()
    for node in nodes:
        info = request.nodes.add(nodeID=node.node_id, action=si_pb2.NodeInfo.CREATE)
        info.attributes.update(node.attributes)
        info.attributes["ready"] = "true"
        info.schedulableResource.resources["memory"].value = node.memory_bytes
        info.schedulableResource.resources["vcore"].value = node.vcore_milli
    return request
