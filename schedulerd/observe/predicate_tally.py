"""Counts of what resource managers say about asks and nodes, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schedulerd.core.language.facts import predicates as c
from schedulerd.observe import families
from schedulerd.observe.histogram import Histogram
from schedulerd.observe.holdings import Counts

_SECONDS_PER_NS = 1e-9
_ANSWERED = (c.PredicateOutcome.AGREED, c.PredicateOutcome.REFUSED)


class PredicateTally:
    """A part of `Tally`, which gives it the facts of `handlers`. A partition is there from its first result on."""

    def __init__(self, counters: Mapping[families.Family, Counts]) -> None:
        self.waits = Histogram(families.PREDICATE_WAIT.bounds_seconds)
        """Waiting times of results that came."""
        self._results = counters[families.PREDICATE_CHECKS]
        self.handlers: dict[type, Callable[[Any], None]] = {
            c.PredicateWanted: self._wanted,
            c.PreemptionPredicateWanted: self._wanted,
            c.PredicateNotWanted: lambda fact: None,
            c.SlotHeld: lambda fact: None,
            c.PredicateAnswered: self._reached,
        }

    def _wanted(self, fact: c.PredicateWanted | c.PreemptionPredicateWanted) -> None:
        """Starts the counts at 0, so that a rate sees the first of each too."""
        if (fact.rm_id, fact.partition, c.PredicateOutcome.VOID) not in self._results:
            for outcome in c.PredicateOutcome:
                self._results[fact.rm_id, fact.partition, outcome] = 0

    def _reached(self, fact: c.PredicateAnswered) -> None:
        self._results[fact.rm_id, fact.partition, fact.outcome] += 1
        if fact.outcome in _ANSWERED:
            self.waits.observe(fact.waited_ns * _SECONDS_PER_NS)
