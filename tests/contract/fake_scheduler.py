"""The smallest scheduler that speaks SI over real gRPC, with faults on demand, for tests of clients.

It serves one resource manager, first fit, and is a fake at a real border, the socket: what a test finds out about the
client holds for any scheduler.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import aio

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v1 import si_pb2, si_pb2_grpc


@dataclass
class Faults:
    """What the fake does wrong. `lose_stream_at_ask`: the message with that ask (counting from 1) is not processed, the
    allocation stream ends with `loss` instead; once, unless `loss_lasts`."""

    registration: tuple[grpc.StatusCode, str] | None = None
    reject_nodes: bool = False
    reject_asks: bool = False
    place_twice: bool = False
    no_capacity_check: bool = False
    never_place: bool = False
    want_back: bool = False
    """Every allocation is to end again at once."""
    lose_stream_at_ask: int | None = None
    loss: tuple[grpc.StatusCode, str] = (grpc.StatusCode.UNAVAILABLE, "going away")
    loss_lasts: bool = False
    """For a loss whose reason matters: `grpc.aio` hides the reason of one that meets a write of the client, once."""


@dataclass
class FakeScheduler:
    """Counts what it saw; `free` is what each node has left."""

    faults: Faults = field(default_factory=Faults)
    registered: list[str] = field(default_factory=list)
    unregistered: list[str] = field(default_factory=list)
    rm_ids: Counter[str] = field(default_factory=Counter)
    free: dict[str, Counter[str]] = field(default_factory=dict)
    pending: dict[str, si_pb2.AllocationAsk] = field(default_factory=dict)
    placed: dict[str, tuple[si_pb2.AllocationAsk, str]] = field(default_factory=dict)
    known_keys: set[str] = field(default_factory=set)
    asks_seen: int = 0
    releases: list[si_pb2.AllocationRelease] = field(default_factory=list)
    told_of_release: asyncio.Event = field(default_factory=asyncio.Event)
    removed_applications: list[str] = field(default_factory=list)
    target: str = ""

    async def RegisterResourceManager(self, request: Any, context: Any) -> si_pb2.RegisterResourceManagerResponse:
        if self.faults.registration is not None:
            await context.abort(*self.faults.registration)
        self.registered.append(request.rmID)
        for state in (self.free, self.pending, self.placed, self.known_keys):
            state.clear()
        return si_pb2.RegisterResourceManagerResponse()

    async def UnregisterResourceManager(
        self, request: Any, context: Any
    ) -> admin_pb2.UnregisterResourceManagerResponse:
        self.unregistered.append(request.rmID)
        return admin_pb2.UnregisterResourceManagerResponse()

    async def Update(self, requests: AsyncIterator[Any], context: Any) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this one speaks 2023-06 only")

    async def UpdateNode(self, requests: AsyncIterator[si_pb2.NodeRequest], context: Any) -> None:
        async for request in requests:
            self.rm_ids[request.rmID] += 1
            response = si_pb2.NodeResponse()
            for node in request.nodes:
                if self.faults.reject_nodes:
                    response.rejected.add(nodeID=node.nodeID, reason="no nodes wanted")
                    continue
                capacity = node.schedulableResource.resources
                self.free[node.nodeID] = Counter({name: capacity[name].value for name in capacity})
                for allocation in node.existingAllocations:
                    self._take_over(allocation, node.nodeID)
                response.accepted.add(nodeID=node.nodeID)
            if request.nodes:
                await context.write(response)

    def _take_over(self, allocation: si_pb2.Allocation, node_id: str) -> None:
        amounts = allocation.resourcePerAlloc.resources
        self.free[node_id].subtract({name: amounts[name].value for name in amounts})
        ask = si_pb2.AllocationAsk(applicationID=allocation.applicationID, allocationKey=allocation.allocationKey)
        ask.resourceAsk.CopyFrom(allocation.resourcePerAlloc)
        self.placed[allocation.UUID] = (ask, node_id)

    async def UpdateApplication(self, requests: AsyncIterator[si_pb2.ApplicationRequest], context: Any) -> None:
        async for request in requests:
            self.rm_ids[request.rmID] += 1
            response = si_pb2.ApplicationResponse()
            for application in request.new:
                response.accepted.add(applicationID=application.applicationID)
            self.removed_applications += [removal.applicationID for removal in request.remove]
            if request.new:
                await context.write(response)

    async def UpdateAllocation(self, requests: AsyncIterator[si_pb2.AllocationRequest], context: Any) -> None:
        async for request in requests:
            self.rm_ids[request.rmID] += 1
            self.asks_seen += len(request.asks)
            fatal = self.faults.lose_stream_at_ask
            if fatal is not None and self.asks_seen >= fatal:
                if not self.faults.loss_lasts:
                    self.faults.lose_stream_at_ask = None
                await context.abort(*self.faults.loss)
            response = si_pb2.AllocationResponse()
            self._take_asks(request, response)
            self._take_releases(request, response)
            self._place(response)
            if response.ByteSize():
                await context.write(response)

    def _take_asks(self, request: si_pb2.AllocationRequest, response: si_pb2.AllocationResponse) -> None:
        for ask in request.asks:
            if self.faults.reject_asks:
                response.rejected.add(
                    applicationID=ask.applicationID, allocationKey=ask.allocationKey, reason="no asks wanted"
                )
            elif ask.allocationKey not in self.known_keys:
                self.known_keys.add(ask.allocationKey)
                self.pending[ask.allocationKey] = ask

    def _take_releases(self, request: si_pb2.AllocationRequest, response: si_pb2.AllocationResponse) -> None:
        for release in request.releases.allocationsToRelease:
            self.releases.append(release)
            self.told_of_release.set()
            ask, node_id = self.placed.pop(release.UUID, (None, ""))
            if ask is not None:
                resources = ask.resourceAsk.resources
                self.free[node_id].update({name: resources[name].value for name in resources})
                if release.terminationType == si_pb2.STOPPED_BY_RM:
                    response.released.add().CopyFrom(release)
        for ask_release in request.releases.allocationAsksToRelease:
            self.pending.pop(ask_release.allocationKey, None)

    def _place(self, response: si_pb2.AllocationResponse) -> None:
        if self.faults.never_place:
            return
        for key, ask in list(self.pending.items()):
            wanted = {name: quantity.value for name, quantity in ask.resourceAsk.resources.items()}
            for node_id, free in self.free.items():
                if self.faults.no_capacity_check or all(free[name] >= value for name, value in wanted.items()):
                    del self.pending[key]
                    free.subtract(wanted)
                    for copy in range(2 if self.faults.place_twice else 1):
                        self._allocate(ask, f"uuid-{key}-{copy}", node_id, response)
                    break

    def _allocate(
        self, ask: si_pb2.AllocationAsk, uuid: str, node_id: str, response: si_pb2.AllocationResponse
    ) -> None:
        self.placed[uuid] = (ask, node_id)
        allocation = response.new.add(
            allocationKey=ask.allocationKey, applicationID=ask.applicationID, UUID=uuid, nodeID=node_id
        )
        allocation.resourcePerAlloc.CopyFrom(ask.resourceAsk)
        if self.faults.want_back:
            response.released.add(
                applicationID=ask.applicationID, UUID=uuid, terminationType=si_pb2.PREEMPTED_BY_SCHEDULER
            )


def _admin_handler(fake: FakeScheduler) -> grpc.GenericRpcHandler:
    """Of the admin methods the fake has the one that a resource manager needs."""
    unregister = grpc.unary_unary_rpc_method_handler(
        fake.UnregisterResourceManager,
        request_deserializer=admin_pb2.UnregisterResourceManagerRequest.FromString,
        response_serializer=admin_pb2.UnregisterResourceManagerResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler("schedulerd.v1.Admin", {"UnregisterResourceManager": unregister})


@asynccontextmanager
async def fake_scheduler(
    faults: Faults | None = None, also: Callable[[aio.Server], None] = lambda server: None
) -> AsyncIterator[FakeScheduler]:
    """A fake that serves on a free port of 127.0.0.1 as long as the context lasts; `also` adds other services."""
    fake = FakeScheduler(faults or Faults())
    server = aio.server()
    servicer: Any = fake
    si_pb2_grpc.add_SchedulerServicer_to_server(servicer, server)
    server.add_generic_rpc_handlers((_admin_handler(fake),))
    also(server)
    fake.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield fake
    finally:
        async with asyncio.timeout(10):
            await server.stop(None)
