"""Recovery through gRPC: a resource manager registers again and again, and reports everything it has each time.

Each round is a new client with the same rmID: the daemon drops what it had of it, and takes the whole report in.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx
import psutil
import uvloop

from benchmarks.daemon_looks import RECOUNT_ALL, violations_of
from benchmarks.full_clusters import Pod
from benchmarks.measurement import WrongResult, peak_rss_bytes
from benchmarks.messages import allocation_request, application_request, node_requests
from benchmarks.resource_manager import BenchmarkRM
from benchmarks.workload import ASKS_PER_REQUEST, RM_ID, Ask, Size
from benchmarks.workloads import POD, QUEUES_AB
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client
from schedulerd.simulate.demo import Daemon, free_port

RUN_TIMEOUT_S = 900.0
SETTLE_S = 3.0
"""After each round: the daemon frees what it dropped, and memory is measured."""
GROWTH_MAX = 1.05
"""Memory after the last round, as a part of that after the second; the first one still fills what is there for good."""

_LAG = re.compile(r'^schedulerd_loop_lag_seconds_bucket\{le="(\S+)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What is reported in each round."""

    name: str = "r"
    nodes: int = 5_000
    applications: int = 2_000
    allocations_per_node: int = 20
    asks: int = 20_000
    rounds: int = 10

    @property
    def placements(self) -> int:
        """Each node has room for one more pod; the other asks stay pending."""
        return min(self.nodes, self.asks)


@dataclass(frozen=True, slots=True)
class Round:
    report_s: float
    """From the registration until every application and node is accepted, and every ask taken."""
    first_placement_s: float
    """From the registration to the first new allocation."""
    last_placement_s: float
    rss_bytes: int
    """Of the daemon, some seconds later."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What one run gave."""

    rounds: tuple[Round, ...]
    lag_s_max: float
    """The loop was never later than that: a bound of the histogram that the daemon keeps."""
    peak_rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class RecoverySummary:
    workload: str
    runs: int
    report_s: float
    """Median over all rounds of all runs; so are the next two."""
    first_placement_s: float
    last_placement_s: float
    lag_ms_max: float
    rss_mib: tuple[float, ...]
    """After each round of the last run."""
    peak_rss_mib: float | None

    @classmethod
    def of(cls, workload: str, runs: Sequence[Rounds]) -> RecoverySummary:
        rounds = [one for run in runs for one in run.rounds]
        peaks = [run.peak_rss_bytes / 2**20 for run in runs if run.peak_rss_bytes is not None]
        return cls(
            workload=workload,
            runs=len(runs),
            report_s=median(one.report_s for one in rounds),
            first_placement_s=median(one.first_placement_s for one in rounds),
            last_placement_s=median(one.last_placement_s for one in rounds),
            lag_ms_max=1e3 * max(run.lag_s_max for run in runs),
            rss_mib=tuple(one.rss_bytes / 2**20 for one in runs[-1].rounds),
            peak_rss_mib=max(peaks, default=None),
        )

    def row(self) -> dict[str, str]:
        """The cells of its line in the table, by heading."""
        return {
            "workload": self.workload,
            "all taken s": f"{self.report_s:.2f}",
            "first placement s": f"{self.first_placement_s:.2f}",
            "last placement s": f"{self.last_placement_s:.2f}",
            "loop late, at most ms": f"{self.lag_ms_max:g}",
            "RSS MiB by round": " ".join(f"{one:.0f}" for one in self.rss_mib),
            "peak RSS MiB": "-" if self.peak_rss_mib is None else f"{self.peak_rss_mib:,.0f}",
        }


RECOVERIES: Mapping[str, Callable[[], Recovery]] = {"r": Recovery}


def run(recovery: Recovery) -> Rounds:
    """Raises `WrongResult`, `SchedulerError`, or `DemoFailed` if the daemon did not start or end well."""
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        queue_file = Path(directory, "queues.yaml")
        queue_file.write_text(QUEUES_AB, encoding="utf-8")
        with Daemon(queue_file, grpc_port=free_port(), http_port=free_port(), flags=RECOUNT_ALL) as daemon:
            daemon.wait_until_ready()
            return uvloop.run(_run(recovery, daemon))


