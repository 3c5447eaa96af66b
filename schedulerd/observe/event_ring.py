"""The last events, numbered. A reader keeps only a number, so a slow reader costs no memory.

An entry is an observed fact with a function that makes its records when they are read, as most events are never read.
An entry that stands for several events takes several places in the ring.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import structlog

from schedulerd.instant import Instant
from schedulerd.observe.event_record import Event, Record

LOOKED_AT_MAX = 2_000
"""Events that one call of `read` goes through, wanted or not: about a millisecond."""

Expand: TypeAlias = Callable[[Any], tuple[Record, ...]]
"""Makes the records of what was kept of a fact."""

_Entry: TypeAlias = tuple[int, Instant, str, str, Expand, Any]
"""Id of its first event, when it was observed, resource manager, partition, and how to make the records of what."""


log = structlog.stdlib.get_logger(__name__)


class Slice(NamedTuple):
    """Result of `read`, with the id at which to continue."""

    events: list[Event]
    next_id: int
    """`EventRing.next_id` if there was no more to read."""
    lost: int
    """How many of the events that were asked for are no longer there."""


class EventRing:
    """At most `events_max` events, of all resource managers; the oldest make room for new ones."""

    def __init__(self, events_max: int, instance_id: str) -> None:
        """`instance_id` tells the ids of this ring from those of another one, as they all begin with 0."""
        self.instance_id = instance_id
        self.next_id = 0
        """Of the event that will be added next; so many were added so far."""
        self.failed = 0
        """Events that could not be shown to a reader, which are bugs; counted for each reader."""
        self._failed_last = -1
        self._events_max = events_max
        self._slots: list[_Entry | None] = [None] * events_max

    @property
    def lowest_id(self) -> int:
        """Of the oldest event that is there; `next_id` if none is."""
        return max(0, self.next_id - self._events_max)

    def add(self, now: Instant, rm_id: str, partition: str, count: int, expand: Expand, what: object) -> None:
        """Adds `count` events, which are the records that `expand(what)` makes; `what` must not change afterwards."""
        first_id = self.next_id
        entry = (first_id, now, rm_id, partition, expand, what)
        slots, events_max = self._slots, self._events_max
        for event_id in range(first_id, first_id + count):
            slots[event_id % events_max] = entry
        self.next_id = first_id + count

    def count_failed(self, event_id: int, error: Exception) -> None:
        """Notes that an event could not be recorded or shown. The log has a line for each event, the first time."""
        self.failed += 1
        if event_id > self._failed_last:
            self._failed_last = event_id
            log.error("event left out: it cannot be shown", event_id=event_id, exc_info=error)

    def back(self, start: int, count: int, rm_id: str = "") -> tuple[int, int]:
        """Goes back from the id `start` over up to `count` events; with `rm_id` only one resource manager's count.

        Returns where that is, and how many it were: fewer if there are no more, or after `LOOKED_AT_MAX` events.
        """
        end = max(self.lowest_id, start - LOOKED_AT_MAX)
        at, passed = start, 0
        while at > end and passed < count:
            at -= 1
            entry = self._slots[at % self._events_max]
            assert entry is not None
            passed += rm_id in ("", entry[2])
        return at, passed

    def read(self, start: int, count: int, rm_id: str = "", end: int | None = None) -> Slice:
        """Up to `count` events from the id `start` on, before `end` if it is given; with `rm_id` only those of one
        resource manager.

        Looks at `LOOKED_AT_MAX` events at most, so there may be more even if fewer than `count` were found.
        """
        at = min(max(start, self.lowest_id), self.next_id)
        lost = max(0, self.lowest_id - start)
        stop = min(self.next_id if end is None else end, self.next_id, at + LOOKED_AT_MAX)
        events: list[Event] = []
        while at < stop and len(events) < count:
            entry = self._slots[at % self._events_max]
            assert entry is not None
            first_id, observed, whose, partition, expand, what = entry
            try:
                records = expand(what) if rm_id in ("", whose) else ()
            except Exception as error:  # noqa: BLE001  # one event is no reason to end what all events go through
                self.count_failed(at, error)
                records = ()
            room = min(count - len(events), stop - at)
            for record in records[at - first_id : at - first_id + room]:
                at_ns = observed.wall_ns if record.at_ns is None else observed.wall_of(record.at_ns)
                events.append(Event(at, whose, partition, at_ns, record))
                at += 1
            at += not records
        return Slice(events, at, lost)


class EventCursor:
    """A reader's place in the ring, and which events it wants. Costs nothing while it does not read."""

    def __init__(
        self,
        ring: EventRing,
        start: int,
        rm_id: str = "",
        wants: Callable[[Event], bool] = lambda _one: True,
        end: int | None = None,
    ) -> None:
        """From the id `start` on, before `end` if it is given; with `rm_id` only events of one resource manager."""
        self.at = start
        """Id of the next event to read."""
        self.lost = 0
        """Events, of any resource manager, that were dropped before it read them. A reader that has told of them sets
        this to 0."""
        self._ring, self._rm_id, self._wants, self._end = ring, rm_id, wants, end

    @property
    def is_at_end(self) -> bool:
        """Whether there is nothing more to read now."""
        return self.at >= (self._ring.next_id if self._end is None else self._end)

    def take(self, count: int, batch: int = 0) -> list[Event]:
        """Up to `count` of the next events that it wants. One call goes through `batch` events, of that resource
        manager, or else `count`, and `LOOKED_AT_MAX` at most: there may be more although fewer were found."""
        found = self._ring.read(self.at, batch or count, self._rm_id, self._end)
        self.at = found.next_id
        self.lost += found.lost
        wanted = [one for one in found.events if self._wants(one)]
        if len(wanted) > count:
            self.at = wanted[count].event_id
        return wanted[:count]
