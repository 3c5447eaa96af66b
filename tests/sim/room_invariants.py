"""What is promised about room that is kept and about those who end for others, judged fact by fact.

Each fact is held against what was so when it was said: the books before it, and the state around its step, in which
queues, nodes and asks are as they were, since a cycle changes none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from schedulerd.core.language.commands import Command, RingAlarms
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views.values import ApplicationView, AskView, PartitionView, ResourceManagerView
from tests.sim import (
    node_order_invariants,
    own_room_invariants,
    preemption_invariants,
    reservation_invariants,
    room_observations,
)
from tests.sim.booked_entitlement import BookedEntitlement
from tests.sim.clusters import TIMEOUTS
from tests.sim.moment import Moment
from tests.sim.room_books import PartitionName, Place, RoomBook, RoomBooks
from tests.sim.storms import Storms


class RoomInvariants:
    """Judges the steps of one history in their order."""

    def __init__(self, scheduler: Scheduler, sights: Counter[str]) -> None:
        """Counts in `sights` what it comes across."""
        self._scheduler = scheduler
        self._sights = sights
        self._searching: dict[PartitionName, tuple[str, str]] = {}
        """For whom it was being looked whether others end, at the end of the step before."""
        self._books = RoomBooks()
        self._before: dict[PartitionName, PartitionView] = {}
        self._rests = reservation_invariants.Rests()
        self._attempts = preemption_invariants.Attempts()
        self._storms = Storms(sights)

    def after(
        self, now_ns: int, command: Command, facts: Sequence[Fact], state: Sequence[ResourceManagerView]
    ) -> list[str]:
        """What was done against the rules in this step, as sentences; `state` is the one after it."""
        self._books.hear(command)
        shown = {(rm.rm_id, partition.name): partition for rm in state for partition in rm.partitions}
        served = {rm.rm_id for rm in state if rm.state == ResourceManagerState.RUNNING}
        found: list[str] = []
        for at, fact in enumerate(facts):
            name = getattr(fact, "rm_id", ""), getattr(fact, "partition", "")
            book, partition, before = self._books.by_name.get(name), shown.get(name), self._before.get(name)
            if book is not None and partition is not None and before is not None:
                around = before, partition, facts[:at], facts[at + 1 :]
                moment = Moment(now_ns, command, self._books, book, *around, self._searching.get(name))
                texts = [*reservation_invariants.judged(moment, fact), *preemption_invariants.judged(moment, fact)]
                texts += [*self._rests.judged(moment, fact), *self._attempts.judged(moment, fact)]
                texts += [*self._storms.judged(moment, fact), *node_order_invariants.judged(moment, fact)]
                self._sights.update(room_observations.seen(moment, fact))
                found += [f"{type(fact).__name__} {_subject(fact)}: {text}" for text in texts]
            self._rests.hear(fact, now_ns)
            self._attempts.hear(fact)
            self._storms.hear(fact)
            self._books.take(fact, now_ns)
        for name, partition in shown.items():
            book = self._books.by_name.setdefault(name, RoomBook())
            if isinstance(command, RingAlarms):
                found += _overdue(book, now_ns)
            if partition is not self._before.get(name):
                book.forget_queues({queue.path for queue in partition.queues})
                found += reservation_invariants.differences(book, partition)
            # while a resource manager is away no cycle looks at its reservations, and they keep nobody out
            if book.reservations and partition.rm_id in served and not self._scheduler.wants_cycle():
                found += own_room_invariants.useless(book, partition)
        self._before = shown
        self._searching = {
            (one.rm_id, one.name): (search.application.application_id, search.ask.key)
            for one in self._scheduler.cluster.partitions()
            if (search := one.retry_timers.search) is not None
        }
        return found

    def denied(self, state: Sequence[ResourceManagerView]) -> list[str]:
        """Asks for which nobody ends, though somebody could; to be asked when there was time for all of them."""
        return [
            f"{item.application_id}|{ask.allocation_key} waits for room that others would make: {best}"
            for rm in state
            for partition in rm.partitions
            for item in partition.applications
            for ask in item.asks
            if (best := self._unused_right(partition, item, ask)) is not None
        ]

    def _unused_right(self, partition: PartitionView, item: ApplicationView, ask: AskView) -> tuple[object, int] | None:
        """cost and number of those who could end for it."""
        book = self._books.by_name[partition.rm_id, partition.name]
        if not preemption_invariants.may_preempt(self._books, partition, item, ask):
            return None
        if not own_room_invariants.fits_for_certain(book, item):
            return None
        owns: Sequence[Place | None] = [None]
        if ask.required_node:
            places = book.places(item.application_id, ask.allocation_key)
            owns = [one for one in places if not book.reservations[one].victims]
        elif ask.pending <= book.entitled_reservations(item.application_id, ask.allocation_key):
            return None
        for own in owns:
            entitlement = BookedEntitlement(self._books, book, partition, ask, item.queue, own)
            best = entitlement.best(partition.nodes) if entitlement.is_entitled else None
            if best is not None and best[1]:
                return best
        return None


def _overdue(book: RoomBook, now_ns: int) -> list[str]:
    """Room that should not be kept any longer; while somebody is still to go for it, it is kept for as long again."""
    found = []
    for place, kept in book.reservations.items():
        if kept.until_ns <= now_ns:
            if kept.victims:
                kept.until_ns = now_ns + TIMEOUTS.reservation_ns
            else:
                found.append(f"room is kept for {place} since {now_ns - kept.since_ns} ns")
    return found


def _subject(fact: Fact) -> str:
    names = ("application_id", "allocation_key", "node_id", "uuid")
    return "|".join(str(getattr(fact, name)) for name in names if hasattr(fact, name))
