"""A resource manager written from the interface specification alone: plain stubs, blocking calls, no cleverness.

Every wait is bounded. Nothing here knows schedulerd beyond the generated messages.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Self, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from schedulerd._generated.si.v1 import si_pb2, si_pb2_grpc

LIMIT_SECONDS = 60.0

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
          - name: b
"""

OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""Without it the clients of one process share a connection to a daemon."""

ResponseT = TypeVar("ResponseT")


class Record:
    """What a client that takes part in resumption remembers of its streams of one kind since it registered."""

    def __init__(self) -> None:
        self.received = 0
        self.sent: list[Any] = []
        """All requests but the first of every stream, which only says whose it is."""

    def headers(self) -> tuple[tuple[str, str], ...]:
        """Of a stream on which everything is sent again, from the first request on."""
        return ("schedulerd-received", str(self.received)), ("schedulerd-sent", "0")


class UpdateStream(Generic[ResponseT]):
    """One bidirectional stream. With `reading=False` nothing is received until `read` is called.

    With a `record` it goes on where the one before it broke off, once its first request has said whose it is.
    """

    def __init__(
        self, method: Callable[..., Iterator[ResponseT]], *, reading: bool = True, record: Record | None = None
    ) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._responses: queue.SimpleQueue[ResponseT | grpc.RpcError | None] = queue.SimpleQueue()
        self._record = record
        self._says_whose = True
        self.call: Any = method(iter(self._requests.get, None), metadata=record.headers() if record else None)
        self._thread = threading.Thread(target=self._receive, daemon=True)
        if reading:
            self.read()

    def read(self) -> None:
        self._thread.start()

    def send(self, request: Any) -> None:
        self._requests.put(request)
        if self._record is None:
            return
        if self._says_whose:
            self._says_whose = False
            for earlier in self._record.sent:
                self._requests.put(earlier)
        else:
            self._record.sent.append(request)

    def half_close(self) -> None:
        """Says that nothing more will be sent; responses are still received."""
        self._requests.put(None)

    def cancel(self) -> None:
        self.half_close()
        self.call.cancel()

    def next(self) -> ResponseT:
        """The next response; fails if the stream ends instead."""
        response = self._responses.get(timeout=LIMIT_SECONDS)
        if response is None or isinstance(response, grpc.RpcError):
            raise AssertionError(f"the stream ended: {response}")
        return response

    def until(self, enough: Callable[[list[ResponseT]], bool]) -> list[ResponseT]:
        """Receives until what was received is enough; all of it."""
        received: list[ResponseT] = []
        while not enough(received):
            received.append(self.next())
        return received

    def rest(self) -> tuple[list[ResponseT], grpc.StatusCode, str]:
        """All responses up to the end of the stream, and how it ends."""
        received: list[ResponseT] = []
        while True:
            response = self._responses.get(timeout=LIMIT_SECONDS)
            if response is None:
                return received, self.call.code(), self.call.details()
            if isinstance(response, grpc.RpcError):
                return received, response.code(), response.details() or ""
            received.append(response)

    def status(self) -> tuple[grpc.StatusCode, str]:
        """How the stream ends; responses before that are dropped."""
        return self.rest()[1:]

    def _receive(self) -> None:
        try:
            for response in self.call:
                if self._record is not None:
                    self._record.received += 1
                self._responses.put(response)
            self._responses.put(None)
        except grpc.RpcError as error:
            self._responses.put(error)
        finally:
            self._requests.put(None)


class RawClient:
    """A channel, its stub and the streams that were opened through it."""

    def __init__(self, target: str, rm_id: str = "rm", credentials: grpc.ChannelCredentials | None = None) -> None:
        self.rm_id = rm_id
        self.channel = (
            grpc.insecure_channel(target, OWN_CONNECTION)
            if credentials is None
            else grpc.secure_channel(target, credentials, OWN_CONNECTION)
        )
        self.stub = si_pb2_grpc.SchedulerStub(self.channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def register(self, config: str = QUEUES, policy_group: str = "") -> None:
        self.stub.RegisterResourceManager(
            si_pb2.RegisterResourceManagerRequest(rmID=self.rm_id, config=config, policyGroup=policy_group),
            timeout=LIMIT_SECONDS,
        )

    def allocations(
        self, *, reading: bool = True, record: Record | None = None
    ) -> UpdateStream[si_pb2.AllocationResponse]:
        return UpdateStream(self.stub.UpdateAllocation, reading=reading, record=record)

    def applications(self) -> UpdateStream[si_pb2.ApplicationResponse]:
        return UpdateStream(self.stub.UpdateApplication)

    def nodes(self) -> UpdateStream[si_pb2.NodeResponse]:
        return UpdateStream(self.stub.UpdateNode)

    def watch_health(self) -> Iterator[health_pb2.HealthCheckResponse]:
        """The health of the daemon as a whole, now and whenever it changes."""
        stub: Any = health_pb2_grpc.HealthStub(self.channel)
        watch: Iterator[health_pb2.HealthCheckResponse] = stub.Watch(
            health_pb2.HealthCheckRequest(), timeout=LIMIT_SECONDS
        )
        return watch

    def hello(self) -> si_pb2.AllocationRequest:
        """A request without content: it tells whose stream it is."""
        return si_pb2.AllocationRequest(rmID=self.rm_id)

    def node(self, node_id: str, memory: int = 100, vcore: int = 10) -> si_pb2.NodeRequest:
        node = si_pb2.NodeInfo(nodeID=node_id, action=si_pb2.NodeInfo.CREATE)
        node.schedulableResource.CopyFrom(resource(memory=memory, vcore=vcore))
        return si_pb2.NodeRequest(rmID=self.rm_id, nodes=[node])

    def application(self, application_id: str, queue_name: str = "root.a") -> si_pb2.ApplicationRequest:
        ugi = si_pb2.UserGroupInformation(user="testuser", groups=["testgroup"])
        new = si_pb2.AddApplicationRequest(applicationID=application_id, queueName=queue_name, ugi=ugi)
        return si_pb2.ApplicationRequest(rmID=self.rm_id, new=[new])

    def asks(
        self, application_id: str, keys: Iterable[str], memory: int = 10, vcore: int = 1
    ) -> si_pb2.AllocationRequest:
        size = resource(memory=memory, vcore=vcore)
        return si_pb2.AllocationRequest(
            rmID=self.rm_id,
            asks=[
                si_pb2.AllocationAsk(
                    allocationKey=key, applicationID=application_id, maxAllocations=1, resourceAsk=size
                )
                for key in keys
            ],
        )

    def release(self, application_id: str, uuid: str) -> si_pb2.AllocationRequest:
        request = si_pb2.AllocationRequest(rmID=self.rm_id)
        request.releases.allocationsToRelease.add(
            applicationID=application_id, UUID=uuid, terminationType=si_pb2.STOPPED_BY_RM
        )
        return request

    def set_up(self, nodes: int = 1, memory: int = 100, vcore: int = 10, config: str = QUEUES) -> None:
        """Registers and waits until nodes `node-0`.. and the application `app-1` in root.a are accepted."""
        self.register(config)
        with_nodes, with_applications = self.nodes(), self.applications()
        for number in range(nodes):
            with_nodes.send(self.node(f"node-{number}", memory, vcore))
        with_nodes.until(lambda got: sum(len(response.accepted) for response in got) == nodes)
        with_applications.send(self.application("app-1"))
        with_applications.until(lambda got: any(response.accepted for response in got))
        with_nodes.half_close()
        with_applications.half_close()


def resource(**amounts: int) -> si_pb2.Resource:
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in amounts.items()})


def allocated(responses: Iterable[si_pb2.AllocationResponse]) -> list[si_pb2.Allocation]:
    return [allocation for response in responses for allocation in response.new]
