"""A resource manager of the 2021-02 dialect, written from that specification alone: one stream for everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from schedulerd._generated.si.v2021_02 import si_pb2
from tests.contract.raw_client import RawClient, Record, UpdateStream

TerminationType: TypeAlias = si_pb2.AllocationRelease.TerminationType.ValueType


class RawClient2021(RawClient):
    """Registers like any other, as registration is the same on the wire."""

    def updates(self, *, reading: bool = True, record: Record | None = None) -> UpdateStream[si_pb2.UpdateResponse]:
        return UpdateStream(self.stub.Update, reading=reading, record=record)

    def update(self) -> si_pb2.UpdateRequest:
        """A request to be filled; as it is, it only tells whose stream it is."""
        return si_pb2.UpdateRequest(rmID=self.rm_id)

    def everything(
        self, nodes: Iterable[str], application_id: str, keys: Iterable[str], queue_name: str = "root.a"
    ) -> si_pb2.UpdateRequest:
        """New nodes, an application and its asks in one message."""
        request = self.update()
        for node_id in nodes:
            request.newSchedulableNodes.add(nodeID=node_id, schedulableResource=resource(memory=100, vcore=10))
        ugi = si_pb2.UserGroupInformation(user="testuser", groups=["testgroup"])
        request.newApplications.add(applicationID=application_id, queueName=queue_name, ugi=ugi)
        request.MergeFrom(self.work(application_id, keys))
        return request

    def work(self, application_id: str, keys: Iterable[str], memory: int = 10, vcore: int = 1) -> si_pb2.UpdateRequest:
        """Asks of an application that is known."""
        size = resource(memory=memory, vcore=vcore)
        request = self.update()
        for key in keys:
            request.asks.add(allocationKey=key, applicationID=application_id, maxAllocations=1, resourceAsk=size)
        return request

    def release_of(
        self,
        application_id: str,
        uuid: str,
        termination: TerminationType = si_pb2.AllocationRelease.STOPPED_BY_RM,
    ) -> si_pb2.UpdateRequest:
        request = self.update()
        request.releases.allocationsToRelease.add(applicationID=application_id, UUID=uuid, terminationType=termination)
        return request


def resource(**amounts: int) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in amounts.items()})


def merged(responses: Iterable[si_pb2.UpdateResponse]) -> si_pb2.UpdateResponse:
    """All that was said, each list in order."""
    whole = si_pb2.UpdateResponse()
    for response in responses:
        whole.MergeFrom(response)
    return whole


def placed(responses: Iterable[si_pb2.UpdateResponse]) -> list[si_pb2.Allocation]:
    return list(merged(responses).newAllocations)
