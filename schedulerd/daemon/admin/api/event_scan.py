"""Finds the events of a filter in the ring, in slices, and within a bound on the events that one search looks at.

The filter looks at records: most events are of others, and the model of an event costs more than the look.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, Protocol

from schedulerd.observe.event_record import Event
from schedulerd.observe.event_ring import EventCursor, EventRing

SCANNED_MAX = 20_000
"""Events that one search looks at; then it ends with a place to go on, however few events it found."""
_BATCH = 32
"""Events between two stops."""


class Filter(Protocol):
    """Which events are wanted; equal filters have equal keys."""

    rm: str
    """Only events of this resource manager; '' for all."""

    @property
    def key(self) -> tuple[str, ...]: ...

    def wants(self, one: Event) -> bool: ...


class Found(NamedTuple):
    """The result of a search."""

    events: list[Event]
    """In the order in which they happened."""
    edge: int
    """Where another search goes on: forwards the first event that was not looked at, backwards the last one that
    was."""
    lost: int = 0
    """How many events of the search are no longer there."""


def forwards(ring: EventRing, wanted: Filter, start: int, end: int, count: int) -> Generator[None, None, Found]:
    """The first `count` events from `start` on, before `end`."""
    events: list[Event] = []
    stop = min(end, ring.next_id, max(start, ring.lowest_id) + SCANNED_MAX)
    cursor = EventCursor(ring, start, wanted.rm, wanted.wants, stop)
    while not cursor.is_at_end and len(events) < count:
        events += cursor.take(count - len(events), _BATCH)
        yield
    return Found(events, cursor.at, cursor.lost)


def backwards(ring: EventRing, wanted: Filter, end: int, count: int) -> Generator[None, None, Found]:
    """The last `count` events before `end`."""
    batches: list[list[Event]] = []
    at, missing = end, count
    stop = max(ring.lowest_id, end - SCANNED_MAX)
    while at > stop and missing:
        begin = max(stop, at - _BATCH)
        last = EventCursor(ring, begin, wanted.rm, wanted.wants, at).take(at - begin)[-missing:]
        missing -= len(last)
        at = begin if missing else last[0].event_id
        batches.append(last)
        yield
    return Found([one for batch in reversed(batches) for one in batch], at)
