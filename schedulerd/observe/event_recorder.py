"""Facts -> events of the ring: changes at once, explanations if they are not a repetition."""

from __future__ import annotations

from collections.abc import Sequence

from schedulerd.core.language.facts import configuration as configuration_facts
from schedulerd.core.language.facts import fact as f
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.facts.predicates import (
    PredicateNotWanted,
    PredicateWanted,
    PreemptionPredicateWanted,
    SlotHeld,
)
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingStateChanged
from schedulerd.instant import Instant
from schedulerd.observe.event_changes import CHANGES, told
from schedulerd.observe.event_explanations import EXPLANATIONS
from schedulerd.observe.event_limits import EventLimits
from schedulerd.observe.event_ring import EventRing

WITHOUT_EVENT: frozenset[type] = frozenset(
    {
        f.NodeAccepted,
        f.ApplicationAccepted,
        configuration_facts.ConfigurationAccepted,
        configuration_facts.ConfigurationUpdated,
        f.CycleRan,
        f.CheckFailed,
        f.EarlyAskReleased,
        PredicateWanted,
        PreemptionPredicateWanted,
        PredicateNotWanted,
        SlotHeld,
        SchedulingStateChanged,
        PendingReasonChanged,
    }
)
"""Facts that no event is made of: another fact of the same step says it of the object, or it goes to the resource
manager in a message of its own."""


class EventRecorder:
    """Give it every batch of facts, as the metrics get it; read the events from `ring`."""

    def __init__(self, ring: EventRing) -> None:
        self.ring = ring
        self._limits = EventLimits()

    @property
    def suppressed(self) -> int:
        """How many events were not recorded, because their objects had said the same thing a moment ago."""
        return self._limits.suppressed

    def observe(self, facts: Sequence[Fact], now: Instant) -> None:
        """Records what happened to objects, in order. `now` is the time of those facts that do not say theirs.

        A fact of which no event can be made, which is a bug, is left out and counted.
        """
        changes, add = CHANGES, self.ring.add
        for fact in facts:
            try:
                change = changes.get(type(fact))
                if change is None:
                    self._explain(fact, now)
                    continue
                count, expand, what = change(fact)
                if count:
                    partition = getattr(fact, "partition", "")
                    add(now, fact.rm_id, partition, count, expand, what)  # type: ignore[union-attr]  # all of these have one
            except Exception as error:  # noqa: BLE001  # an event tells of what was done, and must not undo it
                self.ring.count_failed(self.ring.next_id, error)

    def _explain(self, fact: Fact, now: Instant) -> None:
        """Records a fact that explains, unless it repeats a recent event of its object."""
        explanation = EXPLANATIONS.get(type(fact))
        if explanation is None:
            return
        rm_id, partition = fact.rm_id, getattr(fact, "partition", "")  # type: ignore[union-attr]
        record = explanation(fact)
        if record is None:
            return
        thing = (record.kind, record.object_id, record.reference_id, record.change, record.detail, record.reason)
        if self._limits.allow((rm_id, partition, *thing), now.monotonic_ns):
            self.ring.add(now, rm_id, partition, *told(record))
