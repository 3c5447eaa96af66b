"""Runs a workload on a daemon of its own, from another process: this one is the resource manager.

The client is the one that everybody has, without books, on uvloop; its requests are built before the clock starts, and
responses are only kept until it has stopped. What it costs to send and receive is nevertheless part of the result.
"""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import httpx
import psutil
import uvloop

from benchmarks.companion import Companion
from benchmarks.measurement import Intake, Looks, Measurement, Placed, WrongResult, check, peak_rss_bytes
from benchmarks.messages import allocation_request, application_request, node_request
from benchmarks.workload import RM_ID, Ask, Size, Workload
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client, ResourceManager
from schedulerd.simulate.demo import Daemon, free_port

RUN_TIMEOUT_S = 900.0
STATE_TIMEOUT_S = 600.0
"""It recounts up to a million asks before it answers."""

NO_ASK = Ask(application_id="", key="", size=Size(0, 0))
"""Rejected whatever there is."""


def run(workload: Workload) -> Measurement:
    """Raises `WrongResult`, `SchedulerError`, or `DemoFailed` if the daemon did not start or end well."""
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        queue_file = Path(directory, "queues.yaml")
        queue_file.write_text(workload.queue_file, encoding="utf-8")
        # It is to recount all that it has at the end of a run, whatever that costs; but not at each look meanwhile.
        recount = () if workload.is_watched else ("--recount-items-max", "10000000")
        with Daemon(queue_file, grpc_port=free_port(), http_port=free_port(), flags=recount) as daemon:
            daemon.wait_until_ready()
            kind = workload.neighbour
            with Companion("benchmarks.neighbour", daemon.target, kind) if kind is not None else nullcontext():
                return uvloop.run(_run(workload, daemon))


async def _run(workload: Workload, daemon: Daemon) -> Measurement:
    rm = _ResourceManager()
    try:
        async with (
            asyncio.timeout(RUN_TIMEOUT_S),
            Client(daemon.target, rm, rm_id=RM_ID, reconnect_timeout_s=0, resync=False),
        ):
            if not workload.pending_first:
                await rm.register_nodes(workload)
            await rm.submit_applications(workload)
            measurement = await _measure(workload, daemon, rm)
            violations = [] if workload.is_watched else await _violations(daemon)
            check(workload, rm.placed(), violations, rm.replaced)
        return measurement
    except TimeoutError:
        raise WrongResult(f"{workload.name}: {rm.received} allocations came in {RUN_TIMEOUT_S:g} s") from None


async def _measure(workload: Workload, daemon: Daemon, rm: _ResourceManager) -> Measurement:
    requests = [allocation_request(asks) for asks in workload.requests(workload.asks)]
    replacing = [allocation_request(asks) for asks in workload.requests(workload.replacements)]
    singles = [allocation_request([ask]) for ask in workload.single_asks]
    gc.collect()
    gc.freeze()
    gc.disable()
    goal, early, intake = workload.placements(workload.asks), 0, None
    if workload.pending_first:
        intake = Intake(len(workload.asks), await rm.hand_in(requests))
        await rm.register_nodes(workload)
        requests, early = [], rm.received
    cpu_before_s = _cpu_seconds(daemon)
    seconds = await rm.place(requests, goal - early)
    if replacing:
        seconds += await rm.place(replacing, workload.placements(workload.replacements))
    cpu_seconds = _cpu_seconds(daemon) - cpu_before_s
    latencies_s, looks = await _latencies_s(rm, singles, daemon if workload.is_watched else None)
    gc.enable()
    return Measurement(
        goal - early + len(workload.replacements),
        seconds,
        cpu_seconds,
        intake,
        latencies_s,
        looks=looks,
        idle_cpu_share=await _idle_cpu_share(daemon, workload.idle_s) if workload.idle_s else None,
        peak_rss_bytes=peak_rss_bytes(daemon.pid),
    )


