"""The resource manager of the benchmarks through gRPC: sends what was built before, and keeps what comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks.measurement import Placed, WrongResult
from benchmarks.messages import allocation_request
from benchmarks.workload import Ask, Size
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import ResourceManager

NO_ASK = Ask(application_id="", key="", size=Size(0, 0))
"""Rejected whatever there is."""


class BenchmarkRM(ResourceManager):
    """Sends requests and waits for what comes of them."""

    def __init__(self, ends: si_pb2.TerminationType.ValueType = si_pb2.PLACEHOLDER_REPLACED) -> None:
        """The only reason for which the scheduler may ask for allocations to end is `ends`; it is confirmed."""
        self._ends = ends
        self.received = 0
        """Allocations that have come so far."""
        self._nodes_accepted = self._applications_accepted = 0
        self._handed_in = False
        self._changed = asyncio.Event()
        self._responses: list[si_pb2.AllocationResponse] = []
        self._to_confirm: list[si_pb2.AllocationRelease] = []
        self.released: set[str] = set()
        """UUIDs of those that were asked to end."""

    async def register_nodes(self, requests: Sequence[si_pb2.NodeRequest]) -> None:
        """Returns when all are accepted."""
        for request in requests:
            self.client.send(request)
            await self.client.drain()
        await self.until(lambda: self._nodes_accepted == sum(len(request.nodes) for request in requests))

    async def submit_applications(self, request: si_pb2.ApplicationRequest) -> None:
        """Returns when all are accepted."""
        self.client.send(request)
        await self.until(lambda: self._applications_accepted == len(request.new))

    async def hand_in(self, requests: Iterable[si_pb2.AllocationRequest]) -> float:
        """Seconds until all are taken; nothing may be placed meanwhile.

        Asks are not confirmed, so one more is sent behind them that cannot be taken: its rejection is the confirmation.
        """
        started_s = time.perf_counter()
        for request in (*requests, allocation_request([NO_ASK])):
            self.client.send(request)
            await self.client.drain()
        await self.until(lambda: self._handed_in)
        return time.perf_counter() - started_s

    async def place(self, requests: Iterable[si_pb2.AllocationRequest], placements: int) -> float:
        """Seconds from just before the first request until this many allocations more have come.

        What is to end meanwhile is confirmed as it comes.
        """
        goal = self.received + placements
        started_s = time.perf_counter()
        for request in requests:
            self.client.send(request)
            await self.client.drain()
            self._confirm()
        await self.until(lambda: self.received >= goal)
        return time.perf_counter() - started_s

    def placed(self) -> Iterator[Placed]:
        """Those of them that are still there, as they came."""
        for one in (one for response in self._responses for one in response.new):
            if one.UUID not in self.released:
                amounts = one.resourcePerAlloc.resources
                size = Size(amounts["memory"].value, amounts["vcore"].value)
                yield Placed(one.UUID, one.applicationID, one.allocationKey, one.nodeID, size)

    async def until(self, done: Callable[[], bool]) -> None:
        """Returns when it is so; what is to end meanwhile is confirmed as it comes."""
        while not done():
            self._changed.clear()
            self._confirm()
            await self._changed.wait()

    def _confirm(self) -> None:
        if self._to_confirm:
            request = si_pb2.AllocationRequest()
            request.releases.allocationsToRelease.extend(self._to_confirm)
            self._to_confirm.clear()
            self.client.send(request)

    def take_nodes(self, response: si_pb2.NodeResponse) -> None:
        if response.rejected:
            raise WrongResult(f"{len(response.rejected)} nodes were rejected, first {response.rejected[0]}")
        self._nodes_accepted += len(response.accepted)
        self._changed.set()

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        if response.rejected:
            raise WrongResult(f"{len(response.rejected)} applications were rejected, first {response.rejected[0]}")
        self._applications_accepted += len(response.accepted)
        self._changed.set()

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        if [one.allocationKey for one in response.rejected] == [NO_ASK.key]:
            self._handed_in = True
        elif response.rejected:
            raise WrongResult(f"{len(response.rejected)} asks were rejected, first {response.rejected[0]}")
        for release in response.released:
            if release.terminationType != self._ends or release.UUID in self.released:
                raise WrongResult(f"allocation {release.UUID} was released: {release.message}")
            self.released.add(release.UUID)
            self._to_confirm.append(release)
        self.received += len(response.new)
        self._responses.append(response)
        self._changed.set()
