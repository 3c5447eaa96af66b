"""Preemption must not feed on itself: how many ended for those that were placed, and whether queues fight back.

A queue has a right to no more than it is guaranteed, and victims come from what others use above that. So what it got
because others ended is not taken from it again by those who lost it, unless it has grown beyond its right meanwhile:
without that condition two queues could end each other's work for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from schedulerd.core.language.commands import RingAlarms, RunCycle
from schedulerd.core.language.facts.configuration import ConfigurationUpdated
from schedulerd.core.language.facts.fact import Allocated, Fact, Released, ResourceManagerChanged
from schedulerd.core.language.facts.preemption import Preempted
from schedulerd.core.language.facts.reservations import ReservationEnd, ReservationEnded
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import MINUTE_NS
from tests.sim.moment import Moment
from tests.sim.room_books import PartitionName, Place, RoomBook

WINDOW_NS = 5 * MINUTE_NS
"""So long a queue must not fight back."""
VICTIMS_PER_PLACED_MAX = 3
"""Over a whole history; those of asks that were not placed after all count as well, unless that is the RM's doing."""
VICTIMS_SPARE = 12
"""So many more, as a history may be short."""
_NOBODY = ""
"""Lost something under another queue file, and may have a right to it by this one."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What was placed after others ended for it."""

    at_ns: int
    from_leaves: frozenset[str]
    used: dict[str, Resources]
    """What its queues used then, by path."""


class Storms:
    """Judges one history, and counts what it sees."""

    def __init__(self, sights: Counter[str]) -> None:
        self._sights = sights
        self._victims = 0
        """Those of asks that were placed since, or gave up."""
        self._placed = 0
        """Allocations for which others ended."""
        self._paid: dict[tuple[PartitionName, Place], list[str]] = {}
        """For whom others ended, and the leaf of each of them, until they are placed or give up."""
        self._placing: tuple[Place, frozenset[str]] | None = None
        """Whose placement is to be said next."""
        self._gains: dict[tuple[PartitionName, str], Gain] = {}
        """By UUID."""

    def judged(self, moment: Moment, fact: Fact) -> Iterator[str]:
        """What is too much with this fact, as sentences."""
        match fact:
            case Preempted(victims=victims) if victims:
                yield from self._fought_back(moment, fact)
                leaves = self._paid.setdefault((moment.name, Place.of(fact)), [])
                leaves += [leaf for leaf, _ in victims]
            case ReservationEnded():
                self._settled(moment, fact)
                if self._victims > VICTIMS_PER_PLACED_MAX * self._placed + VICTIMS_SPARE:
                    yield f"{self._victims} ended so that {self._placed} could be placed"
            case Allocated() if self._placing is not None and self._placing[0].is_of(fact):
                used = {path: moment.book.staying(path).plus(fact.resources) for path in _way(fact.queue)}
                self._gains[moment.name, fact.uuid] = Gain(moment.now_ns, self._placing[1], used)
                self._placing = None
            case Released():
                self._gains.pop((moment.name, fact.uuid), None)

    def hear(self, fact: Fact) -> None:
        """Another queue file, or another life of the resource manager, begins a new story."""
        if not isinstance(fact, ConfigurationUpdated | ResourceManagerChanged):
            return
        self._gains = {key: gain for key, gain in self._gains.items() if key[0][0] != fact.rm_id}
        for key in [key for key in self._paid if key[0][0] == fact.rm_id]:
            leaves = self._paid.pop(key)
            if isinstance(fact, ConfigurationUpdated):
                self._paid[key] = [_NOBODY] * len(leaves)

    def _settled(self, moment: Moment, fact: ReservationEnded) -> None:
        leaves = self._paid.pop((moment.name, Place.of(fact)), [])
        count = len(leaves)
        if isinstance(moment.command, RunCycle | RingAlarms):  # else its RM took the ask back, or the node away
            self._victims += count
        if count and fact.end is ReservationEnd.PLACED:
            self._placed += 1
            self._placing = Place.of(fact), frozenset(leaves)
            self._sights[f"placed after {min(count, 4)}{' or more' * (count > 3)} preempted for it"] += 1
        elif count:
            self._sights[f"victims in vain: {fact.end.value}"] += count

    def _fought_back(self, moment: Moment, fact: Preempted) -> Iterator[str]:
        ask = moment.ask(fact.application_id, fact.allocation_key)
        if ask is None or ask.required_node:
            return
        for leaf, uuid in fact.victims:
            gain = self._gains.get((moment.name, uuid))
            if gain is None or fact.queue not in gain.from_leaves or gain.at_ns + WINDOW_NS < moment.now_ns:
                continue
            if _has_grown(moment.book, gain, leaf, fact.queue):
                self._sights["fought back, as the other has grown"] += 1
            else:
                yield f"{uuid}, for which {fact.queue} lost something {moment.now_ns - gain.at_ns} ns ago, is to end"


def _has_grown(book: RoomBook, gain: Gain, leaf: str, other: str) -> bool:
    """Whether a queue on the leaf's way, up to where it meets that of the other, uses more of anything than then."""
    apart = [path for path in _way(leaf) if path not in _way(other)]
    return any(
        amount > gain.used.get(path, Resources())[name] for path in apart for name, amount in book.staying(path).items()
    )


def _way(path: str) -> list[str]:
    names = path.split(".")
    return [".".join(names[:length]) for length in range(1, len(names) + 1)]
