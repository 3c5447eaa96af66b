"""A large cluster: memory of shim and daemon for pods that run, and the time from a start to the first binding."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import psutil
import uvloop

from benchmarks.kubernetes.cluster import Workload
from benchmarks.kubernetes.fake_world import fake_world
from benchmarks.kubernetes.processes import cpu_seconds_of
from benchmarks.measurement import peak_rss_bytes

START_SECONDS_MAX = 120.0
SETTLE_SECONDS = 3.0
REST_SECONDS = 10.0
"""For which shim and daemon are measured while nothing happens."""
KB = 1_000.0


@dataclass(frozen=True, slots=True)
class Large:
    pods: int
    empty_rss_bytes: int
    """With all nodes and one pod."""
    rss_bytes: int
    """After a restart, with all pods."""
    peak_rss_bytes: int
    first_binding_s: float
    """From the start of the process, the daemon knowing the cluster from the shim before."""
    cpu_seconds: float
    """Of the shim until then."""
    daemon_cpu_seconds: float
    """Of the daemon, to which everything was reported meanwhile."""
    rest_share: float
    """Of a processor, of the shim while nothing happens."""
    daemon_rest_share: float
    daemon_peak_bytes: int
    """Resident memory of the daemon at its most, to which everything was reported three times."""


@dataclass(frozen=True, slots=True)
class LargeSummary:
    workload: str
    runs: int
    pods: int
    kb_per_pod: float
    peak_kb_per_pod: float
    rss_mib: float
    peak_mib: float
    daemon_peak_mib: float
    first_binding_s: float
    cpu_seconds: float
    daemon_cpu_seconds: float
    rest_share: float
    daemon_rest_share: float

    @classmethod
    def of(cls, workload: str, runs: Sequence[Large]) -> LargeSummary:
        pods = runs[0].pods
        return cls(
            workload,
            len(runs),
            pods,
            median((one.rss_bytes - one.empty_rss_bytes) / pods / KB for one in runs),
            median((one.peak_rss_bytes - one.empty_rss_bytes) / pods / KB for one in runs),
            median(one.rss_bytes / 2**20 for one in runs),
            median(one.peak_rss_bytes / 2**20 for one in runs),
            median(one.daemon_peak_bytes / 2**20 for one in runs),
            median(one.first_binding_s for one in runs),
            median(one.cpu_seconds for one in runs),
            median(one.daemon_cpu_seconds for one in runs),
            median(one.rest_share for one in runs),
            median(one.daemon_rest_share for one in runs),
        )

    def row(self) -> dict[str, str]:
        return {
            "workload": self.workload,
            "pods": f"{self.pods:,}",
            "shim's kB per pod": f"{self.kb_per_pod:.1f}",
            "at its peak": f"{self.peak_kb_per_pod:.1f}",
            "shim's RSS MiB": f"{self.rss_mib:,.0f}",
            "its peak MiB": f"{self.peak_mib:,.0f}",
            "daemon's peak MiB": f"{self.daemon_peak_mib:,.0f}",
            "restart to first binding s": f"{self.first_binding_s:.1f}",
            "shim's CPU s of that": f"{self.cpu_seconds:.1f}",
            "daemon's": f"{self.daemon_cpu_seconds:.1f}",
            "at rest: shim, daemon": f"{self.rest_share:.1%}, {self.daemon_rest_share:.1%}",
        }


def run(workload: Workload) -> Large:
    """Raises `WrongResult`, or `DemoFailed` if the daemon did not start or end well."""
    return uvloop.run(_measure(workload))


async def _measure(workload: Workload) -> Large:
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        async with fake_world(workload, Path(directory)) as world:
            world.make_nodes(workload)
            more = replace(workload, pods=workload.pods + 3)  # one to be bound after each start
            world.make_pod(more, workload.pods)
            with world.shim() as shim:
                await world.until("first start", lambda: len(world.bound) == 1, shim, START_SECONDS_MAX)
                await asyncio.sleep(SETTLE_SECONDS)
                empty = psutil.Process(shim.pid).memory_info().rss
            for number in range(workload.pods):
                world.make_pod(workload, number, f"node-{number % workload.nodes:04d}")
            world.make_pod(more, workload.pods + 1)
            with world.shim() as shim:
                await world.until("second start", lambda: len(world.bound) == 2, shim, START_SECONDS_MAX)
                await asyncio.sleep(SETTLE_SECONDS)
                shim.kill()
            world.make_pod(more, workload.pods + 2)
            before_s = cpu_seconds_of(world.daemon.pid)
            started_s = time.perf_counter()
            with world.shim() as shim:
                await world.until("restart", lambda: len(world.bound) == 3, shim, START_SECONDS_MAX)
                cpu_seconds, first_s = cpu_seconds_of(shim.pid), max(world.bound.values()) - started_s
                daemon_cpu_seconds = cpu_seconds_of(world.daemon.pid) - before_s
                await asyncio.sleep(SETTLE_SECONDS)
                rest_share, daemon_rest_share = await _at_rest(shim.pid, world.daemon.pid)
                rss = psutil.Process(shim.pid).memory_info().rss
                peak = peak_rss_bytes(shim.pid) or rss
                daemon_peak = peak_rss_bytes(world.daemon.pid) or psutil.Process(world.daemon.pid).memory_info().rss
    return Large(
        workload.pods,
        empty,
        rss,
        peak,
        first_s,
        cpu_seconds,
        daemon_cpu_seconds,
        rest_share,
        daemon_rest_share,
        daemon_peak,
    )


async def _at_rest(*pids: int) -> list[float]:
    """Shares of a processor."""
    before_s, started_s = [cpu_seconds_of(pid) for pid in pids], time.perf_counter()
    await asyncio.sleep(REST_SECONDS)
    seconds = time.perf_counter() - started_s
    return [(cpu_seconds_of(pid) - first_s) / seconds for pid, first_s in zip(pids, before_s, strict=True)]
