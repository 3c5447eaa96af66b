"""Workloads at several sizes: how the cost of a placement grows when one thing grows and all others stay as they are.

Every ask is pending before the first is placed, which is the worst case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from benchmarks.workload import Workload
from benchmarks.workloads import a, b, c, d, m, u

Build = Callable[[], Workload]

PENDING = (10_000, 50_000, 200_000)
"""Asks of which always the first 10,000 are placed, on the same nodes."""


def _sizes() -> Iterator[tuple[str, Build]]:
    for build, nodes, asks in ((u, 1_000, 10_000), (a, 2_000, 50_000), (c, 5_000, 4_000), (d, 1_000, 10_000)):
        for nodes_times, asks_times in ((1, 1), (1, 2), (1, 4), (2, 1), (4, 1)):
            name = f"{build.__name__}: {nodes * nodes_times:,} nodes, {asks * asks_times:,} asks"
            yield name, partial(build, nodes * nodes_times, asks * asks_times)
    for pending in PENDING:
        yield f"a: {pending:,} pending", partial(_some_of, pending)
    for queues in (2, 4, 8, 100, 1_000):
        yield f"b: {queues:,} queues", partial(b, queues)
    for applications in (500, 1_000, 2_000):
        yield f"m: {applications:,} applications", partial(m, 2_000, applications_count=applications)


def _some_of(pending: int) -> Workload:
    return replace(a(2_000, pending), node_size=a(2_000, PENDING[-1]).node_size, placed_max=PENDING[0])


def _pending_first(build: Build) -> Workload:
    return replace(build(), pending_first=True)


GROWTH: Mapping[str, Build] = {name: partial(_pending_first, build) for name, build in _sizes()}
"""By name, in the order of the table."""
