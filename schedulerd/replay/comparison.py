"""Compares three runs: the record, the same demand under the recorded queue files, and under a new file.

The second run shows what the demand model changes by itself; further differences of the third are due to the new file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import count

from schedulerd.config import matches
from schedulerd.core.language.specs import ConfigurationText, PartitionSpec, Timeouts
from schedulerd.core.scheduler import Scheduler
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
    """Outcomes of the same demand in several runs."""

    worlds: Mapping[str, Outcome]
    """By name: `RECORDED`, `SAME` and `NEW`, in this order."""
    start: Instant
    """When the journal was begun."""
    end_ns: int
    """When its last command came, in monotonic time; 0 if there was none."""

    def queues(self) -> list[QueueName]:
        """The queues of all runs."""
        return sorted({queue for outcome in self.worlds.values() for queue in outcome.queues})

    def queue_text(self, queue: QueueName) -> str:
        """The path of a queue, with its resource manager and partition if there are several."""
        several = len({(one.rm_id, one.partition) for one in self.queues()}) > 1
        return f"[{queue.rm_id}]{queue.partition} {queue.path}" if several else queue.path

    def newly_rejected(self) -> dict[tuple[str, str], str]:
        """Applications that only the new file rejects, with the reason."""
        return _without(self.worlds[NEW].rejected, self.worlds[RECORDED].rejected)

    def no_longer_rejected(self) -> dict[tuple[str, str], str]:
        """Applications that only the record rejects, with the reason. Their work is unknown."""
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
    """It is not clear for which resource manager the queue file is; the message says why."""


def compare(
    playback: Playback,
    header: Header,
    partitions: tuple[PartitionSpec, ...],
    configuration: ConfigurationText,
    rm_id: str = "",
) -> Comparison:
    """Plays the record, and its demand with the given queue file for `rm_id`.

    '' as `rm_id` stands for all resource managers, if they had the same file. Raises `ResourceManagerNotChosen`, and
    the errors of the playback.
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
    """The outcome of a demand in a run of its own."""
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
