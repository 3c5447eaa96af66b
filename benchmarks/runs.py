"""Repeats a workload, each run in a process of its own, so that no run inherits the memory and caches of another."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

from benchmarks.measurement import Measurement
from benchmarks.workloads import Workload


def repeat(build: Callable[[], Workload], times: int, *, over_grpc: bool) -> Iterator[Measurement]:
    """One measurement after the other. Raises what the run raised."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn, max_tasks_per_child=1) as processes:
        for _ in range(times):
            yield processes.submit(_measure, build, over_grpc).result()


def _measure(build: Callable[[], Workload], over_grpc: bool) -> Measurement:
    # Only what is used is imported, because the memory of this process is part of a result.
    if over_grpc:
        from benchmarks.over_grpc import run
    else:
        from benchmarks.in_process import run
    return run(build())
