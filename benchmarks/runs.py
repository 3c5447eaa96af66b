"""Repeats a workload, each run in a process of its own, so that no run inherits the memory and caches of another.

Each way of running imports only what it uses, because the memory of that process is part of a result.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from benchmarks.full_clusters import FullCluster
from benchmarks.measurement import Decisions, Measurement
from benchmarks.workload import Workload

if TYPE_CHECKING:
    from benchmarks.recovery import Recovery, Rounds

ResultT = TypeVar("ResultT")


def repeat(measure: Callable[[], ResultT], times: int) -> Iterator[ResultT]:
    """One measurement after the other. Raises what the run raised."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn, max_tasks_per_child=1) as processes:
        for _ in range(times):
            yield processes.submit(measure).result()


def in_process(build: Callable[[], Workload]) -> Measurement:
    from benchmarks.in_process import run

    return run(build())


def over_grpc(build: Callable[[], Workload]) -> Measurement:
    from benchmarks.over_grpc import run

    return run(build())


def decisions(build: Callable[[], FullCluster]) -> Decisions:
    from benchmarks.decisions import run

    return run(build())


def recovery(build: Callable[[], Recovery]) -> Rounds:
    from benchmarks.recovery import run

    return run(build())


def decisions_over_grpc(build: Callable[[], FullCluster]) -> Decisions:
    from benchmarks.decisions_over_grpc import run

    return run(build())
