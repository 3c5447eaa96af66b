"""Who follows the events as they happen, and whether they are recorded at all.

Each follower is a position in the ring: one that is slow costs nothing and holds up nobody, and learns how many events
were gone before it came to them. While events are not tracked and nobody follows, the scheduler's owner does not even
call the recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from schedulerd.core.facts import Fact
from schedulerd.daemon.owner import Owner
from schedulerd.instant import Instant
from schedulerd.observe.event_record import Event, EventCounts
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing


class Batch(NamedTuple):
    """What a follower has not seen yet, or the first part of it."""

    events: list[Event]
    lost: int
    """How many events, of any resource manager, were gone before these."""
    more: bool
    """Whether there may be more to take at once."""


class Follower:
    """Sees every event from a position on. A context: it is one of the feed's followers inside."""

    def __init__(self, feed: EventFeed, start: int | None, rm_id: str, wake: Callable[[], None]) -> None:
        self.wake = wake
        self._feed = feed
        self._start = start
        self._next_id = 0
        self._rm_id = rm_id

    def __enter__(self) -> Self:
        self._feed.enter(self)
        self._next_id = self._feed.ring.next_id if self._start is None else self._start
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._feed.leave(self)

    def take(self, count: int) -> Batch:
        """Up to `count` events; it is called anew when `wake` was, or at once if there is more."""
        ring = self._feed.ring
        found = ring.read(self._next_id, count, self._rm_id)
        self._next_id = found.next_id
        self._feed.lost += found.lost
        return Batch(found.events, found.lost, more=found.next_id < ring.next_id)


class EventFeed:
    """The events of this run of the daemon, and those who follow them."""

    def __init__(self, recorder: EventRecorder, owner: Owner, *, tracked: bool) -> None:
        """`tracked`: events are recorded even if nobody follows them."""
        self.tracked = tracked
        self.closed = False
        self.lost = 0
        """Events that followers were too slow for, counted for each."""
        self._recorder = recorder
        self._owner = owner
        self._followers: dict[Follower, None] = {}
        if tracked:
            owner.attach(self.observe)

    @property
    def ring(self) -> EventRing:
        return self._recorder.ring

    @property
    def counts(self) -> EventCounts:
        return EventCounts(
            self.ring.next_id, self._recorder.suppressed, self.lost, self.ring.failed, len(self._followers)
        )

    def follow(self, wake: Callable[[], None], rm_id: str = "", start: int | None = None) -> Follower:
        """A follower from the id `start` on (None: from now on); with `rm_id` of one resource manager's events.

        `wake` is called when there may be something to take, also if it is nothing of that resource manager.
        """
        return Follower(self, start, rm_id, wake)

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """A sink of the owner."""
        before = self.ring.next_id
        self._recorder.observe(facts, now)
        if self.ring.next_id != before:
            self._wake_all()

    def close(self) -> None:
        """There will be no more events: who follows should say goodbye."""
        self.closed = True
        self._wake_all()

    def enter(self, follower: Follower) -> None:
        if not self.tracked and not self._followers:
            self._owner.attach(self.observe)
        self._followers[follower] = None

    def leave(self, follower: Follower) -> None:
        del self._followers[follower]
        if not self.tracked and not self._followers:
            self._owner.detach(self.observe)

    def _wake_all(self) -> None:
        for follower in self._followers:
            follower.wake()
