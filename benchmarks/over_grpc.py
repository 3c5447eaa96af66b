"""Runs a workload on a daemon of its own, from another process: this one is the resource manager.

The client is the public one, without books, on uvloop; its requests are built before the clock starts, and
responses are only kept until it has stopped. What it costs to send and receive is nevertheless part of the result.
"""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import uvloop

from benchmarks.companion import Companion
from benchmarks.daemon_looks import RECOUNT_ALL, cpu_seconds_of, violations_of
from benchmarks.measurement import Intake, Looks, Measurement, WrongResult, check, peak_rss_bytes
from benchmarks.messages import allocation_request, application_request, node_request
from benchmarks.resource_manager import BenchmarkRM
from benchmarks.workload import RM_ID, Workload
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client
from schedulerd.simulate.demo import Daemon, free_port

RUN_TIMEOUT_S = 900.0


def run(workload: Workload) -> Measurement:
    """Raises `WrongResult`, `SchedulerError`, or `DemoFailed` if the daemon did not start or end well."""
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        queue_file = Path(directory, "queues.yaml")
        queue_file.write_text(workload.queue_file, encoding="utf-8")
        # It is to recount all that it has at the end of a run, whatever that costs; but not at each look meanwhile.
        recount = () if workload.is_watched else RECOUNT_ALL
        with Daemon(queue_file, grpc_port=free_port(), http_port=free_port(), flags=recount) as daemon:
            daemon.wait_until_ready()
            kind = workload.neighbour
            with Companion("benchmarks.neighbour", daemon.target, kind) if kind is not None else nullcontext():
                return uvloop.run(_run(workload, daemon))


async def _run(workload: Workload, daemon: Daemon) -> Measurement:
    rm = BenchmarkRM()
    try:
        async with (
            asyncio.timeout(RUN_TIMEOUT_S),
            Client(daemon.target, rm, rm_id=RM_ID, reconnect_timeout_s=0, resync=False),
        ):
            if not workload.pending_first:
                await rm.register_nodes([node_request(workload)])
            await rm.submit_applications(
                application_request(workload.applications, workload.gang_size, workload.task_groups)
            )
            measurement = await _measure(workload, daemon, rm)
            violations = [] if workload.is_watched else await violations_of(daemon)
            check(workload, rm.placed(), violations, len(rm.released))
        return measurement
    except TimeoutError:
        raise WrongResult(f"{workload.name}: {rm.received} allocations came in {RUN_TIMEOUT_S:g} s") from None


async def _measure(workload: Workload, daemon: Daemon, rm: BenchmarkRM) -> Measurement:
    requests = [allocation_request(asks) for asks in workload.requests(workload.asks)]
    replacing = [allocation_request(asks) for asks in workload.requests(workload.replacements)]
    singles = [allocation_request([ask]) for ask in workload.single_asks]
    gc.collect()
    gc.freeze()
    gc.disable()
    goal, early, intake = workload.placements(workload.asks), 0, None
    if workload.pending_first:
        intake = Intake(len(workload.asks), await rm.hand_in(requests))
        await rm.register_nodes([node_request(workload)])
        requests, early = [], rm.received
    cpu_before_s = cpu_seconds_of(daemon)
    seconds = await rm.place(requests, goal - early)
    if replacing:
        seconds += await rm.place(replacing, workload.placements(workload.replacements))
    cpu_seconds = cpu_seconds_of(daemon) - cpu_before_s
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
    rm: BenchmarkRM, singles: Sequence[si_pb2.AllocationRequest], watched: Daemon | None
) -> tuple[tuple[float, ...], Looks | None]:
    """Of each request, sent when the one before has its allocation; and what the onlooker did, if there is one."""
    if watched is None:
        return tuple([await rm.place([single], 1) for single in singles]), None
    with Companion("benchmarks.onlooker", watched.target, watched.metrics_url) as onlooker:
        latencies_s = tuple([await rm.place([single], 1) for single in singles])
    return latencies_s, Looks(**json.loads(onlooker.said))


async def _idle_cpu_share(daemon: Daemon, seconds: float) -> float:
    before_s, started_s = cpu_seconds_of(daemon), time.perf_counter()
    await asyncio.sleep(seconds)
    return (cpu_seconds_of(daemon) - before_s) / (time.perf_counter() - started_s)
