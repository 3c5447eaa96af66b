"""An owner that is not running, whose turns the test takes, with a feed of its events."""

from __future__ import annotations

import itertools

from schedulerd.core.language.commands import Command, NewApplication, UpdateApplications
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.daemon.runtime.event_feed import EventFeed, Follower
from schedulerd.daemon.runtime.owner import Owner, _Entry
from schedulerd.instant import Instant
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from tests.instants import at
from tests.unit.daemon.recording import NoStopwatch, RecordingScheduler, registration

REGISTRATION_EVENTS = 3
"""The resource manager, its root and its leaf."""
APPLICATION_EVENTS = 2
"""That it is new, and in which queue."""


class EventWorld:
    """`happen` makes `APPLICATION_EVENTS` events for each application."""

    def __init__(self, *, tracked: bool = True, events_max: int = 1_000) -> None:
        self.scheduler = RecordingScheduler()
        self.owner = Owner(
            self.scheduler, [], NoStopwatch(), inbox_max=10, placements_max=1, clocks=lambda: at(SECOND_NS)
        )
        self.recorder = CountingRecorder(EventRing(events_max, "this-run"))
        self.feed = EventFeed(self.recorder, self.owner, tracked=tracked)
        self._numbers = itertools.count()

    def step(self, command: Command) -> None:
        """One turn with one command."""
        self.owner._turn(_Entry(command, None))

    def register(self, rm_id: str = "rm") -> None:
        self.step(registration(rm_id))

    def happen(self, applications: int = 1, rm_id: str = "rm") -> None:
        new = [NewApplication(f"app-{next(self._numbers)}", "root.a", user="u") for _ in range(applications)]
        self.step(UpdateApplications(rm_id, new))


class CountingRecorder(EventRecorder):
    """Knows how often it was called."""

    def __init__(self, ring: EventRing) -> None:
        super().__init__(ring)
        self.calls = 0

    def observe(self, facts: list[Fact], now: Instant) -> None:  # type: ignore[override]  # all there is
        self.calls += 1
        super().observe(facts, now)


def taken(follower: Follower, count: int = 1_000) -> list[tuple[int, str]]:
    """Id and object of what the follower has not seen yet."""
    return [(event.event_id, event.record.object_id) for event in follower.take(count)]
