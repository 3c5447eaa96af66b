"""All that is made of facts and state for the outside: whatever can be accepted can also be told.

`Outside` hears every step, and makes of it what a daemon would: responses of both dialects, events of all versions,
metrics, log lines, entries of a journal, and the dumps. It raises what any of them raises.
"""

from __future__ import annotations

import json
from typing import Any

from structlog.testing import capture_logs

from schedulerd.core.autoscaling.summary import outstanding_requests
from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.reading import INT64_MAX, INT64_MIN
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.views import view
from schedulerd.daemon.admin.debug_state import STATE_JSON
from schedulerd.journal.encode import entry_text, facts_text
from schedulerd.observe.event_messages import admin_event, message_of_2021, message_of_2022
from schedulerd.observe.event_recorder import EventRecorder
from schedulerd.observe.event_ring import EventRing
from schedulerd.observe.log_events import FactLog
from schedulerd.observe.metrics import Metrics
from schedulerd.wire import autoscaling
from schedulerd.wire.dialect import Dialect
from schedulerd.wire.encode import ResponseEncoder
from tests.instants import at
from tests.unit.core.builders import RM
from tests.unit.observe import scrape

EVENTS_MAX = 10_000


class Outside:
    """A scheduler, and everything that is told of it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.now_ns = 1_000
        self.metrics = Metrics()
        self.metrics.watch_state(scheduler.cluster.resource_managers.values)
        self.log = FactLog()
        self.events = EventRecorder(EventRing(EVENTS_MAX, "run"))
        self._told = 0

    def step(self, command: Command) -> list[Fact]:
        """One step, of which everything is told."""
        entry_text(at(self.now_ns), command).encode("ascii")
        facts = self.scheduler.step(self.now_ns, command)
        for error in self.scheduler.failed_checks:
            raise error
        assert violations(self.scheduler) == []
        facts_text(facts).encode()
        for dialect in Dialect:
            encoder = ResponseEncoder()
            encoder.set_dialect(RM, dialect)
            encoder.add(facts, at(self.now_ns))
            encoder.drain()
        with capture_logs() as lines:
            self.log.observe(facts, at(self.now_ns))
            self.events.observe(facts, at(self.now_ns))
        assert [line for line in lines if "exc_info" in line] == []
        self.metrics.observe(facts, at(self.now_ns))
        self._read_events()
        return facts

    def look(self) -> Any:
        """The dumps and a scrape; the state as any reader of JSON gets it, in which every number is an int64."""
        scrape.text(self.metrics)
        for partition in self.scheduler.cluster.partitions():
            requests = outstanding_requests(partition)
            autoscaling.metrics((partition.name, one) for one in requests).SerializeToString()
        return json.loads("".join(STATE_JSON.pieces(view.resource_managers(self.scheduler.cluster))), parse_int=_int64)

    def _read_events(self) -> None:
        ring = self.events.ring
        while self._told < ring.next_id:
            found = ring.read(self._told, EVENTS_MAX)
            self._told = found.next_id
            for event in found.events:
                admin_event(event).SerializeToString()
                message_of_2022(event).SerializeToString()
                of_2021 = message_of_2021(event)
                if of_2021 is not None:
                    of_2021.SerializeToString()
        assert ring.failed == 0


def _int64(text: str) -> int:
    number = int(text)
    assert INT64_MIN <= number <= INT64_MAX, f"{text} is no int64"
    return number
