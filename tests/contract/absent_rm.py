"""A resource manager that is away at times, in the dialect of its choice: what differs between the two."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, Self, TypeVar

import grpc

from schedulerd._generated.si.v1 import si_pb2
from schedulerd._generated.si.v2021_02 import si_pb2 as si_2021_pb2
from tests.contract import raw_client, raw_client_2021
from tests.contract.raw_client import RawClient, Record, UpdateStream
from tests.contract.raw_client_2021 import RawClient2021, merged

NEWEST = "2023-06"
DIALECTS = ("2021-02", NEWEST)
NODES = 30
NODE_PODS = 3_000
"""For so many there is room on every node, asking as `Absent.asks` does."""


class Heard(NamedTuple):
    """What responses say, in order."""

    placed: list[str]
    """Keys."""
    ended: list[str]
    """UUIDs that the scheduler wants released."""


ClientT = TypeVar("ClientT", bound=RawClient)


class Absent(ABC, Generic[ClientT]):
    """What the two dialects do differently in these stories; every one is about the stream that carries allocations."""

    def __init__(self, client: ClientT, record: Record | None) -> None:
        """With a `record` it takes part in resumption, which its stream is opened with."""
        self.client: ClientT = client
        self.record = record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.channel.close()

    def heard(self, responses: Iterable[Any]) -> Heard:
        got = list(responses)
        return Heard([one.allocationKey for one in self.allocations(got)], [one.UUID for one in self.releases(got)])

    @abstractmethod
    def set_up(self) -> None:
        """Registers, with nodes that have room for all pods and the application `app-1`."""

    @abstractmethod
    def open(self) -> UpdateStream[Any]:
        """Opens the stream, and says whose it is."""

    @abstractmethod
    def asks(self, keys: Iterable[str], timeout_ms: int = 0) -> Any:
        """A request for a pod of each key."""

    @abstractmethod
    def allocations(self, responses: Iterable[Any]) -> list[Any]:
        """Those that are new, in order."""

    @abstractmethod
    def releases(self, responses: Iterable[Any]) -> list[Any]:
        """In order."""

    @abstractmethod
    def is_resync(self, responses: Sequence[Any], code: grpc.StatusCode, details: str) -> bool:
        """Whether a stream that ended so told to register again."""

    @abstractmethod
    def report(self, existing: Sequence[Any]) -> UpdateStream[Any]:
        """Registers again and reports all nodes with these allocations; the stream that carries allocations."""


class Absent2023(Absent[RawClient]):
    def set_up(self) -> None:
        self.client.set_up(nodes=NODES, memory=10 * NODE_PODS, vcore=NODE_PODS)

    def open(self) -> UpdateStream[si_pb2.AllocationResponse]:
        stream = self.client.allocations(record=self.record)
        stream.send(self.client.hello())
        return stream

    def asks(self, keys: Iterable[str], timeout_ms: int = 0) -> si_pb2.AllocationRequest:
        request = self.client.asks("app-1", keys)
        for ask in request.asks:
            ask.executionTimeoutMilliSeconds = timeout_ms
        return request

    def allocations(self, responses: Iterable[si_pb2.AllocationResponse]) -> list[Any]:
        return raw_client.allocated(responses)

    def releases(self, responses: Iterable[si_pb2.AllocationResponse]) -> list[Any]:
        return [one for response in responses for one in response.released]

    def is_resync(self, responses: Sequence[Any], code: grpc.StatusCode, details: str) -> bool:
        return not responses and code is grpc.StatusCode.ABORTED and details.startswith("RESYNC")

    def report(self, existing: Sequence[Any]) -> UpdateStream[Any]:
        self.client.register()
        applications, nodes = self.client.applications(), self.client.nodes()
        applications.send(self.client.application("app-1"))
        applications.until(lambda got: any(response.accepted for response in got))
        for node_id in node_ids():
            request = self.client.node(node_id, 10 * NODE_PODS, NODE_PODS)
            request.nodes[0].existingAllocations.extend(one for one in existing if one.nodeID == node_id)
            nodes.send(request)
        nodes.until(lambda got: sum(len(response.accepted) for response in got) == NODES)
        return self.open()


class Absent2021(Absent[RawClient2021]):
    def set_up(self) -> None:
        self.client.register()
        stream = self.open()
        stream.send(self._everything([]))
        stream.until(lambda got: len(merged(got).acceptedNodes) == NODES)
        stream.half_close()

    def open(self) -> UpdateStream[si_2021_pb2.UpdateResponse]:
        stream = self.client.updates(record=self.record)
        stream.send(self.client.update())
        return stream

    def asks(self, keys: Iterable[str], timeout_ms: int = 0) -> si_2021_pb2.UpdateRequest:
        request = self.client.work("app-1", keys)
        for ask in request.asks:
            ask.executionTimeoutMilliSeconds = timeout_ms
        return request

    def allocations(self, responses: Iterable[si_2021_pb2.UpdateResponse]) -> list[Any]:
        return raw_client_2021.placed(responses)

    def releases(self, responses: Iterable[si_2021_pb2.UpdateResponse]) -> list[Any]:
        return [one for response in responses for one in response.releasedAllocations]

    def is_resync(self, responses: Sequence[Any], code: grpc.StatusCode, details: str) -> bool:
        told = [response.action for response in responses]
        return told == [si_2021_pb2.UpdateResponse.RESYNC] and code is grpc.StatusCode.OK

    def report(self, existing: Sequence[Any]) -> UpdateStream[Any]:
        self.client.register()
        stream = self.client.updates()
        stream.send(self._everything(existing))
        stream.until(lambda got: len(merged(got).acceptedNodes) == NODES)
        return stream

    def _everything(self, existing: Sequence[Any]) -> si_2021_pb2.UpdateRequest:
        request = self.client.everything(node_ids(), "app-1", [])
        for node in request.newSchedulableNodes:
            node.schedulableResource.CopyFrom(raw_client_2021.resource(memory=10 * NODE_PODS, vcore=NODE_PODS))
            node.existingAllocations.extend(one for one in existing if one.nodeID == node.nodeID)
        return request


def speaking(dialect: str, target: str, record: Record | None = None) -> Absent[Any]:
    """A resource manager of one of `DIALECTS`."""
    if dialect == "2021-02":
        return Absent2021(RawClient2021(target), record)
    return Absent2023(RawClient(target), record)


def node_ids() -> list[str]:
    return [f"node-{number}" for number in range(NODES)]
