"""Counts of calls and answers on callback streams. No fact has them, because the scheduler knows no streams."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.metrics_core import Metric

from schedulerd.observe import families
from schedulerd.observe.histogram import Histogram
from schedulerd.observe.samples import counters, gauges, histograms


class CallKind(StrEnum):
    """Kinds of calls to a resource manager."""

    PREDICATES = "predicates"
    PREEMPTION_PREDICATES = "preemption_predicates"
    HOLD = "hold"
    STATE_DUMP = "state_dump"
    POD = "pod"
    SCHEDULING_STATE = "scheduling_state"
    EVENT = "event"
    APPLICATION_NOTICE = "application_notice"


ANSWERED = (CallKind.PREDICATES, CallKind.PREEMPTION_PREDICATES, CallKind.STATE_DUMP, CallKind.POD)
"""Calls that the resource manager answers."""


class CallbackTally:
    """Counts over all resource managers. The code that has the streams adds to them."""

    def __init__(self) -> None:
        self.streams = 0
        """Open now, with a hello that was taken."""
        self.calls = dict.fromkeys(CallKind, 0)
        """Sent."""
        self.dropped = dict.fromkeys(CallKind, 0)
        """Never sent."""
        self.late_answers = dict.fromkeys(ANSWERED, 0)
        """Answers to calls that were no longer open."""
        self._latencies = {kind: Histogram(families.CALLBACK_ANSWER.bounds_seconds) for kind in ANSWERED}

    def answered(self, kind: CallKind, seconds: float) -> None:
        """An answer in time, `seconds` after the call was sent."""
        self._latencies[kind].observe(seconds)

    def families(self) -> Iterator[Metric]:
        yield gauges(families.CALLBACK_STREAMS, [((), self.streams)])
        yield counters(families.CALLBACK_CALLS, [((kind,), count) for kind, count in self.calls.items()])
        yield counters(families.CALLBACK_DROPPED, [((kind,), count) for kind, count in self.dropped.items()])
        yield counters(families.CALLBACK_LATE, [((kind,), count) for kind, count in self.late_answers.items()])
        yield histograms(families.CALLBACK_ANSWER, {(kind,): value for kind, value in self._latencies.items()})
