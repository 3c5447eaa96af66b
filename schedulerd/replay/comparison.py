"""Three worlds side by side: what was recorded, the same demand under the files of the record, and under a new one.

The second shows what the model of the demand changes all by itself; what the third has beyond that is the new file's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import count

from schedulerd.config import matches
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.specs import ConfigurationText, PartitionSpec, Timeouts
from schedulerd.instant import Instant
from schedulerd.journal import Header
from schedulerd.replay.demand import Demand
from schedulerd.replay.derivation import Derivation
from schedulerd.replay.moment import time_text
from schedulerd.replay.names import QueueName
from schedulerd.replay.outcome import Measure, Outcome
from schedulerd.replay.playback import Playback
from schedulerd.replay.what_if import WhatIf

RECORDED, SAME, NEW = "recorded", "same file", "new file"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of the same demand in several worlds."""

    worlds: Mapping[str, Outcome]
    """By name: `RECORDED`, `SAME` and `NEW`, in this order."""
    start: Instant
    """When the journal was begun."""
    end_ns: int
    """When its last command came, in monotonic time; 0 if there was none."""

    def queues(self) -> list[QueueName]:
        """Those of all worlds."""
        return sorted({queue for outcome in self.worlds.values() for queue in outcome.queues})

    def queue_text(self, queue: QueueName) -> str:
        """Its path, with whose it is only where there are several to tell apart."""
        several = len({(one.rm_id, one.partition) for one in self.queues()}) > 1
        return f"[{queue.rm_id}]{queue.partition} {queue.path}" if several else queue.path

    def newly_rejected(self) -> dict[tuple[str, str], str]:
        """Applications, with the reason, that only the new file rejects."""
        return _without(self.worlds[NEW].rejected, self.worlds[RECORDED].rejected)

    def no_longer_rejected(self) -> dict[tuple[str, str], str]:
        """Applications, with the reason, that only the record rejects. What they would have run is not known."""
        return _without(self.worlds[RECORDED].rejected, self.worlds[NEW].rejected)

    def as_json(self) -> dict[str, object]:
        """Everything, as plain values; shares are of 1, durations in nanoseconds.

        Times are wall time by the clocks as they stood at the start, so that all worlds have one clock.
        """
        return {
            "start": time_text(self.start.wall_ns),
            "end": time_text(self.start.wall_of(self.end_ns)) if self.end_ns else None,
            "worlds": {
                name: {
                    "queues": [{**queue._asdict(), **asdict(one)} for queue, one in outcome.queues.items()],
                    "rejected": [
                        {"rm_id": rm_id, "application_id": application_id, "reason": reason}
                        for (rm_id, application_id), reason in outcome.rejected.items()
                    ],
                    "rejected_asks": outcome.rejected_asks,
                    "last": time_text(self.start.wall_of(outcome.last_ns)) if outcome.last_ns else None,
                }
                for name, outcome in self.worlds.items()
            },
        }


class ResourceManagerNotChosen(ValueError):
    """It is not clear, or not possible, whose queue file is to be another one; the message says why."""


def compare(
    playback: Playback,
    header: Header,
    partitions: tuple[PartitionSpec, ...],
    configuration: ConfigurationText,
    rm_id: str = "",
) -> Comparison:
    """Plays the record, and what would have been had this been the queue file of `rm_id`.

    '' stands for all resource managers, as long as they had the same file. Raises `ResourceManagerNotChosen`, and what
    the playback raises.
    """
    derivation = Derivation(playback.scheduler, header.placements_max)
    recorded = Measure()
    for step in playback:
        recorded.observe(step)
        derivation.observe(step)
    demand = derivation.demand()
    other = demand.under(_chosen(demand, rm_id), partitions, configuration)
    worlds = {
        RECORDED: recorded.outcome(),
        SAME: outcome_of(demand, header.timeouts),
        NEW: outcome_of(other, header.timeouts),
    }
    return Comparison(worlds, header.started, demand.end_ns)


def outcome_of(demand: Demand, timeouts: Timeouts) -> Outcome:
    """What comes of a demand by itself."""
    numbers = count(1)
    measure = Measure(demand.end_ns)
    for step in WhatIf(demand, Scheduler(timeouts, lambda: f"what-if-{next(numbers)}", matches)):
        measure.observe(step)
    return measure.outcome()


def _chosen(demand: Demand, rm_id: str) -> Iterable[str]:
    files = demand.configurations()
    if rm_id:
        if rm_id not in files:
            raise ResourceManagerNotChosen(f"no resource manager {rm_id!r} registered; {_known(files)}")
        return [rm_id]
    if len({file.checksum for file in files.values()}) > 1:
        raise ResourceManagerNotChosen(f"the resource managers had different queue files; {_known(files)}")
    return list(files)


def _known(files: Mapping[str, ConfigurationText]) -> str:
    return "there are " + ", ".join(f"{rm_id!r} ({file.source})" for rm_id, file in sorted(files.items()))


def _without(some: Mapping[tuple[str, str], str], others: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    return {name: reason for name, reason in some.items() if name not in others}