async def _run(recovery: Recovery, daemon: Daemon) -> Rounds:
    report = _Report(recovery)
    async with asyncio.timeout(RUN_TIMEOUT_S):
        rounds = [await _round(recovery, daemon, report) for _ in range(recovery.rounds)]
        lag_s = await _lag_s_max(daemon)  # before the next: a recount of everything holds the loop for a second
        if violations := await violations_of(daemon):
            raise WrongResult(f"{recovery.name}: {violations[:3]}")
    if rounds[-1].rss_bytes > GROWTH_MAX * rounds[1].rss_bytes:
        sizes = ", ".join(f"{one.rss_bytes / 2**20:.0f}" for one in rounds)
        raise WrongResult(f"{recovery.name}: memory grows with each registration: {sizes} MiB")
    return Rounds(tuple(rounds), lag_s, peak_rss_bytes(daemon.pid))


class _Report:
    """The messages of a round, built before any clock runs."""

    def __init__(self, recovery: Recovery) -> None:
        owners = [f"app-{index:04d}" for index in range(recovery.applications)]
        queues = {name: "root.a" if at % 2 else "root.b" for at, name in enumerate(owners)}
        ids = [f"node-{index:05d}" for index in range(recovery.nodes)]
        each = recovery.allocations_per_node
        pods = [Pod(f"old-{at:06d}", owners[at % len(owners)], POD, ids[at // each]) for at in range(each * len(ids))]
        room = Size(POD.memory * (each + 1), POD.vcore * (each + 1))
        self.applications = application_request(queues)
        self.nodes = node_requests(ids, room, pods)
        asks = [Ask(owners[at % len(owners)], f"new-{at:05d}", POD) for at in range(recovery.asks)]
        portions = [asks[at : at + ASKS_PER_REQUEST] for at in range(0, len(asks), ASKS_PER_REQUEST)]
        self.asks = [allocation_request(portion) for portion in portions]


async def _round(recovery: Recovery, daemon: Daemon, report: _Report) -> Round:
    rm = RecoveringRM()
    started_s = time.perf_counter()
    async with Client(daemon.target, rm, rm_id=RM_ID, reconnect_timeout_s=0, resync=False):
        await rm.submit_applications(report.applications)
        await rm.register_nodes(report.nodes)
        await rm.hand_in(report.asks)
        taken_s = time.perf_counter() - started_s
        await rm.until(lambda: rm.received >= recovery.placements)
        last_s = time.perf_counter() - started_s
        await asyncio.sleep(SETTLE_S)
        _check(recovery, rm)
        rss_bytes = psutil.Process(daemon.pid).memory_info().rss
    assert rm.first_s is not None
    return Round(taken_s, rm.first_s - started_s, last_s, rss_bytes)


def _check(recovery: Recovery, rm: BenchmarkRM) -> None:
    placed = list(rm.placed())
    nodes, keys = Counter(one.node_id for one in placed), {one.key for one in placed}
    if len(placed) != recovery.placements or len(keys) != len(placed) or max(nodes.values()) > 1:
        raise WrongResult(f"{recovery.name}: {len(placed)} of {recovery.placements} placed, some twice or out of room")


class RecoveringRM(BenchmarkRM):
    """Notes when the first new allocation comes."""

    def __init__(self) -> None:
        super().__init__()
        self.first_s: float | None = None

    def take_allocations(self, response: si_pb2.AllocationResponse) -> None:
        if response.new and self.first_s is None:
            self.first_s = time.perf_counter()
        super().take_allocations(response)


async def _lag_s_max(daemon: Daemon) -> float:
    """The bound below which the loop's lag always was."""
    async with httpx.AsyncClient(trust_env=False) as http:
        text = (await http.get(daemon.metrics_url)).raise_for_status().text
    buckets = [(float(bound), float(count)) for bound, count in _LAG.findall(text)]
    return next(bound for bound, count in buckets if count == buckets[-1][1])
