"""How much ran, waited and was used in the last hours: a fixed number of samples of each partition, in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import Cluster
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.ui.counts import Counts, count, full_of
from schedulerd.instant import Instant

SAMPLE_SECONDS = 15.0
SAMPLES_MAX = 1_440
"""Samples that are kept of a partition: 6 hours."""
PARTITIONS_MAX = 16
"""Partitions with a history; there is none of further ones."""
QUEUES_SEEN_MAX = 500
"""Queues of a partition of which it is noted since when they are full."""
_RESOURCES_MAX = 3


class Sample(NamedTuple):
    """One moment."""

    at_ns: int
    """Wall time, in nanoseconds since the Unix epoch."""
    running: int
    waiting: int
    placements: int
    """Allocations made so far."""
    shares: tuple[int, ...]
    """Used share of the first resources (`Counts.resources`), in thousandths."""


class UseHistory:
    """Samples all partitions every `SAMPLE_SECONDS`."""

    def __init__(
        self,
        cluster: Cluster,
        queries: StateQueries,
        placements: Callable[[str, str], int],
        clocks: Callable[[], Instant],
    ) -> None:
        """`placements` returns the number of allocations made so far in a partition, given with its RM."""
        self._cluster, self._queries, self._clocks = cluster, queries, clocks
        self._placements = placements
        self._samples: dict[tuple[str, str], deque[Sample]] = {}
        self._full: dict[tuple[str, str], dict[str, int]] = {}

    def of(self, partition: Partition) -> list[Sample]:
        """Oldest first."""
        return list(self._samples.get((partition.rm_id, partition.name), ()))

    def full_since(self, partition: Partition) -> dict[str, int]:
        """Wall times since which queues, by path, have been full at every sample."""
        return self._full.get((partition.rm_id, partition.name), {})

    def per_minute(self, partition: Partition) -> float | None:
        """Allocations per minute in about the last minute; None if that is not known yet."""
        samples = self._samples.get((partition.rm_id, partition.name))
        now = self._clocks()
        if not samples:
            return None
        since = samples[max(0, len(samples) - 4)]
        minutes = (now.wall_ns - since.at_ns) / 60e9
        return (
            max(0, self._placements(partition.rm_id, partition.name) - since.placements) / minutes
            if minutes > 0.05
            else None
        )

    def add(self, partition: Partition, found: Counts) -> None:
        """Adds a sample."""
        key = partition.rm_id, partition.name
        if key not in self._samples and len(self._samples) >= PARTITIONS_MAX:
            return
        shares = tuple(
            found.used.get(name, 0) * 1_000 // found.total[name] for name in found.resources[:_RESOURCES_MAX]
        )
        sample = Sample(self._clocks().wall_ns, found.running, found.waiting, self._placements(*key), shares)
        self._samples.setdefault(key, deque(maxlen=SAMPLES_MAX)).append(sample)
        since = self._full.get(key, {})
        self._full[key] = {
            one.path: since.get(one.path, sample.at_ns)
            for one in islice(partition.root.walk(), QUEUES_SEEN_MAX)
            if full_of(one, found.total)
        }

    async def sample(self) -> None:
        """Adds a sample of each partition, and forgets partitions that are gone."""
        partitions = list(self._cluster.partitions())
        known = {(one.rm_id, one.name) for one in partitions}
        for key in [key for key in self._samples if key not in known]:
            del self._samples[key], self._full[key]
        for one in partitions[:PARTITIONS_MAX]:
            self.add(one, await self._queries.finish(count(one)))

    async def run(self) -> None:
        """Samples for ever."""
        while True:
            await self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)
