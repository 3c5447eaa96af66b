"""What queues may use, read from the queue tree at a scrape: quotas change with a queue file and with tags, and no fact
has their amounts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.partition import Partition
from schedulerd.observe import families
from schedulerd.observe.exposition import Pace
from schedulerd.observe.holdings import QueueKey
from schedulerd.observe.series import Series


class QueueQuota(NamedTuple):
    """The quota of one queue at one moment. Amounts are in the units of the scheduler interface."""

    key: QueueKey
    guaranteed: Mapping[str, int]
    max: Mapping[str, int]
    """A resource that is not named is unlimited."""
    max_applications: int
    """0 if unlimited."""
    leaving: Mapping[str, int]
    """What allocations in it and below use that are being released."""


class QuotaWalk:
    """Reads the quotas of all queues of a partition, in slices, a queue before those below it.

    Between two slices queues may be added and removed: what is reached later is read as it is then.
    """

    def __init__(self, partition: Partition) -> None:
        self.found: list[QueueQuota] = []
        self._place = partition.rm_id, partition.name
        self._queues = _walk(partition.root)

    def advance(self, queues_max: int) -> bool:
        """Reads up to `queues_max` further queues; False when none are left."""
        before = len(self.found)
        for queue in islice(self._queues, queues_max):
            # Quotas are replaced as a whole, and never changed in place; `leaving` is a ledger.
            quota = queue.guaranteed, queue.max, queue.max_applications, dict(queue.leaving)
            self.found.append(QueueQuota((*self._place, queue.path), *quota))
        return len(self.found) - before == queues_max


def _walk(root: Queue) -> Iterator[Queue]:
    waiting = [root]
    while waiting:
        queue = waiting.pop()
        yield queue
        waiting.extend(reversed(queue.children.values()))


def quota_families(quotas: Iterable[QueueQuota], series: Series, pace: Pace) -> Iterator[Metric]:
    guaranteed = (((*one.key, name), amount) for one in quotas for name, amount in pace(one.guaranteed.items()))
    yield series.gauges(families.GUARANTEED, guaranteed)
    most = (((*one.key, name), amount) for one in quotas for name, amount in pace(one.max.items()))
    yield series.gauges(families.MAX, most)
    applications = ((one.key, one.max_applications) for one in pace(quotas) if one.max_applications)
    yield series.gauges(families.MAX_APPLICATIONS, applications)
