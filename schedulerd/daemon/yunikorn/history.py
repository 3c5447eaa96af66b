"""How many applications ran, and how many containers were there, minute by minute."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from schedulerd.core.state.step_context import Cluster
from schedulerd.instant import Instant

SAMPLE_SECONDS = 60.0
SAMPLES_MAX = 1_440
"""Minutes that are kept: a day."""


class Sample(NamedTuple):
    """One minute."""

    at_ns: int
    """Wall time, in nanoseconds since the Unix epoch."""
    applications: int
    """Running applications of all partitions."""
    containers: int
    """Allocations of all partitions."""


class History:
    """Samples the state once a minute, the first time a minute after the start."""

    def __init__(self, cluster: Cluster, clocks: Callable[[], Instant]) -> None:
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        """Oldest first."""
        self._cluster = cluster
        self._clocks = clocks

    def sample(self) -> None:
        """Adds a sample of this moment."""
        partitions = list(self._cluster.partitions())
        applications = sum(one.root.running for one in partitions)
        containers = sum(len(one.allocations) for one in partitions)
        self.samples.append(Sample(self._clocks().wall_ns, applications, containers))

    async def run(self) -> None:
        """Samples for ever."""
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            self.sample()
