"""Counts of decisions for asks that find no room: preemptions and reservations.

A count of a queue includes the queues below it, and is added on the whole path to the root: a sum at scrape time would
fall when a leaf is removed, and a counter must not fall. The counts of a queue are dropped when nothing is known in it
any more; those of the root stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from schedulerd.core.language.facts import preemption as p
from schedulerd.core.language.facts import reservations as r
from schedulerd.core.language.facts.fact import ReleaseRequested
from schedulerd.observe import families
from schedulerd.observe.histogram import Histogram
from schedulerd.observe.holdings import Counts, QueueKey

_DECIDED = "decided"
"""Outcome of an attempt that is not refused."""
_SECONDS_PER_NS = 1e-9


class ReservationKind(StrEnum):
    ENTITLED = "entitled"
    """Allocations are preempted for the ask, or it has a required node."""
    AGING = "aging"
    """The ask has just waited for long."""


class QuotaOutcome(StrEnum):
    """Outcome of a check of a queue that was above its max for longer than allowed."""

    DECIDED = _DECIDED
    NO_VICTIMS = "no_victims"


@dataclass(slots=True)
class QueuePreemptions:
    """Counts of one queue and all below it."""

    preemptions: int = 0
    victims: int = 0
    quota_preemptions: dict[QuotaOutcome, int] = field(default_factory=lambda: dict.fromkeys(QuotaOutcome, 0))


class PreemptionTally:
    """A part of `Tally`, which gives it the facts of `handlers` and tells it what is gone."""

    def __init__(self, counters: Mapping[families.Family, Counts]) -> None:
        self.held: dict[tuple[str, str, str], int] = {}
        """Reservations by resource manager, partition and kind."""
        self.queues: defaultdict[QueueKey, QueuePreemptions] = defaultdict(QueuePreemptions)
        """Queues with preemptions or reservations."""
        self.room_made = Histogram(families.PREEMPTION_ROOM_MADE.bounds_seconds)
        self._attempts = counters[families.PREEMPTION_ATTEMPTS]
        self._made = counters[families.RESERVATIONS_MADE]
        self._ended = counters[families.RESERVATIONS_ENDED]
        self.handlers: dict[type, Callable[[Any], None]] = {
            r.Reserved: self._reserved,
            r.ReservationEnded: self._reservation_ended,
            p.Preempted: self._preempted,
            p.QuotaPreempted: self._quota_preempted,
            p.RoomMade: self._room_made,
            p.PreemptionRefused: self._refused,
        }

    def expect(self, rm_id: str, partition: str) -> None:
        """Starts the counts of a partition at 0, so that a rate sees their first event too."""
        for outcome in (_DECIDED, *p.PreemptionRefusal):
            self._attempts.setdefault((rm_id, partition, outcome), 0)
        for kind in ReservationKind:
            self.held.setdefault((rm_id, partition, kind), 0)
            self._made.setdefault((rm_id, partition, kind), 0)
            for end in r.ReservationEnd:
                self._ended.setdefault((rm_id, partition, kind, end), 0)

    def count_victim(self, fact: ReleaseRequested) -> None:
        """An allocation is asked to end, for an ask or because of a quota."""
        for one in self._way_to_root(fact.rm_id, fact.partition, fact.queue):
            one.victims += 1

    def forget_queue(self, key: QueueKey, known: Collection[QueueKey]) -> None:
        """The queue is gone, and with it every parent below the root in which none of the `known` queues is."""
        if self.queues.pop(key, None) is None:
            return
        rm_id, partition, path = key
        others = [other for *place, other in known if place == [rm_id, partition]]
        for above in list(_upwards(path))[1:-1]:
            if any(other.startswith(f"{above}.") for other in others):
                return
            self.queues.pop((rm_id, partition, above), None)

    def forget_state(self, rm_id: str) -> None:
        """The resource manager has no queues, nodes and reservations any longer."""
        for key in [key for key in self.queues if key[0] == rm_id and key[2] != "root"]:
            del self.queues[key]
        for held in [held for held in self.held if held[0] == rm_id]:
            del self.held[held]

    def forget_resource_manager(self, rm_id: str) -> None:
        """It stopped long ago."""
        for key in [key for key in self.queues if key[0] == rm_id]:
            del self.queues[key]

    def _reserved(self, fact: r.Reserved) -> None:
        key = (fact.rm_id, fact.partition, _kind(fact.entitled))
        self.held[key] += 1
        self._made[key] += 1

    def _reservation_ended(self, fact: r.ReservationEnded) -> None:
        key = (fact.rm_id, fact.partition, _kind(fact.entitled))
        self.held[key] -= 1
        self._ended[*key, fact.end] += 1

    def _preempted(self, fact: p.Preempted) -> None:
        self._attempts[fact.rm_id, fact.partition, _DECIDED] += 1
        if fact.victims:
            for one in self._way_to_root(fact.rm_id, fact.partition, fact.queue):
                one.preemptions += 1

    def _quota_preempted(self, fact: p.QuotaPreempted) -> None:
        outcome = QuotaOutcome.DECIDED if fact.victims else QuotaOutcome.NO_VICTIMS
        for one in self._way_to_root(fact.rm_id, fact.partition, fact.queue):
            one.quota_preemptions[outcome] += 1

    def _room_made(self, fact: p.RoomMade) -> None:
        self.room_made.observe(fact.waited_ns * _SECONDS_PER_NS)

    def _refused(self, fact: p.PreemptionRefused) -> None:
        self._attempts[fact.rm_id, fact.partition, fact.refusal] += 1

    def _way_to_root(self, rm_id: str, partition: str, path: str) -> Iterator[QueuePreemptions]:
        for one in _upwards(path):
            yield self.queues[rm_id, partition, one]


def _kind(entitled: bool) -> ReservationKind:
    return ReservationKind.ENTITLED if entitled else ReservationKind.AGING


def _upwards(path: str) -> Iterator[str]:
    """The path of the queue and of each above it, the root last."""
    while path:
        yield path
        path = path.rpartition(".")[0]
