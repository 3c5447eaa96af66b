"""Runs the workloads `p` with a daemon in another process: how long a resource manager waits for the victims.

It reports what runs with the nodes, asks, and confirms what is to end as it is told. The clock runs from when the asks
are as old as `preemption.delay` says, counted from when they were sent, to the last release. The delay is real here,
and so short. A refusal is not sent, so it is looked for in the metrics.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import httpx
import uvloop

from benchmarks.daemon_looks import RECOUNT_ALL, cpu_seconds_of, violations_of
from benchmarks.decisions_check import Decided, check_outcome
from benchmarks.full_clusters import FullCluster
from benchmarks.measurement import Decisions, Took, WrongResult, peak_rss_bytes
from benchmarks.messages import application_request, claim_request, full_node_requests
from benchmarks.resource_manager import BenchmarkRM
from benchmarks.workload import RM_ID
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client
from schedulerd.simulate.demo import Daemon, free_port

DELAY_S = 1
"""Of preemption: long enough to be in when the asks are there."""
ATTEMPT_S = 1
"""Between two attempts at least."""
ATTEMPTS_SEEN = 3
"""Attempts for whose time a cluster without victims is watched: no release may come."""
RUN_TIMEOUT_S = 300.0
LOOK_EVERY_S = 0.005

_FOR_WHOM = re.compile(r"Preempted for ask (?P<key>\S+) of application \S+: .*")
_ATTEMPTS = re.compile(r'^schedulerd_preemption_attempts_total\{.*outcome="(\w+)".*\} (\S+)$', re.MULTILINE)


def run(cluster: FullCluster) -> Decisions:
    """Raises `WrongResult`, `SchedulerError`, or `DemoFailed` if the daemon did not start or end well."""
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        queue_file = Path(directory, "queues.yaml")
        queue_file.write_text(cluster.queue_file(f"{DELAY_S}s"), encoding="utf-8")
        flags = (*RECOUNT_ALL, "--preemption-attempt-s", str(ATTEMPT_S))
        with Daemon(queue_file, grpc_port=free_port(), http_port=free_port(), flags=flags) as daemon:
            daemon.wait_until_ready()
            return uvloop.run(_run(cluster, daemon))


async def _run(cluster: FullCluster, daemon: Daemon) -> Decisions:
    rm = ClaimingRM({one.uuid: one.node_id for one in cluster.running})
    try:
        async with (
            asyncio.timeout(RUN_TIMEOUT_S),
            Client(daemon.target, rm, rm_id=RM_ID, reconnect_timeout_s=0, resync=False),
            httpx.AsyncClient(trust_env=False) as http,
        ):
            await rm.submit_applications(application_request(cluster.applications))
            await rm.register_nodes(full_node_requests(cluster))
            measured = await _measure(cluster, daemon, rm, http)
            placed = {one.key: one.node_id for one in rm.placed()}
            refusals = (await _attempts(http, daemon)).keys() - {"decided"}
            check_outcome(cluster, rm.decisions(), refusals, placed, await violations_of(daemon))
        return measured
    except TimeoutError:
        raise WrongResult(f"{cluster.name}: {rm.received} allocations came in {RUN_TIMEOUT_S:g} s") from None


async def _measure(cluster: FullCluster, daemon: Daemon, rm: ClaimingRM, http: httpx.AsyncClient) -> Decisions:
    request = claim_request(cluster.asks)
    if await _attempts(http, daemon):
        raise WrongResult(f"{cluster.name}: there was a preemption attempt before there was any ask")
    due_s = time.perf_counter() + DELAY_S
    rm.client.send(request)
    await asyncio.sleep(due_s - time.perf_counter())
    cpu_before_s = cpu_seconds_of(daemon)
    refused = 0.0
    if cluster.hopeless:
        while not refused:
            await asyncio.sleep(LOOK_EVERY_S)
            refused = sum((await _attempts(http, daemon)).values())
        told = [(time.perf_counter(), 1)]
    else:
        await rm.until(lambda: rm.received >= len(cluster.asks))
        told = rm.told
    cpu_seconds = (cpu_seconds_of(daemon) - cpu_before_s) / sum(count for _, count in told)
    if cluster.hopeless:
        await asyncio.sleep(ATTEMPTS_SEEN * ATTEMPT_S)
    return Decisions(
        decisions=tuple(
            Took((now_s - before_s) / count, cpu_seconds)
            for (before_s, _), (now_s, count) in pairwise([(due_s, 0), *told])
            for _ in range(count)
        ),
        longest=None,
        visits=None,
        victims=len(rm.released),
        refused=int(refused),
        peak_rss_bytes=peak_rss_bytes(daemon.pid),
    )


class ClaimingRM(BenchmarkRM):
    """Notes for whom allocations are to end, which the message of a release says, and when it was told."""

    def __init__(self, node_of: Mapping[str, str]) -> None:
        """`node_of`: the node of each allocation, by UUID."""
        super().__init__(ends=si_pb2.PREEMPTED_BY_SCHEDULER)
        self._node_of = node_of
        self.told: list[tuple[float, int]] = []
        """When something was to end for asks of which that was not known before, by the clock of `time.perf_counter`,
        and for how many."""
        self._victims: dict[tuple[str, str], list[str]] = {}
        """UUIDs by ask and node, in the order of decisions."""

    def decisions(self) -> list[Decided]:
        return [Decided(key, node_id, tuple(uuids)) for (key, node_id), uuids in self._victims.items()]

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        super().take_allocations(response)
        now_s, known = time.perf_counter(), len(self._victims)
        for release in response.released:
            said = _FOR_WHOM.fullmatch(release.message)
            if said is None:
                raise WrongResult(
                    f"allocation {release.UUID} is to end, and it is not said for whom: {release.message}"
                )
            self._victims.setdefault((said["key"], self._node_of[release.UUID]), []).append(release.UUID)
        if more := len(self._victims) - known:
            self.told.append((now_s, more))


async def _attempts(http: httpx.AsyncClient, daemon: Daemon) -> dict[str, float]:
    """Preemption attempts by outcome; without outcomes that never came."""
    text = (await http.get(daemon.metrics_url)).raise_for_status().text
    return {outcome: float(count) for outcome, count in _ATTEMPTS.findall(text) if float(count)}
