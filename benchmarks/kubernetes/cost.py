"""What a pod costs the shim: CPU of its process from the creation of pods at a steady rate to the last event.

Once with the public command, and once with writes that are answered without HTTP.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.kubernetes.cluster import Workload
from benchmarks.kubernetes.fake_world import FakeWorld, fake_world
from benchmarks.kubernetes.processes import Measured, cpu_seconds_of
from benchmarks.kubernetes.steps import cpu_us_per_pod

RUN_SECONDS_MAX = 120.0
PODS_PER_SECOND = 500.0
WARM_UP_PODS = 200
SETTLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    pods: int
    written_us: float
    """Per pod, with a binding and an event by HTTP."""
    unwritten_us: float
    """Per pod, with writes that are answered at once."""
    steps_us: float
    """Per pod, to decode what a watch tells and to step the cluster, without a process around it."""


@dataclass(frozen=True, slots=True)
class CostSummary:
    workload: str
    runs: int
    pods: int
    written_us: tuple[float, float, float]
    """Median, least and most; so are the next."""
    unwritten_us: tuple[float, float, float]
    steps_us: tuple[float, float, float]

    @classmethod
    def of(cls, workload: str, runs: Sequence[Cost]) -> CostSummary:
        def spread(found: list[float]) -> tuple[float, float, float]:
            return median(found), min(found), max(found)

        return cls(
            workload,
            len(runs),
            runs[0].pods,
            spread([one.written_us for one in runs]),
            spread([one.unwritten_us for one in runs]),
            spread([one.steps_us for one in runs]),
        )

    def row(self) -> dict[str, str]:
        def cell(spread: tuple[float, float, float]) -> str:
            return "{:,.0f} ({:,.0f}, {:,.0f})".format(*spread)

        return {
            "workload": self.workload,
            "pods": f"{self.pods:,}",
            "shim's CPU us per pod (min, max)": cell(self.written_us),
            "without HTTP writes": cell(self.unwritten_us),
            "decoding and steps alone": cell(self.steps_us),
        }


def run(workload: Workload) -> Cost:
    """Raises `WrongResult`, or `DemoFailed` if the daemon did not start or end well."""
    written, unwritten = (uvloop.run(_measure(workload, with_writes=with_writes)) for with_writes in (True, False))
    steps_us = cpu_us_per_pod(workload)
    return Cost(workload.pods, 1e6 * written / workload.pods, 1e6 * unwritten / workload.pods, steps_us)


async def _measure(workload: Workload, *, with_writes: bool) -> float:
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        async with fake_world(workload, Path(directory)) as world:
            world.make_nodes(workload)
            shim: AbstractContextManager[Measured] = world.shim() if with_writes else world.shim_without_writes()
            with shim as process:
                return await _cpu_seconds(workload, world, process, with_writes=with_writes)


async def _cpu_seconds(workload: Workload, world: FakeWorld, shim: Measured, *, with_writes: bool) -> float:
    first = Workload("warm-up", workload.nodes, workload.pods + WARM_UP_PODS)
    for number in range(workload.pods, first.pods):
        world.make_pod(first, number)
    await world.until("warm-up", lambda: len(world.bound) == WARM_UP_PODS, shim, RUN_SECONDS_MAX)
    if with_writes:
        await world.until("events", lambda: world.scheduled_events() >= WARM_UP_PODS, shim, RUN_SECONDS_MAX)
    await asyncio.sleep(SETTLE_SECONDS)
    before_s = cpu_seconds_of(shim.pid)
    making = asyncio.create_task(world.make_pods(workload, PODS_PER_SECOND))
    await world.until(workload.name, lambda: len(world.bound) == first.pods, shim, RUN_SECONDS_MAX)
    if with_writes:
        await world.until("events", lambda: world.scheduled_events() >= first.pods, shim, RUN_SECONDS_MAX)
    await making
    await asyncio.sleep(SETTLE_SECONDS)
    return cpu_seconds_of(shim.pid) - before_s
