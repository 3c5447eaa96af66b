"""A client of the scheduler interface (SI 2023-06): registration, the three streams, and what passes over them.

It is thin so that it can also drive benchmarks: requests go out as they were built, responses are handed over as they
come in, one plain call per message and none per item. An RM's connection may be lost for a while; the scheduler keeps
its responses for that time (SEMANTICS C3), so the client opens the streams again and tells the listener, who is the
one to know what was not answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import grpc
from grpc import aio

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd._generated.si.v1 import si_pb2, si_pb2_grpc

Request = TypeVar("Request")
Response = TypeVar("Response")

MESSAGE_BYTES_MAX = 64 << 20
BACKOFF_FIRST_S = 0.05
BACKOFF_MOST_S = 1.0
STABLE_AFTER_S = 1.0
"""Streams that lived shorter than this did not end the outage before them."""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # One connection per client: clients of one process must not share (and so disturb) each other's.
    ("grpc.use_local_subchannel_pool", 1),
)

_LOST = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN})
_WRITE_FAILED = (grpc.StatusCode.INTERNAL, "Internal error from Core")
"""What `grpc.aio` says when a stream ended while a message was written to it, in place of how it ended
(grpc/grpc#36066). Whoever ended it for a reason says so again to the next one."""


class SchedulerError(Exception):
    """The scheduler cannot be used as it is; the message is a sentence for the person who started the client."""


class SchedulerUnreachable(SchedulerError):
    """Nobody answers at the target, or no longer."""


class RegistrationRejected(SchedulerError):
    """The scheduler answered, and does not want this resource manager."""


class ResyncRequired(SchedulerError):
    """The scheduler dropped what it knew of this resource manager, which has to register and report again."""


class StreamRefused(SchedulerError):
    """The scheduler ended a stream because of how it was used."""


class Listener(Protocol):
    """Who is told what comes in. Calls are made from the event loop, in the order of the messages of each stream."""

    def take_nodes(self, response: si_pb2.NodeResponse) -> None: ...

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None: ...

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None: ...

    def reconnected(self) -> None:
        """The streams were lost and are open again: what was sent and not answered may never have arrived."""


@dataclass(slots=True)
class Traffic:
    """Counts of what a client sent and received."""

    messages_sent: int = 0
    messages_received: int = 0
    nodes_sent: int = 0
    nodes_accepted: int = 0
    nodes_rejected: int = 0
    applications_sent: int = 0
    removals_sent: int = 0
    applications_accepted: int = 0
    applications_rejected: int = 0
    applications_updated: int = 0
    asks_sent: int = 0
    releases_sent: int = 0
    ask_releases_sent: int = 0
    allocations_received: int = 0
    releases_received: int = 0
    ask_releases_received: int = 0
    asks_rejected: int = 0
    reconnects: int = 0


class _Stream(Generic[Request, Response]):
    """One of the three streams of a resource manager, which may be opened again after it was lost."""

    def __init__(self, name: str, method: Any, hello: Request, take: Callable[[Response], None]) -> None:
        self.name = name
        self._method = method
        self._hello = hello
        self._take = take
        self._turn = asyncio.Lock()
        self._call: Any = None

    async def open(self) -> None:
        """Opens the stream, and says whose it is: the scheduler learns that from the first message, so even an RM
        that has nothing to say yet must say so before anything can come back."""
        self._call = self._method()
        await self.write(self._hello)

    async def write(self, request: Request) -> None:
        """Sends one message, waiting while the scheduler does not read; lost connections are the reader's to report."""
        async with self._turn:
            try:
                await self._call.write(request)
            except (aio.AioRpcError, asyncio.InvalidStateError):
                return

    async def read_to_end(self) -> None:
        """Hands over every response; raises `AioRpcError` unless the scheduler ended the stream with OK."""
        call, take = self._call, self._take
        while (response := await call.read()) is not aio.EOF:
            take(response)

    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()


class SchedulerClient:
    """One resource manager's connection to the scheduler: `register`, `open`, `send_*`, `close`.

    `reconnect_timeout_s` bounds how long a lost connection may stay lost; 0 gives up at once. Every failure is a
    `SchedulerError`, raised by whichever of `register`, `open`, `send_*`, `check` or `wait_lost` comes first after it.
    """

    def __init__(self, target: str, rm_id: str, listener: Listener, *, reconnect_timeout_s: float = 10.0) -> None:
        self.target = target
        self.rm_id = rm_id
        self.traffic = Traffic()
        self._listener = listener
        self._reconnect_timeout_s = reconnect_timeout_s
        self._channel = aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        stub = si_pb2_grpc.SchedulerStub(self._channel)
        self._register = stub.RegisterResourceManager
        self._unregister = admin_pb2_grpc.AdminStub(self._channel).UnregisterResourceManager
        nodes_hello = si_pb2.NodeRequest(rmID=rm_id)
        applications_hello = si_pb2.ApplicationRequest(rmID=rm_id)
        allocations_hello = si_pb2.AllocationRequest(rmID=rm_id)
        self._nodes = _Stream("UpdateNode", stub.UpdateNode, nodes_hello, self._take_nodes)
        self._applications = _Stream(
            "UpdateApplication", stub.UpdateApplication, applications_hello, self._take_applications
        )
        self._allocations = _Stream(
            "UpdateAllocation", stub.UpdateAllocation, allocations_hello, self._take_allocations
        )
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def _streams(self) -> tuple[_Stream[Any, Any], ...]:
        return (self._nodes, self._applications, self._allocations)

    async def register(self, *, policy_group: str = "", config: str = "", timeout_s: float = 10.0) -> None:
        """Registers the resource manager, waiting up to `timeout_s` for a scheduler that is not there yet.

        Raises `SchedulerUnreachable` or `RegistrationRejected`.
        """
        request = si_pb2.RegisterResourceManagerRequest(
            rmID=self.rm_id, version="2023-06", policyGroup=policy_group, config=config
        )
        try:
            await asyncio.wait_for(self._channel.channel_ready(), timeout_s)
            await self._register(request, timeout=timeout_s)
        except TimeoutError:
            raise SchedulerUnreachable(f"nobody answers at {self.target} (waited {timeout_s:g} s)") from None
        except aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise SchedulerUnreachable(f"no answer from {self.target}: {_status(error)}") from error
            raise RegistrationRejected(
                f"{self.target} rejects the registration of {self.rm_id!r}: {_status(error)}"
            ) from error

    async def open(self) -> None:
        """Opens the three streams and starts to hand over what comes in."""
        await asyncio.gather(*(stream.open() for stream in self._streams))
        self._supervisor = asyncio.create_task(self._supervise(), name=f"streams of {self.rm_id}")

    async def send_nodes(self, request: si_pb2.NodeRequest) -> None:
        """Sends nodes; like all `send_*`, fills in the rmID, waits while the scheduler does not read, and drops the
        message if the connection is lost on the way (`Listener.reconnected` says so)."""
        self.check()
        request.rmID = self.rm_id
        self.traffic.messages_sent += 1
        self.traffic.nodes_sent += len(request.nodes)
        await self._nodes.write(request)

    async def send_applications(self, request: si_pb2.ApplicationRequest) -> None:
        self.check()
        request.rmID = self.rm_id
        self.traffic.messages_sent += 1
        self.traffic.applications_sent += len(request.new)
        self.traffic.removals_sent += len(request.remove)
        await self._applications.write(request)

    async def send_allocations(self, request: si_pb2.AllocationRequest) -> None:
        self.check()
        request.rmID = self.rm_id
        self.traffic.messages_sent += 1
        self.traffic.asks_sent += len(request.asks)
        self.traffic.releases_sent += len(request.releases.allocationsToRelease)
        self.traffic.ask_releases_sent += len(request.releases.allocationAsksToRelease)
        await self._allocations.write(request)

    def check(self) -> None:
        """Raises what ended the connection, if it has ended."""
        if self._supervisor is not None and self._supervisor.done():
            self._supervisor.result()

    async def wait_lost(self) -> None:
        """Waits until the connection is lost for good and raises why."""
        if self._supervisor is not None:
            await asyncio.shield(self._supervisor)

    async def unregister(self, *, timeout_s: float = 5.0) -> None:
        """Says that this resource manager goes for good. SI has no word for it; schedulers that lack ours find out."""
        self._end_streams()
        try:
            await self._unregister(admin_pb2.UnregisterResourceManagerRequest(rmID=self.rm_id), timeout=timeout_s)
        except aio.AioRpcError as error:
            if error.code() not in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND):
                raise SchedulerUnreachable(f"cannot unregister {self.rm_id!r}: {_status(error)}") from error

    async def close(self) -> None:
        """Ends the streams and the connection; what is on its way is not waited for."""
        self._end_streams()
        if self._supervisor is not None:
            await asyncio.gather(self._supervisor, return_exceptions=True)
        await self._channel.close(None)

    def _end_streams(self) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
        for stream in self._streams:
            stream.cancel()

    async def _supervise(self) -> None:
        """Reads until a stream ends, and opens all of them again if that is just a loss of connection."""
        loop = asyncio.get_running_loop()
        opened_s = outage_s = loop.time()
        backoff_s = BACKOFF_FIRST_S
        while True:
            loss = await self._read_until_loss()
            if loop.time() - opened_s > STABLE_AFTER_S:
                outage_s, backoff_s = loop.time(), BACKOFF_FIRST_S
            deadline_s = outage_s + self._reconnect_timeout_s
            if loop.time() + backoff_s > deadline_s:
                raise loss
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_MOST_S)
            try:
                await asyncio.wait_for(self._channel.channel_ready(), deadline_s - loop.time())
            except TimeoutError:
                raise loss from None
            await asyncio.gather(*(stream.open() for stream in self._streams))
            opened_s = loop.time()
            self.traffic.reconnects += 1
            self._listener.reconnected()

    async def _read_until_loss(self) -> SchedulerUnreachable:
        """Returns the loss if the connection may come back; raises if the scheduler said what is wrong."""
        readers = {asyncio.create_task(stream.read_to_end()): stream for stream in self._streams}
        try:
            done, _ = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
            for stream in self._streams:
                stream.cancel()
        losses = [self._loss(reader, readers[reader].name) for reader in done]
        return losses[0]

    def _loss(self, reader: asyncio.Task[None], name: str) -> SchedulerUnreachable:
        try:
            reader.result()
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.ABORTED or error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                raise ResyncRequired(
                    f"{self.target} does not know {self.rm_id!r} any longer and wants a full report: {_status(error)}"
                ) from error
            if error.code() not in _LOST and (error.code(), error.details()) != _WRITE_FAILED:
                raise StreamRefused(f"{self.target} ended the {name} stream: {_status(error)}") from error
            return SchedulerUnreachable(f"lost the scheduler at {self.target}: {_status(error)}")
        return SchedulerUnreachable(f"{self.target} closed the {name} stream")

    def _take_nodes(self, response: si_pb2.NodeResponse) -> None:
        self.traffic.messages_received += 1
        self.traffic.nodes_accepted += len(response.accepted)
        self.traffic.nodes_rejected += len(response.rejected)
        self._listener.take_nodes(response)

    def _take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        self.traffic.messages_received += 1
        self.traffic.applications_accepted += len(response.accepted)
        self.traffic.applications_rejected += len(response.rejected)
        self.traffic.applications_updated += len(response.updated)
        self._listener.take_applications(response)

    def _take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        self.traffic.messages_received += 1
        self.traffic.allocations_received += len(response.new)
        self.traffic.releases_received += len(response.released)
        self.traffic.ask_releases_received += len(response.releasedAsks)
        self.traffic.asks_rejected += len(response.rejected)
        self._listener.take_allocations(response)


def _status(error: aio.AioRpcError) -> str:
    details = error.details()
    return f"{error.code().name}: {details}" if details else error.code().name
