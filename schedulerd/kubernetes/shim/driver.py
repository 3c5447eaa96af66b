"""Steps the cluster with whatever comes, and carries out what it wants, in the same turn of the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from schedulerd.client import AllocationRelease, Client
from schedulerd.kubernetes.api import Recorder, WritePool
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.cluster.cluster import Cluster
from schedulerd.kubernetes.cluster.effects import Effect, Recovery
from schedulerd.kubernetes.cluster.events import Event, GangSourceServed, Started, Tick
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.shim.api_writer import ApiWriter
from schedulerd.kubernetes.shim.binding_times import BindingTimes
from schedulerd.kubernetes.shim.daemon_link import DaemonLink
from schedulerd.kubernetes.shim.daemon_writer import DaemonWriter
from schedulerd.kubernetes.shim.pace import Pace

NS = 1_000_000_000
REPORT_SLICE = 500
"""Items of a report that are queued before others may run."""


class Driver:
    """`link` is the resource manager to make the client with; `connect` has to be called before the first effect."""

    def __init__(
        self,
        cluster: Cluster,
        pool: WritePool,
        recorder: Recorder,
        times: BindingTimes,
        fail: Callable[[Exception], None],
    ) -> None:
        """`fail` is told of what a timer or the end of a write could not be handled for: nobody waits for those."""
        self._cluster = cluster
        self._times = times
        self._loop = asyncio.get_running_loop()
        self._fail = fail
        self._api = ApiWriter(pool, recorder, self._handle_late)
        self._daemon: DaemonWriter | None = None
        self._performers = dict(self._api.performers)
        pace = Pace(lambda: cluster.work, self._loop.call_soon)
        self.link = DaemonLink(cluster, self.handle, self._note_wanted, pace=pace)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns: int | None = None
        self._is_closed = False

    def connect(self, client: Client) -> None:
        self._daemon = DaemonWriter(client)
        self._performers |= self._daemon.performers

    def served(self, source: GangSource, resource: Resource) -> None:
        """The server has objects by which pods become gangs."""
        if source is GangSource.KUBERNETES and resource.kind == "PodGroup":
            self._api.pod_groups = resource
        self.handle([GangSourceServed(source)])

    def close(self) -> None:
        """Nothing is carried out any longer."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def handle(self, events: list[Event]) -> None:
        for effect in self._step(events):
            self._perform(effect)

    def _handle_late(self, events: list[Event]) -> None:
        try:
            self.handle(events)
        except Exception as error:
            self._fail(error)
            raise

    async def start(self) -> None:
        """Reports everything to the daemon; returns when all asks are queued."""
        epoch_ns = time.time_ns() - int(self._loop.time() * NS)
        for effect in self._step([Started(epoch_ns)]):
            if isinstance(effect, Recovery):
                await self._report(effect)
            else:
                self._perform(effect)

    def _step(self, events: list[Event]) -> list[Effect]:
        if self._is_closed:
            return []
        now_s = self._loop.time()
        effects = self._cluster.step(int(now_s * NS), events)
        self._times.observe(now_s, events)
        self._arm()
        return effects

    async def _report(self, report: Recovery) -> None:
        link = self.link
        link.applications_awaited.expect(effect.application_id for effect in report.applications)
        await self._queue(report.applications)
        await link.applications_awaited.wait()
        link.nodes_awaited.expect(effect.name for effect in report.nodes)
        await self._queue(report.nodes)
        await link.nodes_awaited.wait()
        await self._queue(report.asks)
        await self._queue(report.others)

    async def _queue(self, effects: Sequence[Effect]) -> None:
        for number, effect in enumerate(effects, 1):
            self._perform(effect)
            if number % REPORT_SLICE == 0:
                await asyncio.sleep(0)

    def _perform(self, effect: Effect) -> None:
        self._performers[type(effect)](effect)

    def _note_wanted(self, release: AllocationRelease) -> None:
        assert self._daemon is not None
        self._daemon.wanted[release.UUID] = release

    def _arm(self) -> None:
        due_ns = self._cluster.next_due_ns
        if due_ns == self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ns = due_ns
        if due_ns is not None:
            self._timer = self._loop.call_at(due_ns / NS, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ns = None
        self._handle_late([Tick()])
