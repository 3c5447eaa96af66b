"""The alarms of preemption: of queues above a lowered max. What is reserved for it is checked by `reservations`."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.state.partition import Partition


def alarms(partition: Partition) -> Iterator[Alarm | None]:
    yield from [queue.above_max_alarm for queue in partition.root.subtree()]
