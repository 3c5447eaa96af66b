"""Facts as log lines: what an operator wants to read, at the level at which it is worth reading.

What happens once per ask is for `debug` alone and costs one dictionary look-up when `debug` is off. A resource manager
can cause thousands of rejections, or of changes of nodes, in a second: of each kind only the first ones in a second are
written and the rest are counted, so that logging cannot become the daemon's main work.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import structlog

from schedulerd.core.language.facts import configuration as conf
from schedulerd.core.language.facts import fact as f
from schedulerd.core.language.facts import gangs as g
from schedulerd.core.language.facts import predicates as c
from schedulerd.core.language.facts import preemption as p
from schedulerd.core.language.facts import queues as q
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.facts.reservations import ReservationEnded, Reserved
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingStateChanged
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnded
from schedulerd.core.language.lifecycles import ApplicationState, GangState, ResourceManagerState
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.instant import Instant

IMPACT_LINES_MAX = 50
"""How many lines about what a new queue file changes are written; what harms comes first."""

COMPLAINTS_MAX = 20
"""How many lines about mistakes of one kind by one resource manager are written per second."""

NEWS_MAX = 100
"""How many lines of another kind about one resource manager are written per second. A line takes some 0.15 ms."""

_ON_THE_WAY = frozenset(
    {
        ApplicationState.NEW,
        ApplicationState.STARTING,
        ApplicationState.RUNNING,
        ApplicationState.COMPLETING,
        ApplicationState.EXPIRED,
    }
)
"""States through which every application passes: that it was accepted, and how it ended, is news. Small applications
come by the hundreds in a second, and a line takes as long as some placements."""


@dataclass(frozen=True, slots=True)
class _Line:
    """How a fact is written: by which logger, as what, and at which level."""

    logger: str
    event: str
    level: int


_LOGGER = "core.scheduler"
_RM, _NODE, _APPLICATION = "core.scheduler.rm", "core.scheduler.node", "core.scheduler.application"
_CONFIGURATION, _QUEUE = "core.scheduler.configuration", "core.scheduler.queue"
_GANG, _PREEMPTION = "core.scheduler.gang", "core.scheduler.preemption"
_PREDICATE = "core.scheduler.predicate"
_ASK, _ALLOCATION = "core.scheduler.ask", "core.scheduler.allocation"

_NEWS = {
    f.ResourceManagerChanged: _Line(_RM, "resource manager changed", logging.INFO),
    f.NodeChanged: _Line(_NODE, "node changed", logging.INFO),
    f.ApplicationChanged: _Line(_APPLICATION, "application changed", logging.INFO),
    g.GangCompleted: _Line(_GANG, "gang complete", logging.INFO),
    g.GangTimedOut: _Line(_GANG, "gang timed out", logging.INFO),
    g.GangGaveWay: _Line(_GANG, "gang gave way", logging.WARNING),
    g.GangStateChanged: _Line(_GANG, "gang changed", logging.DEBUG),
    g.GangBelowMin: _Line(_GANG, "gang below min", logging.WARNING),
    NodeRecommended: _Line(_NODE, "node recommendation", logging.INFO),
    p.Preempted: _Line(_PREEMPTION, "preemption decided", logging.INFO),
    p.QuotaPreempted: _Line(_PREEMPTION, "quota preemption", logging.INFO),
    conf.ConfigurationAccepted: _Line(_CONFIGURATION, "impact of the new queue file", logging.INFO),
    conf.ConfigurationUpdated: _Line(_CONFIGURATION, "queue file reloaded", logging.INFO),
    conf.ConfigurationRejected: _Line(_CONFIGURATION, "queue file not reloaded: nothing changed", logging.ERROR),
}
_COMPLAINTS = {
    f.NodeRejected: _Line(_NODE, "node rejected", logging.WARNING),
    f.ApplicationRejected: _Line(_APPLICATION, "application rejected", logging.WARNING),
    f.AskRejected: _Line(_ASK, "ask rejected", logging.WARNING),
    g.SwapRefused: _Line(_GANG, "placeholder too small", logging.WARNING),
    f.ItemIgnored: _Line(_LOGGER, "item ignored", logging.WARNING),
    q.QueueNameUnused: _Line(_APPLICATION, "queue name unused", logging.INFO),
    q.TagIgnored: _Line(_APPLICATION, "tag ignored", logging.WARNING),
    f.CheckFailed: _Line(_LOGGER, "check failed", logging.ERROR),
    AllocationUnclaimed: _Line(_ALLOCATION, "allocation unclaimed", logging.INFO),
    f.ReleaseIgnored: _Line(_ALLOCATION, "release ignored", logging.INFO),
}
_DETAILS = {
    f.NodeAccepted: _Line(_NODE, "node accepted", logging.DEBUG),
    f.ApplicationAccepted: _Line(_APPLICATION, "application accepted", logging.DEBUG),
    f.ApplicationForgotten: _Line(_APPLICATION, "application forgotten", logging.DEBUG),
    f.AskAdded: _Line(_ASK, "ask added", logging.DEBUG),
    f.AskWithdrawn: _Line(_ASK, "ask withdrawn", logging.DEBUG),
    f.EarlyAskReleased: _Line(_ASK, "early ask released", logging.DEBUG),
    f.Allocated: _Line(_ALLOCATION, "allocated", logging.DEBUG),
    f.AllocationChanged: _Line(_ALLOCATION, "allocation changed", logging.DEBUG),
    UnclaimedEnded: _Line(_ALLOCATION, "allocation unclaimed no longer", logging.DEBUG),
    f.ReleaseRequested: _Line(_ALLOCATION, "release requested", logging.DEBUG),
    f.Released: _Line(_ALLOCATION, "released", logging.DEBUG),
    Reserved: _Line(_PREEMPTION, "room reserved", logging.DEBUG),
    ReservationEnded: _Line(_PREEMPTION, "reservation ended", logging.DEBUG),
    p.RoomMade: _Line(_PREEMPTION, "room made", logging.DEBUG),
    p.PreemptionRefused: _Line(_PREEMPTION, "preemption refused", logging.DEBUG),
    c.PredicateWanted: _Line(_PREDICATE, "predicate check wanted", logging.DEBUG),
    c.PreemptionPredicateWanted: _Line(_PREDICATE, "preemption predicate check wanted", logging.DEBUG),
    c.PredicateNotWanted: _Line(_PREDICATE, "predicate check cancelled", logging.DEBUG),
    c.SlotHeld: _Line(_PREDICATE, "held slot told again", logging.DEBUG),
    c.PredicateAnswered: _Line(_PREDICATE, "predicate check decided", logging.DEBUG),
    SchedulingStateChanged: _Line(_ASK, "scheduling state sent", logging.DEBUG),
    PendingReasonChanged: _Line(_ASK, "pending reason sent", logging.DEBUG),
    q.QueueChanged: _Line(_QUEUE, "queue changed", logging.DEBUG),
    f.CycleRan: _Line(_LOGGER, "cycle ran", logging.DEBUG),
}
_COMPLAINT_EVENTS = frozenset(line.event for line in _COMPLAINTS.values())
_USUAL: dict[type, _Line] = {**_NEWS, **_COMPLAINTS}
_ALL: dict[type, _Line] = {**_USUAL, **_DETAILS}
_LOGGERS = sorted({line.logger for line in _ALL.values()})
_FIELD_NAMES = {fact_type: tuple(field.name for field in fields(fact_type)) for fact_type in _ALL}
_TIMES = frozenset({"at_ns", "asked_at_ns"})
"""The fields of facts that are moments and not durations; a line has them as wall time."""


class FactLog:
    """Writes log lines for facts. Give it every batch, as the metrics get it."""

    def __init__(self) -> None:
        self._loggers = {name: structlog.stdlib.get_logger(name) for name in _LOGGERS}
        self._stdlib_logger = logging.getLogger(_LOGGER)
        self._second_started_ns = 0
        self._now = Instant(0, 0)
        self._counts: dict[tuple[str, str, str, int], int] = {}
        """What there was to write in this second, by event, resource manager, code or state, and level."""

    def observe(self, facts: Sequence[f.Fact], now: Instant) -> None:
        """Writes what is worth it at the current level; `now` is the time of the step."""
        self._now = now
        if now.monotonic_ns - self._second_started_ns >= SECOND_NS:
            self._report_suppressed()
            self._second_started_ns = now.monotonic_ns
        lines = _ALL if self._stdlib_logger.isEnabledFor(logging.DEBUG) else _USUAL
        for fact in facts:
            line = lines.get(type(fact))
            if line is not None:
                self._write(fact, line)

    def _write(self, fact: f.Fact, line: _Line) -> None:
        if isinstance(fact, conf.ConfigurationAccepted):
            self._write_impact(fact, line)
            return
        if isinstance(fact, conf.ConfigurationUpdated):
            self._write_reload(fact, line)
            return
        level = _level(fact, line)
        if not self._stdlib_logger.isEnabledFor(level):
            return
        if type(fact) not in _DETAILS and not self._has_room(fact, line, level):
            return
        self._loggers[line.logger].log(level, line.event, **_values(fact, self._now))

    def _write_impact(self, fact: conf.ConfigurationAccepted, line: _Line) -> None:
        """A line for each difference that a new queue file is about to make."""
        logger = self._loggers[line.logger]
        for impact in fact.impact[:IMPACT_LINES_MAX]:
            logger.log(
                logging.WARNING if impact.harms else line.level,
                line.event,
                rm_id=fact.rm_id,
                partition=impact.partition,
                queue=impact.queue,
                kind=impact.kind,
                message=impact.message,
            )
        rest = len(fact.impact) - IMPACT_LINES_MAX
        if rest > 0:
            logger.warning("lines suppressed", of=line.event, rm_id=fact.rm_id, count=rest)

    def _write_reload(self, fact: conf.ConfigurationUpdated, line: _Line) -> None:
        """Where the file came from; its text is not for a log."""
        event = line.event if fact.changed else "queue file unchanged"
        new = fact.configuration
        self._loggers[line.logger].log(line.level, event, rm_id=fact.rm_id, source=new.source, checksum=new.checksum)

    def _has_room(self, fact: f.Fact, line: _Line, level: int) -> bool:
        which = str(getattr(fact, "code", "") or getattr(fact, "state", ""))
        kind = (line.event, getattr(fact, "rm_id", ""), which, level)
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        return count <= _lines_max(line.event)

    def _report_suppressed(self) -> None:
        for (event, rm_id, which, level), count in self._counts.items():
            more = count - _lines_max(event)
            if more > 0:
                self._loggers[_LOGGER].log(level, "lines suppressed", of=event, rm_id=rm_id, which=which, count=more)
        self._counts.clear()


def _lines_max(event: str) -> int:
    return COMPLAINTS_MAX if event in _COMPLAINT_EVENTS else NEWS_MAX


def described(fact: f.Fact, now: Instant) -> tuple[str, dict[str, object]]:
    """The event of a line about a fact of `now`, and its values by name, for text elsewhere than in a log.

    Times are wall time, in nanoseconds since the Unix epoch.
    """
    return _ALL[type(fact)].event, _values(fact, now)


def _values(fact: f.Fact, now: Instant) -> dict[str, object]:
    return {
        name: now.wall_of(getattr(fact, name)) if name in _TIMES else _readable(getattr(fact, name))
        for name in _FIELD_NAMES[type(fact)]
    }


def _level(fact: f.Fact, line: _Line) -> int:
    """The level of the table, but for the kinds of fact that can be more or less than usual news."""
    match fact:
        case f.ResourceManagerChanged(state=ResourceManagerState.PAUSED | ResourceManagerState.STOPPED):
            return logging.WARNING
        case g.GangTimedOut(state=ApplicationState.FAILING | ApplicationState.RESUMING):
            return logging.WARNING
        case g.GangStateChanged(state=GangState.SHORT | GangState.GIVEN_UP):
            return logging.INFO
        case p.QuotaPreempted(victims=0):
            return logging.WARNING
        case f.ApplicationChanged(state=state) if state in _ON_THE_WAY:
            return logging.DEBUG
        case f.NodeChanged(old_state=old_state, state=state) if old_state == state:
            return logging.DEBUG
        case _:
            return line.level


def _readable(value: object) -> object:
    return value.name.lower() if isinstance(value, IntEnum) else value
