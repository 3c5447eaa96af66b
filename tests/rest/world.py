"""The REST application on a real core whose time passes only when it is told to."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request

from schedulerd.config import (
    HttpAccess,
    QueueFile,
    Settings,
    ShownConfiguration,
    load_queue_file,
    matches,
    show_queue_file,
)
from schedulerd.core.language.commands import Command, ConnectResourceManager, RegisterResourceManager, RunCycle
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.specs import SECOND_NS, ConfigurationText, Timeouts
from schedulerd.core.scheduler import Scheduler
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.http import Sources, build_app, metrics_endpoint
from schedulerd.daemon.admin.http_access import Gate
from schedulerd.daemon.admin.scrapes import Scrapes
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.runtime.event_feed import EventFeed
from schedulerd.daemon.runtime.logs import LogLevel
from schedulerd.daemon.yunikorn.app import PeerApi
from schedulerd.daemon.yunikorn.call import RestSources
from schedulerd.daemon.yunikorn.configurations import Configurations
from schedulerd.daemon.yunikorn.health import RecentFailures
from schedulerd.daemon.yunikorn.history import SAMPLE_SECONDS, History
from schedulerd.daemon.yunikorn.pacing import Pacer
from schedulerd.daemon.yunikorn.resource_histories import ResourceHistories
from schedulerd.instant import Instant
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from tests.sim.virtual_time import VirtualTime

START_NS = 1_000 * SECOND_NS
EPOCH_NS = 1_795_000_000 * SECOND_NS
"""The wall time of time 0."""

CYCLES_MAX = 1_000
"""More cycles than this without an end mean that the core never has enough."""

PEER_DEFAULT = """
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: '*'
"""
"""The queue file of the daemon, for a resource manager that sends none: the one that the peer has built in."""

Sink = Callable[[Sequence[Fact], Instant], None]


async def load(text: str, source: str) -> QueueFile:
    """As the daemon's process for texts."""
    return load_queue_file(text, source)


async def show(text: str, _source: str) -> ShownConfiguration:
    """As the daemon's process for texts."""
    return show_queue_file(text)


@dataclass
class _Sinks:
    """Stands where the owner stands for the event feed: it knows who hears the facts."""

    all: list[Sink] = field(default_factory=list)

    def attach(self, sink: Sink) -> None:
        self.all.append(sink)

    def detach(self, sink: Sink) -> None:
        self.all.remove(sink)


def open_settings(**given: Any) -> Settings:
    """With these settings every client is answered."""
    return Settings(http_rest=HttpAccess.ON, http_rest_operate=HttpAccess.ON, **given)


class World:
    """A scheduler with its REST application."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        timeouts: Timeouts | None = None,
        event_tracking: bool = True,
        pacer: Pacer | None = None,
        validate: Callable[[str, str], Awaitable[QueueFile]] = load,
        check_access: Callable[[str, Request], None] | None = None,
    ) -> None:
        self.settings = settings or open_settings()
        uuids = count(1)
        self.scheduler = Scheduler(timeouts or Timeouts(), lambda: str(uuid.UUID(int=next(uuids))), matches)
        self.time = VirtualTime(self.scheduler, START_NS)
        self.sinks = _Sinks()
        ring = EventRing(self.settings.event_ring_max, str(uuid.UUID(int=7)))
        self.feed = EventFeed(EventRecorder(ring), self.sinks, tracked=event_tracking)  # type: ignore[arg-type]
        self.history = History(self.scheduler.cluster, self.clocks)
        self._next_sample_ns = START_NS + int(SAMPLE_SECONDS * SECOND_NS)
        gate = Gate(self.settings, Access(self.settings, None))
        self.registry = CollectorRegistry()
        scrapes = Scrapes(lambda _pace: iter([self.registry.collect()]))
        self.rest = RestSources(
            cluster=self.scheduler.cluster,
            clocks=self.clocks,
            started_at_ns=EPOCH_NS + START_NS,
            events=self.feed,
            history=self.history,
            failures=RecentFailures(self.clocks),
            resource_histories=ResourceHistories(self.scheduler.cluster),
            configurations=Configurations(show),
            validate=validate,
            metrics=metrics_endpoint(scrapes),
            log_level=LogLevel().get,
            check_access=check_access or gate.check,
            items_max=self.settings.rest_items_max,
            cors_origins=self.settings.cors_origins,
        )
        self.sinks.attach(self.rest.observe)
        self.pacer = pacer or Pacer(clock=lambda: 0.0)
        self.app = self._app(gate, scrapes)

    def _app(self, gate: Gate, scrapes: Scrapes) -> Starlette:
        return build_app(
            Sources(
                scrapes=scrapes,
                log_level=LogLevel(),
                loop_age_seconds=lambda: 0.0,
                not_ready_because=lambda: "",
                gate=gate,
                journal_state=lambda: "",
                looks=StateQueries(lambda _query: {}),
                further=[PeerApi(self.rest, self.pacer)],
                web_root=self.settings.web_root,
            )
        )

    def clocks(self) -> Instant:
        return Instant(self.time.now_ns, EPOCH_NS + self.time.now_ns)

    def step(self, command: Command) -> list[Fact]:
        """One command, and cycles until there is nothing more to do. Returns all facts."""
        facts = self._hear(self.time.step(command))
        for _ in range(CYCLES_MAX):
            if not self.scheduler.wants_cycle():
                return facts
            facts += self._hear(self.time.step(RunCycle(allocations_max=100)))
        raise AssertionError("the core wants cycles for ever")

    def sleep(self, duration_ns: int) -> list[Fact]:
        """Time passes; alarms ring, cycles run, and the history is sampled."""
        end_ns = self.time.now_ns + duration_ns
        facts: list[Fact] = []
        while True:
            until_ns = min(end_ns, self._next_sample_ns, self.scheduler.next_deadline_ns() or end_ns)
            for found in self.time.sleep(max(0, until_ns - self.time.now_ns)):
                facts += self._hear(found)
                for _ in range(CYCLES_MAX):
                    if not self.scheduler.wants_cycle():
                        break
                    facts += self._hear(self.time.step(RunCycle(allocations_max=100)))
            if self.time.now_ns >= self._next_sample_ns:
                self.history.sample()
                self._next_sample_ns += int(SAMPLE_SECONDS * SECOND_NS)
            if self.time.now_ns >= end_ns:
                return facts

    def register(self, config: str = "", rm_id: str = "rm-golden", **fields: object) -> list[Fact]:
        """A resource manager registers with a queue file, and its stream is open."""
        text = config or PEER_DEFAULT
        read = load_queue_file(text)
        configuration = ConfigurationText(text=text, source="config", checksum=read.checksum)
        command = RegisterResourceManager(rm_id, read.partitions, configuration=configuration, **fields)  # type: ignore[arg-type]
        return [*self.step(command), *self.step(ConnectResourceManager(rm_id))]

    def _hear(self, facts: list[Fact]) -> list[Fact]:
        for sink in self.sinks.all:
            sink(facts, self.clocks())
        return facts
