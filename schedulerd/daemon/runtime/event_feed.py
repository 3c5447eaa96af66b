"""The event feed: followers that read events as they happen, and whether events are recorded at all.

Each follower is a cursor in the ring. A slow follower costs nothing and delays no other; it learns how many events
were dropped before it read them. While events are not tracked and there is no follower, the owner does not even call
the recorder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from schedulerd.core.language.facts.fact import Fact
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.instant import Instant
from schedulerd.observe.event_record import Event, EventCounts
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventCursor, EventRing


class Follower(EventCursor):
    """Reads every event from a position on. A context manager: the feed knows the follower inside the context."""

    def __init__(self, feed: EventFeed, rm_id: str, start: int | None, woken: asyncio.Event) -> None:
        super().__init__(feed.ring, 0 if start is None else start, rm_id)
        self.woken = woken
        """Set when there may be events to read, even if all of them are of other resource managers."""
        self._feed = feed
        self._is_new = start is None

    def __enter__(self) -> Self:
        self._feed.enter(self)
        if self._is_new:
            self.at = self._feed.ring.next_id
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._feed.leave(self)

    def take(self, count: int, batch: int = 0) -> list[Event]:
        """As any cursor. The feed counts what was lost."""
        lost = self.lost
        events = super().take(count, batch)
        self._feed.lost += self.lost - lost
        return events

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits until there are events to read or the feed is closed; False if there were none for so many seconds."""
        self.woken.clear()
        if self.is_at_end and not self._feed.closed:
            try:
                await asyncio.wait_for(self.woken.wait(), seconds)
            except TimeoutError:
                return False
        return True


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

    def follow(self, rm_id: str = "", start: int | None = None, woken: asyncio.Event | None = None) -> Follower:
        """Returns a follower from event id `start` on (None: from now on); with `rm_id`, of one resource manager only.

        Several followers may share `woken`, the event by which they are told that there is something to read.
        """
        return Follower(self, rm_id, start, woken or asyncio.Event())

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
            follower.woken.set()
