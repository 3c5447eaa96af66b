"""The scheduler of a running daemon, with what drives it and what hears its facts."""

from __future__ import annotations

import asyncio

from schedulerd.config import Settings, matches
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.runtime.journaling import begin_journal
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.runtime.probe import LoopProbe
from schedulerd.daemon.sessions.rm_sessions import RmSessions
from schedulerd.daemon.transport.callbacks import Callbacks
from schedulerd.daemon.transport.event_courier import EventCourier
from schedulerd.daemon.transport.grpc_server import unnoticed_seconds
from schedulerd.daemon.transport.update_stream import IN_DOUBT_SECONDS
from schedulerd.daemon.yunikorn.metrics import YunikornFamilies
from schedulerd.ids import random_seed, uuid_source
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from schedulerd.observe.log_events import FactLog
from schedulerd.observe.metrics import Metrics
from schedulerd.wire.encode import ResponseEncoder


class Scheduling:
    """The parts that are there with or without servers. Construct it on its loop."""

    def __init__(self, settings: Settings) -> None:
        """Begins the journal. The caller runs `owner`, `probe` and `courier`, and ends the journal."""
        seed = random_seed()
        self.metrics = Metrics(settings.metrics_series_max, YunikornFamilies if settings.yunikorn_metrics else None)
        self.scheduler = Scheduler(settings.timeouts(), uuid_source(seed), matches)
        self.resource_managers = self.scheduler.cluster.resource_managers
        self.journal = begin_journal(settings, seed, self.metrics)
        self.probe = LoopProbe(self._note_loop_lag)
        # RM sessions and owner need each other: facts go to the sessions, commands about streams to the owner.
        self.sessions = RmSessions(
            ResponseEncoder(),
            lambda command: self.owner.post(command),
            outbox_bytes_max=settings.outbox_max_bytes,
            in_doubt_seconds=_in_doubt_seconds(settings),
        )
        call_later = asyncio.get_running_loop().call_later
        self.callbacks = Callbacks(
            self.sessions, lambda command: self.owner.post(command), self.metrics.callbacks, call_later
        )
        self.owner = Owner(
            self.scheduler,
            [self.sessions.deliver, self.callbacks.deliver, self.metrics.observe, FactLog().observe],
            self.metrics,
            inbox_max=settings.inbox_max,
            placements_max=settings.cycle_allocations_max,
            recorder=self.journal,
        )
        self.events = _event_feed(settings, self.owner, self.metrics)
        self.courier = EventCourier(self.events, self.callbacks)
        self.metrics.watch_depth("inbox", lambda: self.owner.depth)
        self.metrics.watch_depth("outbox", lambda: self.sessions.depth)
        self.metrics.watch_state(self.resource_managers.values)

    def is_idle(self) -> bool:
        """Whether nothing waits to be done."""
        return not self.owner.depth and not self.scheduler.wants_cycle()

    def _note_loop_lag(self, seconds: float) -> None:
        self.metrics.loop_lag_seconds(seconds)
        self.owner.was_held(seconds)


def _in_doubt_seconds(settings: Settings) -> float | None:
    """Responses sent within this time before a lost connection was noticed are in doubt; None: losses are ignored."""
    return unnoticed_seconds(settings) + IN_DOUBT_SECONDS if settings.resync_after_lost_connection else None


def _event_feed(settings: Settings, owner: Owner, metrics: Metrics) -> EventFeed:
    ring = EventRing(settings.event_ring_max, instance_id=uuid_source(random_seed())())
    feed = EventFeed(EventRecorder(ring), owner, tracked=settings.event_tracking)
    metrics.watch_events(lambda: feed.counts)
    return feed
