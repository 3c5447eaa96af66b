"""The event feed: followers that read events as they happen, and whether events are recorded at all.

Each follower is a position in the ring. A slow follower costs nothing and delays no other; it learns how many events
were dropped before it read them. While events are not tracked and there is no follower, the owner does not even call
the recorder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from schedulerd.core.language.facts.fact import Fact
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.instant import Instant
from schedulerd.observe.event_record import Event, EventCounts
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing


class Batch(NamedTuple):
    """The next events of a follower."""

    events: list[Event]
    lost: int
    """Number of events, of any resource manager, that were dropped before these were read."""
    more: bool
    """Whether more events may be available at once."""


class Follower:
    """Reads every event from a position on. A context manager: the feed knows the follower inside the context."""

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
        """Returns up to `count` events. Call it again after a call of `wake`, or at once if the batch says `more`."""
        ring = self._feed.ring
        found = ring.read(self._next_id, count, self._rm_id)
        self._next_id = found.next_id
        self._feed.lost += found.lost
        return Batch(found.events, found.lost, more=found.next_id < ring.next_id)


class EventFeed:
    """The events of this run of the daemon, and their followers."""

    def __init__(self, recorder: EventRecorder, owner: Owner, *, tracked: bool) -> None:
        """`tracked`: events are recorded even without a follower."""
        self.tracked = tracked
        self.closed = False
        self.lost = 0
        """Number of events that followers were too slow to read, summed over all followers."""
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
        """Returns a follower from event id `start` on (None: from now on); with `rm_id`, of one resource manager only.

        `wake` is called when there may be events to read, even if all of them are of other resource managers.
        """
        return Follower(self, start, rm_id, wake)

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """A sink of the owner: records events, and wakes the followers if there are new ones."""
        before = self.ring.next_id
        self._recorder.observe(facts, now)
        if self.ring.next_id != before:
            self._wake_all()

    def close(self) -> None:
        """Tells all followers that there will be no more events, so that their streams end."""
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
