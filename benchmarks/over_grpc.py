"""Runs a workload on a daemon of its own, from another process: this one is the resource manager.

The client is the one that everybody has, without books, on uvloop; its requests are built before the clock starts, and
responses are only kept until it has stopped. What it costs to send and receive is nevertheless part of the result.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx
import psutil
import uvloop

from benchmarks.measurement import Measurement, Placed, WrongResult, check, peak_rss_bytes
from benchmarks.neighbour import NeighbourProcess
from benchmarks.workloads import GANG_STYLE, GROUP, RM_ID, USER, Ask, Size, Workload
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client, ResourceManager
from schedulerd.simulate.demo import Daemon, free_port

PARTITION = "default"
RUN_TIMEOUT_S = 300.0
STATE_TIMEOUT_S = 60.0


def run(workload: Workload) -> Measurement:
    """Raises `WrongResult`, `SchedulerError`, or `DemoFailed` if the daemon did not start or end well."""
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        queue_file = Path(directory, "queues.yaml")
        queue_file.write_text(workload.queue_file, encoding="utf-8")
        # It is to recount all that it has at the end of a run, whatever that costs.
        recount = ("--recount-items-max", "10000000")
        with Daemon(queue_file, grpc_port=free_port(), http_port=free_port(), flags=recount) as daemon:
            daemon.wait_until_ready()
            with NeighbourProcess(daemon.target, workload.neighbour) if workload.neighbour else nullcontext():
                return uvloop.run(_run(workload, daemon))


async def _run(workload: Workload, daemon: Daemon) -> Measurement:
    rm = _ResourceManager()
    try:
        async with (
            asyncio.timeout(RUN_TIMEOUT_S),
            Client(daemon.target, rm, rm_id=RM_ID, reconnect_timeout_s=0, resync=False),
        ):
            await rm.prepare(workload)
            measurement = await _measure(workload, daemon, rm)
            check(workload, rm.placed(), await _violations(daemon), rm.replaced)
        return measurement
    except TimeoutError:
        raise WrongResult(f"{workload.name}: {rm.received} allocations came in {RUN_TIMEOUT_S:g} s") from None


async def _measure(workload: Workload, daemon: Daemon, rm: _ResourceManager) -> Measurement:
    requests = [_allocation_request(asks) for asks in workload.requests(workload.asks)]
    replacing = [_allocation_request(asks) for asks in workload.requests(workload.replacements)]
    singles = [_allocation_request([ask]) for ask in workload.single_asks]
    gc.collect()
    gc.freeze()
    gc.disable()
    cpu_before_s = _cpu_seconds(daemon)
    seconds = await rm.place(requests, workload.placements(workload.asks))
    if replacing:
        seconds += await rm.place(replacing, workload.placements(workload.replacements))
    cpu_seconds = _cpu_seconds(daemon) - cpu_before_s
    latencies_s = [await rm.place([single], 1) for single in singles]
    gc.enable()
    return Measurement(
        workload.placements((*workload.asks, *workload.replacements)),
        seconds,
        cpu_seconds,
        tuple(latencies_s),
        idle_cpu_share=await _idle_cpu_share(daemon, workload.idle_s) if workload.idle_s else None,
        peak_rss_bytes=peak_rss_bytes(daemon.pid),
    )


class _ResourceManager(ResourceManager):
    """Sends requests and waits for what comes of them."""

    def __init__(self) -> None:
        self.received = 0
        """Allocations that have come so far."""
        self._nodes_accepted = self._applications_accepted = 0
        self._changed = asyncio.Event()
        self._responses: list[si_pb2.AllocationResponse] = []
        self._to_confirm: list[si_pb2.AllocationRelease] = []
        self._replaced: set[str] = set()

    @property
    def replaced(self) -> int:
        """Placeholders that have gone to make room for real asks."""
        return len(self._replaced)

    async def prepare(self, workload: Workload) -> None:
        """Returns when all nodes and applications of the workload are accepted."""
        self.client.send(_node_request(workload))
        await self._until(lambda: self._nodes_accepted == workload.nodes)
        self.client.send(_application_request(workload))
        await self._until(lambda: self._applications_accepted == len(workload.applications))

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
        if response.rejected:
            raise WrongResult(f"{len(response.rejected)} asks were rejected, first {response.rejected[0]}")
        for release in response.released:
            if release.terminationType != si_pb2.PLACEHOLDER_REPLACED:
                raise WrongResult(f"allocation {release.UUID} was released: {release.message}")
            self._replaced.add(release.UUID)
            self._to_confirm.append(release)
        self.received += len(response.new)
        self._responses.append(response)
        self._changed.set()


def _node_request(workload: Workload) -> si_pb2.NodeRequest:
    request = si_pb2.NodeRequest()
    for node_id in workload.node_ids:
        node = request.nodes.add(nodeID=node_id, action=si_pb2.NodeInfo.CREATE)
        node.schedulableResource.CopyFrom(_resource(workload.node_size))
    return request


def _application_request(workload: Workload) -> si_pb2.ApplicationRequest:
    request = si_pb2.ApplicationRequest()
    for application_id, queue in workload.applications.items():
        application = request.new.add(applicationID=application_id, queueName=queue, partitionName=PARTITION)
        application.ugi.user = USER
        application.ugi.groups.append(GROUP)
        if workload.gang_size is not None:
            application.placeholderAsk.CopyFrom(_resource(workload.gang_size))
            application.gangSchedulingStyle = GANG_STYLE
    return request


def _allocation_request(asks: Iterable[Ask]) -> si_pb2.AllocationRequest:
    request = si_pb2.AllocationRequest()
    resources: dict[Size, si_pb2.Resource] = {}
    for ask in asks:
        item = request.asks.add(
            applicationID=ask.application_id,
            allocationKey=ask.key,
            partitionName=PARTITION,
            maxAllocations=ask.count,
            taskGroupName=ask.task_group,
            placeholder=ask.placeholder,
        )
        item.resourceAsk.CopyFrom(resources.get(ask.size) or resources.setdefault(ask.size, _resource(ask.size)))
    return request


def _resource(size: Size) -> si_pb2.Resource:
    resource = si_pb2.Resource()
    resource.resources["memory"].value = size.memory
    resource.resources["vcore"].value = size.vcore
    return resource


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
