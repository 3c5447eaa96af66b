"""Binds the same pods with each rival in turn, each on an API server of its own.

The clock runs from just before the first pod is made to when the watch has told the last binding. Pods are made
meanwhile, as fast as the API server takes them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import uvloop

from benchmarks.kubernetes.cluster import APPLICATION, JSON, Workload
from benchmarks.kubernetes.processes import cpu_seconds_of
from benchmarks.kubernetes.rivals import RIVALS, SCHEDULER
from benchmarks.kubernetes.user import User
from benchmarks.measurement import WrongResult
from schedulerd.kubernetes.cluster.gangs.declaration import INVALID_REASON
from tests.kubernetes.contract.real_server import RealServer, assets

START_SECONDS_MAX = 30.0
RUN_SECONDS_MAX = 120.0
WARM_UP_PODS = 20
SILENCE_SECONDS = 1.5
"""After an event with no further one it was the last."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One rival in one run."""

    pods: int
    seconds: float
    """To the last binding."""
    event_seconds: float
    """To the last event."""
    events: int
    """That say where a pod was bound."""
    cpu_seconds: float
    """Of all its processes, to the last binding."""
    event_cpu_seconds: float
    """To the last event, and the silence after it."""
    all_cpu_seconds: float
    """Of the API server, its store and the user too, to the last binding: what a busy machine has to compute."""


@dataclass(frozen=True, slots=True)
class RivalSummary:
    workload: str
    rival: str
    runs: int
    pods: int
    per_second_median: float
    per_second_min: float
    per_second_max: float
    event_per_second_median: float
    """Pods per second if the clock stops at the last event."""
    events: int
    """Least of all runs."""
    cpu_us: float
    """Per pod with its event, median."""
    all_cpu_us: float
    """Of all processes per binding, median."""
    share: float
    """The rate of schedulerd as a part of this one's in the same run, median."""
    all_cpu_share: float
    """The same, computed from the CPU of all processes: as it would be on a machine with nothing else to do."""

    def row(self) -> dict[str, str]:
        rates = f"{self.per_second_median:,.0f} ({self.per_second_min:,.0f}, {self.per_second_max:,.0f})"
        return {
            "workload": self.workload,
            "scheduler": self.rival,
            "pods/s to the last binding (min, max)": rates,
            "pods/s to the last event": f"{self.event_per_second_median:,.0f}",
            "events": f"{self.events:,}",
            "CPU us each": f"{self.cpu_us:,.0f}",
            "with API server and user": f"{self.all_cpu_us:,.0f}",
            "schedulerd / this": f"{self.share:.2f}",
            "by CPU": f"{self.all_cpu_share:.2f}",
        }


def summaries(workload: str, runs: Sequence[Mapping[str, Bound]]) -> list[RivalSummary]:
    found = []
    for name in RIVALS:
        own = [run[name] for run in runs]
        rates = [one.pods / one.seconds for one in own]
        found.append(
            RivalSummary(
                workload=workload,
                rival=name,
                runs=len(runs),
                pods=own[0].pods,
                per_second_median=median(rates),
                per_second_min=min(rates),
                per_second_max=max(rates),
                event_per_second_median=median(one.pods / one.event_seconds for one in own),
                events=min(one.events for one in own),
                cpu_us=median(1e6 * one.event_cpu_seconds / one.pods for one in own),
                all_cpu_us=median(1e6 * one.all_cpu_seconds / one.pods for one in own),
                all_cpu_share=median(run[name].all_cpu_seconds / run["schedulerd"].all_cpu_seconds for run in runs),
                share=median(run[name].seconds / run["schedulerd"].seconds for run in runs),
            )
        )
    return found


def run(workload: Workload) -> Mapping[str, Bound]:
    """By rival. Raises `WrongResult`, or `DemoFailed` if the daemon did not start or end well."""
    folder = assets()
    if folder is None:
        raise WrongResult("KUBEBUILDER_ASSETS names no folder with a real API server")
    return {name: uvloop.run(_measure(workload, name, folder)) for name in RIVALS}


async def _measure(workload: Workload, name: str, assets: Path) -> Bound:
    with tempfile.TemporaryDirectory(prefix="schedulerd-benchmark-") as directory, RealServer(assets) as server:
        async with User(server.url, server.token) as user:
            await user.make_nodes(workload.node(number) for number in range(workload.nodes))
            with RIVALS[name](workload, server, Path(directory), assets) as rival:
                # The first pods wait until it has started, and open its connections.
                await user.make_pods(_warm_up_pods(workload))
                await user.until_bound(WARM_UP_PODS, rival.check, START_SECONDS_MAX)
                await user.last_event_s(SILENCE_SECONDS)

                def cpu_s() -> float:
                    return sum(map(cpu_seconds_of, rival.pids))

                made = list(workload.pods_of(SCHEDULER))
                all_before_s, cpu_before_s, started_s = _all_cpu_s(), cpu_s(), time.perf_counter()
                making = asyncio.create_task(user.make_pods(made))
                await user.until_bound(WARM_UP_PODS + workload.pods, rival.check, RUN_SECONDS_MAX)
                seconds, cpu_seconds = time.perf_counter() - started_s, cpu_s() - cpu_before_s
                all_cpu_seconds = _all_cpu_s() - all_before_s
                await making
                last_s = await user.last_event_s(SILENCE_SECONDS)
                event_cpu_seconds = cpu_s() - cpu_before_s
                events = await user.events()
            _check(workload, name, user, events)
    return Bound(
        pods=workload.pods,
        seconds=seconds,
        event_seconds=last_s - started_s,
        events=events["Scheduled"] - WARM_UP_PODS,
        cpu_seconds=cpu_seconds,
        event_cpu_seconds=event_cpu_seconds,
        all_cpu_seconds=all_cpu_seconds,
    )


def _all_cpu_s() -> float:
    """Of this process, and of all that it has started."""
    return sum(cpu_seconds_of(one.pid) for one in [psutil.Process(), *psutil.Process().children(recursive=True)])


def _warm_up_pods(workload: Workload) -> list[JSON]:
    """They have applications of their own: those of the workload are to be added as gangs where they are gangs."""
    pods = list(Workload("warm-up", workload.nodes, WARM_UP_PODS).pods_of(SCHEDULER))
    for pod in pods:
        about = pod["metadata"]
        about["name"] = f"warm-{about['name']}"
        about["labels"][APPLICATION] = f"warm-{about['labels'][APPLICATION]}"
    return pods


def _check(workload: Workload, name: str, user: User, events: Counter[str]) -> None:
    if ordinary := events[INVALID_REASON]:
        raise WrongResult(f"{workload.name}: {name} took {ordinary} pods of gangs for ordinary ones")
    most = max(Counter(user.bound.values()).values())
    if most > 110:
        raise WrongResult(f"{workload.name}: {name} bound {most} pods to one node")