async def _latencies_s(
    rm: _ResourceManager, singles: Sequence[si_pb2.AllocationRequest], watched: Daemon | None
) -> tuple[tuple[float, ...], Looks | None]:
    """Of each request, sent when the one before has its allocation; and what the onlooker did, if there is one."""
    if watched is None:
        return tuple([await rm.place([single], 1) for single in singles]), None
    with Companion("benchmarks.onlooker", watched.target, watched.metrics_url) as onlooker:
        latencies_s = tuple([await rm.place([single], 1) for single in singles])
    return latencies_s, Looks(**json.loads(onlooker.said))


class _ResourceManager(ResourceManager):
    """Sends requests and waits for what comes of them."""

    def __init__(self) -> None:
        self.received = 0
        """Allocations that have come so far."""
        self._nodes_accepted = self._applications_accepted = 0
        self._handed_in = False
        self._changed = asyncio.Event()
        self._responses: list[si_pb2.AllocationResponse] = []
        self._to_confirm: list[si_pb2.AllocationRelease] = []
        self._replaced: set[str] = set()

    @property
    def replaced(self) -> int:
        """Placeholders that have gone to make room for real asks."""
        return len(self._replaced)

    async def register_nodes(self, workload: Workload) -> None:
        """Returns when all are accepted."""
        self.client.send(node_request(workload))
        await self._until(lambda: self._nodes_accepted == workload.nodes)

    async def submit_applications(self, workload: Workload) -> None:
        """Returns when all are accepted."""
        self.client.send(application_request(workload))
        await self._until(lambda: self._applications_accepted == len(workload.applications))

    async def hand_in(self, requests: Iterable[si_pb2.AllocationRequest]) -> float:
        """Seconds until all are taken; nothing may be placed meanwhile.

        Asks are not confirmed, so one more is sent behind them that cannot be taken: its rejection is the confirmation.
        """
        started_s = time.perf_counter()
        for request in (*requests, allocation_request([NO_ASK])):
            self.client.send(request)
            await self.client.drain()
        await self._until(lambda: self._handed_in)
        return time.perf_counter() - started_s

    async def place(self, requests: Iterable[si_pb2.AllocationRequest], placements: int) -> float:
        """Seconds from just before the first request until this many allocations more have come.

        What is to be replaced meanwhile is confirmed as it comes.
        """
        goal = self.received + placements
        started_s = time.perf_counter()
        for request in requests:
            self.client.send(request)
            await self.client.drain()
            self._confirm()
        await self._until(lambda: self.received >= goal)
        return time.perf_counter() - started_s

    def placed(self) -> Iterator[Placed]:
        """Those of them that are still there, as they came."""
        for one in (one for response in self._responses for one in response.new):
            if one.UUID not in self._replaced:
                amounts = one.resourcePerAlloc.resources
                size = Size(amounts["memory"].value, amounts["vcore"].value)
                yield Placed(one.UUID, one.applicationID, one.allocationKey, one.nodeID, size)

    async def _until(self, done: Callable[[], bool]) -> None:
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
            if release.terminationType != si_pb2.PLACEHOLDER_REPLACED:
                raise WrongResult(f"allocation {release.UUID} was released: {release.message}")
            self._replaced.add(release.UUID)
            self._to_confirm.append(release)
        self.received += len(response.new)
        self._responses.append(response)
        self._changed.set()


def _cpu_seconds(daemon: Daemon) -> float:
    times = psutil.Process(daemon.pid).cpu_times()
    return times.user + times.system


async def _idle_cpu_share(daemon: Daemon, seconds: float) -> float:
    before_s, started_s = _cpu_seconds(daemon), time.perf_counter()
    await asyncio.sleep(seconds)
    return (_cpu_seconds(daemon) - before_s) / (time.perf_counter() - started_s)


async def _violations(daemon: Daemon) -> list[str]:
    """What the daemon itself finds wrong with its state."""
    url = daemon.metrics_url.replace("/metrics", "/debug/state")
    async with httpx.AsyncClient(timeout=STATE_TIMEOUT_S, trust_env=False) as http:
        state: dict[str, list[str]] = (await http.get(url)).raise_for_status().json()
    return state["violations"]
