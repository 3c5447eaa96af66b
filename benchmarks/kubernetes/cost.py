"""What a pod costs the shim: CPU of its process from the creation of pods to the last event.

With the public command, and with writes that are answered without HTTP: at a steady rate, and in a burst, where pods
come as fast as the fake API server makes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import tempfile
from collections.abc import Sequence
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
    written_burst_us: float
    """With both, of pods that come in a burst."""
    unwritten_burst_us: float
    """With writes that are answered at once, of pods that come in a burst."""
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
    written_burst_us: tuple[float, float, float]
    unwritten_burst_us: tuple[float, float, float]
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
            spread([one.written_burst_us for one in runs]),
            spread([one.unwritten_burst_us for one in runs]),
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
            "in a burst": cell(self.written_burst_us),
            "in a burst without HTTP writes": cell(self.unwritten_burst_us),
            "decoding and steps alone": cell(self.steps_us),
        }


def run(workload: Workload) -> Cost:
    """Raises `WrongResult`, or `DemoFailed` if the daemon did not start or end well."""

    def us(per_second: float, *, with_writes: bool) -> float:
        return 1e6 * uvloop.run(_measure(workload, per_second, with_writes=with_writes)) / workload.pods

    return Cost(
        workload.pods,
        written_us=us(PODS_PER_SECOND, with_writes=True),
        unwritten_us=us(PODS_PER_SECOND, with_writes=False),
        written_burst_us=us(math.inf, with_writes=True),
        unwritten_burst_us=us(math.inf, with_writes=False),
        steps_us=cpu_us_per_pod(workload),
    )


async def _measure(workload: Workload, per_second: float, *, with_writes: bool) -> float:
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory:
        async with fake_world(workload, Path(directory)) as world:
            world.make_nodes(workload)
            async with contextlib.AsyncExitStack() as stack:
                if with_writes:
                    process = stack.enter_context(world.shim())
                else:
                    process = await stack.enter_async_context(world.shim_without_writes())
                return await _cpu_seconds(workload, per_second, world, process, with_writes=with_writes)


async def _cpu_seconds(
    workload: Workload, per_second: float, world: FakeWorld, shim: Measured, *, with_writes: bool
) -> float:
    first = Workload("warm-up", workload.nodes, workload.pods + WARM_UP_PODS)
    for number in range(workload.pods, first.pods):
        world.make_pod(first, number)
    await world.until("warm-up", lambda: len(world.bound) == WARM_UP_PODS, shim, RUN_SECONDS_MAX)
    if with_writes:
        await world.until("events", lambda: world.scheduled_events() >= WARM_UP_PODS, shim, RUN_SECONDS_MAX)
    await asyncio.sleep(SETTLE_SECONDS)
    before_s = cpu_seconds_of(shim.pid)
    making = asyncio.create_task(world.make_pods(workload, per_second))
    await world.until(workload.name, lambda: len(world.bound) == first.pods, shim, RUN_SECONDS_MAX)
    if with_writes:
        await world.until("events", lambda: world.scheduled_events() >= first.pods, shim, RUN_SECONDS_MAX)
    await making
    await asyncio.sleep(SETTLE_SECONDS)
    return cpu_seconds_of(shim.pid) - before_s
