"""One run against a scheduler: the simulated resource manager's words over a real connection, on a real clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client, RegistrationRejected, ResourceManager, SchedulerError
from schedulerd.simulate.queue_file import QueueQuota
from schedulerd.simulate.requests import Outgoing
from schedulerd.simulate.resource_manager import SimulatedResourceManager
from schedulerd.simulate.snapshot import PlacementRate, Snapshot, take_snapshot
from schedulerd.simulate.summary import Summary, summarise
from schedulerd.simulate.workload import Workload

TICK_S = 0.01
LOOK_S = 0.2
NODES_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 15.0


class Session(ResourceManager):
    """Runs a workload to its end, or to `stop`; `show` is called with a snapshot a few times a second."""

    def __init__(
        self,
        workload: Workload,
        *,
        target: str,
        rm_id: str,
        policy_group: str = "",
        connect_timeout_s: float = 10.0,
        stay_registered: bool = False,
        quotas: Sequence[QueueQuota] = (),
        show: Callable[[Snapshot], None],
    ) -> None:
        self._workload = workload
        self._target = target
        self._rm_id = rm_id
        self._policy_group = policy_group
        self._connect_timeout_s = connect_timeout_s
        self._stay_registered = stay_registered
        self._quotas = quotas
        self._show = show
        self._rm = SimulatedResourceManager(workload)
        self._rate = PlacementRate()
        self._clock = monotonic  # the time of a uvloop loop counts in milliseconds, too coarse for latencies
        self._began_s = self._clock()
        self._first_ask_s: float | None = None
        self._last_allocation_s = 0.0
        self._looked_s = 0.0
        self._nodes_answered = asyncio.Event()
        self._stopped = False
        self.playing = False
        """True once applications may have been submitted."""

    def stop(self) -> None:
        """Ends the run early but in order: asks taken back, pods released, all of it confirmed."""
        self._stopped = True

    async def run(self) -> Summary:
        """Plays the workload; raises `SchedulerError` if the scheduler cannot be reached or used."""
        async with Client(
            self._target,
            self,
            rm_id=self._rm_id,
            policy_group=self._policy_group,
            connect_timeout_s=self._connect_timeout_s,
            reconnect_timeout_s=self._connect_timeout_s,
        ) as client:
            await self._add_nodes()
            self._began_s = self._clock()
            self.playing = True
            await self._play()
            elapsed_s = self._now_s()
            if not self._stay_registered:
                await client.unregister()
        return summarise(
            self._rm,
            client,
            elapsed_s=elapsed_s,
            placing_span_s=self._last_allocation_s - (self._first_ask_s or 0.0),
            placements_per_s_peak=max(self._rate.history(), default=0.0),
        )

    async def _add_nodes(self) -> None:
        self.client.send(self._rm.nodes_request())
        try:
            async with asyncio.timeout(NODES_TIMEOUT_S):
                await self._nodes_answered.wait()
        except TimeoutError:
            unanswered = self._rm.nodes_unanswered
            raise SchedulerError(f"{unanswered} nodes got no answer within {NODES_TIMEOUT_S:g} s") from None
        if not self._rm.nodes:
            raise RegistrationRejected(f"all nodes were rejected, such as {self._rm.books.rejection_texts[0]}")

    async def _play(self) -> None:
        deadline_s: float | None = None
        while not self._rm.is_done() and (deadline_s is None or self._now_s() < deadline_s):
            now_s = self._now_s()
            if deadline_s is None and (self._stopped or now_s >= self._workload.duration_s):
                self._rm.stop(now_s)
                deadline_s = now_s + DRAIN_TIMEOUT_S
            await self._send(self._rm.advance(now_s))
            self._look(now_s)
            await asyncio.sleep(TICK_S)
        await self._send(self._rm.advance(self._now_s()))
        self._look(self._now_s(), last=True)

    async def _send(self, outgoing: Outgoing) -> None:
        for applications in outgoing.applications:
            self.client.send(applications)
        for allocations in outgoing.allocations:
            if self._first_ask_s is None and allocations.asks:
                self._first_ask_s = self._now_s()
            self.client.send(allocations)
        await self.client.drain()

    def _look(self, now_s: float, *, last: bool = False) -> None:
        if last or now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            snapshot = take_snapshot(
                self._rm,
                self._rate,
                self._quotas,
                elapsed_s=now_s,
                duration_s=self._workload.duration_s,
                phase=self._phase(now_s),
            )
            self._show(snapshot)

    def _phase(self, now_s: float) -> str:
        if self._rm.is_done():
            return "done"
        if self._stopped:
            return "stopping"
        return "arriving" if now_s < self._workload.arrivals_end_s else "draining"

    def _now_s(self) -> float:
        return self._clock() - self._began_s

    # What the client hands over, message by message.

    def take_nodes(self, response: si_pb2.NodeResponse) -> None:
        self._rm.take_nodes(response)
        if self._rm.nodes_unanswered <= 0:
            self._nodes_answered.set()

    def take_applications(self, response: si_pb2.ApplicationResponse) -> None:
        self._rm.take_applications(response)

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        now_s = self._now_s()
        if response.new:
            self._last_allocation_s = now_s
        self._rm.take_allocations(response, now_s)
