"""Counts kept from facts by adding and subtracting alone: the numbers behind the metrics.

Nothing here looks at the scheduler's state, so that a count which drifts from the state shows a fact that is missing or
wrong (tests recount every number from the state). It runs once per fact on the scheduler's own loop: plain dictionaries
and integers, the sums over queues and parents are left to the scrape.

Memory is bounded by what exists. The counts of a queue go with the last application remembered in it, those of a
resource manager's nodes and queues when it registers anew or stops. Its counters stay, as a counter must not fall
while it is read, until `STOPPED_KEPT` others have stopped after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any, get_args

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts import configuration as configuration_facts
from schedulerd.core.language.facts import fact as f
from schedulerd.core.language.facts import gangs as g
from schedulerd.core.language.facts import queues as q
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingStateChanged
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnded
from schedulerd.core.language.lifecycles import TERMINAL_STATES, GangState, GangTrigger, ResourceManagerState
from schedulerd.core.state.step_context import Item
from schedulerd.instant import Instant
from schedulerd.observe import families
from schedulerd.observe.histogram import Histogram
from schedulerd.observe.holdings import Counts, NodesTally, PartitionKey, QueueKey, QueueTally
from schedulerd.observe.predicate_tally import PredicateTally
from schedulerd.observe.preemption_tally import PreemptionTally

STOPPED_KEPT = 64
"""How many stopped resource managers are remembered at most."""

UNREGISTERED = ""
"""Label for a client that has not registered. Its name is not used: names could be made up to create series."""

REJECTED = ("node", "application", "ask")
"""What is rejected."""
CHECKED = tuple(item.__name__ for item in get_args(Item))
"""What is checked."""

_SECONDS_PER_NS = 1e-9
_TERMINATION_LABELS = {termination: termination.name.lower() for termination in TerminationType}


class ReloadResult(StrEnum):
    """Results of a reload of a queue file."""

    APPLIED = "applied"
    REFUSED = "refused"
    UNCHANGED = "unchanged"


class PlaceholderEvent(StrEnum):
    """Events of a placeholder. Requested releases of placeholders are also counted by `ReleaseCause`."""

    ASKED = "asked"
    WITHDRAWN = "withdrawn"
    """Never placed; `timed_out` too if that is why."""
    PLACED = "placed"
    RECOVERED = "recovered"
    RELEASED = "released"
    """Gone, for whatever reason."""


class GangEvent(StrEnum):
    COMPLETE = "complete"
    TIMED_OUT = "timed_out"
    GAVE_WAY = "gave_way"
    SHORT = "short"
    REQUEUED = "requeued"


@dataclass(frozen=True, slots=True)
class LastReload:
    wall_ns: int
    """Nanoseconds since the Unix epoch."""
    successful: bool


class Tally:
    """All counts. `observe` facts, then read the attributes; nothing else changes them."""

    def __init__(self) -> None:
        self.counters: dict[families.Family, Counts] = {family: defaultdict(int) for family in families.FACT_COUNTERS}
        self.counters[families.UNSCHEDULABLE_REQUEST_CLASSES][()] = 0
        self.counters[families.CYCLES_CUT][()] = 0
        self._expect_checks(UNREGISTERED)
        self.queues: defaultdict[QueueKey, QueueTally] = defaultdict(QueueTally)
        self.nodes: defaultdict[PartitionKey, NodesTally] = defaultdict(NodesTally)
        self.resource_managers: dict[str, ResourceManagerState] = {}
        self.last_reloads: dict[str, LastReload] = {}
        """By resource manager; a registration counts as one."""
        self.placement_latency = Histogram(families.PLACEMENT_LATENCY.bounds_seconds)
        self.gang_complete = Histogram(families.GANG_COMPLETE.bounds_seconds)
        self.gang_states: Counts = defaultdict(int)
        """By resource manager, partition and state."""
        self.preemption = PreemptionTally(self.counters)
        self.results = PredicateTally(self.counters)
        self._now = Instant(0, 0)
        self._placements = self.counters[families.PLACEMENTS]
        self._asks_added = self.counters[families.ASKS_ADDED]
        self._releases = self.counters[families.RELEASES]
        self._placeholders = self.counters[families.PLACEHOLDERS]
        self._gangs = self.counters[families.GANGS]
        self._handlers: dict[type, Callable[[Any], None]] = {
            f.ResourceManagerChanged: self._resource_manager_changed,
            f.NodeAccepted: _nothing_to_count,
            f.NodeRejected: self._node_rejected,
            f.NodeChanged: self._node_changed,
            q.QueueChanged: _nothing_to_count,
            SchedulingStateChanged: _nothing_to_count,
            PendingReasonChanged: _nothing_to_count,
            NodeRecommended: self._node_recommended,
            f.ApplicationAccepted: _nothing_to_count,
            f.ApplicationRejected: self._application_rejected,
            f.ApplicationChanged: self._application_changed,
            f.ApplicationForgotten: self._application_forgotten,
            f.AskAdded: self._ask_added,
            f.AskWithdrawn: self._ask_withdrawn,
            f.EarlyAskReleased: _nothing_to_count,
            f.AskRejected: self._ask_rejected,
            f.Allocated: self._allocated,
            f.AllocationChanged: self._allocation_changed,
            AllocationUnclaimed: _nothing_to_count,
            UnclaimedEnded: _nothing_to_count,
            f.ReleaseRequested: self._release_requested,
            g.GangCompleted: self._gang_completed,
            g.GangTimedOut: self._gang_timed_out,
            g.GangGaveWay: self._gang_gave_way,
            g.GangStateChanged: self._gang_state_changed,
            g.GangBelowMin: _nothing_to_count,
            g.SwapRefused: _nothing_to_count,
            f.Released: self._released,
            f.ReleaseIgnored: self._release_ignored,
            f.ItemIgnored: self._item_ignored,
            f.CheckFailed: self._check_failed,
            q.TagIgnored: self._tag_ignored,
            q.QueueNameUnused: _nothing_to_count,
            configuration_facts.ConfigurationAccepted: _nothing_to_count,
            configuration_facts.ConfigurationUpdated: self._reloaded,
            configuration_facts.ConfigurationRejected: self._reload_refused,
            f.CycleRan: self._cycle_ran,
            **self.preemption.handlers,
            **self.results.handlers,
        }

    def observe(self, facts: Sequence[f.Fact], now: Instant) -> None:
        """Counts `facts`, in order. `now` is when the allocations among them were made."""
        self._now = now
        handlers = self._handlers
        for fact in facts:
            handlers[type(fact)](fact)

    def reload(self, rm_id: str, result: ReloadResult, wall_ns: int) -> None:
        """Counts a reload that the scheduler does not hear of; `UNREGISTERED` for the daemon's own queue file."""
        self.counters[families.RELOADS][rm_id, result] += 1
        state = self.resource_managers.get(rm_id, ResourceManagerState.STOPPED)
        if rm_id == UNREGISTERED or state is not ResourceManagerState.STOPPED:
            self.last_reloads[rm_id] = LastReload(wall_ns, result is not ReloadResult.REFUSED)

    def _resource_manager_changed(self, fact: f.ResourceManagerChanged) -> None:
        rm_id = fact.rm_id
        if fact.state is ResourceManagerState.INIT:
            self._expect_rejections(rm_id)
            self.last_reloads[rm_id] = LastReload(self._now.wall_ns, True)
        elif fact.state is ResourceManagerState.STOPPED:
            self.last_reloads.pop(rm_id, None)
        if fact.state in (ResourceManagerState.INIT, ResourceManagerState.STOPPED):
            for queue_key in [key for key in self.queues if key[0] == rm_id]:
                del self.queues[queue_key]
            for partition_key in [key for key in self.nodes if key[0] == rm_id]:
                del self.nodes[partition_key]
            for state_key in [key for key in self.gang_states if key[0] == rm_id]:
                del self.gang_states[state_key]
            self.preemption.forget_state(rm_id)
        self.resource_managers.pop(rm_id, None)
        self.resource_managers[rm_id] = fact.state
        stopped = [rm for rm, state in self.resource_managers.items() if state is ResourceManagerState.STOPPED]
        if len(stopped) > STOPPED_KEPT:
            self._forget_resource_manager(stopped[0])

    def _expect_rejections(self, rm_id: str) -> None:
        """Starts its counters at 0, so that a rate sees their first event too."""
        for rejected in product([rm_id], REJECTED, f.RejectCode):
            self.counters[families.REJECTIONS].setdefault(rejected, 0)
        self._expect_checks(rm_id)

    def _expect_checks(self, rm_id: str) -> None:
        for item in CHECKED:
            self.counters[families.CHECKS_FAILED].setdefault((rm_id, item), 0)

    def _forget_resource_manager(self, rm_id: str) -> None:
        del self.resource_managers[rm_id]
        self.preemption.forget_resource_manager(rm_id)
        for counts in self.counters.values():
            for labels in [labels for labels in counts if labels[:1] == (rm_id,)]:
                del counts[labels]

    def _node_changed(self, fact: f.NodeChanged) -> None:
        key = (fact.rm_id, fact.partition)
        if key not in self.nodes:
            self.preemption.expect(*key)
            self._expect_gangs(*key)
        self.nodes[key].change(fact.node_id, fact.state, fact.capacity, fact.occupied)

    def _node_recommended(self, fact: NodeRecommended) -> None:
        self.counters[families.RECOMMENDATIONS][fact.rm_id, fact.partition] += 1

    def _node_rejected(self, fact: f.NodeRejected) -> None:
        self.counters[families.REJECTIONS][fact.rm_id, "node", fact.code] += 1

    def _application_rejected(self, fact: f.ApplicationRejected) -> None:
        self.counters[families.REJECTIONS][fact.rm_id, "application", fact.code] += 1

    def _ask_rejected(self, fact: f.AskRejected) -> None:
        self.counters[families.REJECTIONS][fact.rm_id, "ask", fact.code] += 1

    def _application_changed(self, fact: f.ApplicationChanged) -> None:
        self.counters[families.APPLICATION_TRANSITIONS][fact.rm_id, fact.partition, fact.state.lower()] += 1
        key = (fact.rm_id, fact.partition, fact.queue)
        queue = self.queues[key]
        if fact.old_state is not None:
            queue.applications[fact.old_state] -= 1
        queue.applications[fact.state] += 1
        if fact.state in TERMINAL_STATES:
            queue.ended[fact.state] += 1
            self._tidy(key, queue)

    def _application_forgotten(self, fact: f.ApplicationForgotten) -> None:
        key = (fact.rm_id, fact.partition, fact.queue)
        queue = self.queues[key]
        queue.applications[fact.state] -= 1
        self._tidy(key, queue)

    def _tidy(self, key: QueueKey, queue: QueueTally) -> None:
        """Drops the counts of a queue that are no longer needed, so that short-lived queues leave nothing behind."""
        if queue.has_live_applications() or not queue.is_idle():
            return
        queue.pending.clear()
        queue.allocated.clear()
        queue.has_gangs = False
        if not any(queue.applications.values()):
            del self.queues[key]
            self.preemption.forget_queue(key, self.queues)

    def _ask_added(self, fact: f.AskAdded) -> None:
        count = fact.count
        queue = self.queues[fact.rm_id, fact.partition, fact.queue]
        if fact.slot:
            self._has_gangs(fact.rm_id, fact.partition, queue)
            queue.pending_slots += count
        else:
            self._count_added(fact, queue)
        pending = queue.pending
        for name, amount in fact.resources.items():
            pending[name] += amount * count

    def _count_added(self, fact: f.AskAdded, queue: QueueTally) -> None:
        count = fact.count
        if fact.awaited_placeholder:
            queue.asks_awaiting_placeholder -= count
        else:
            self._asks_added[fact.rm_id, fact.partition] += count
        if fact.placeholder:
            self._has_gangs(fact.rm_id, fact.partition, queue)
            self._placeholders[fact.rm_id, fact.partition, PlaceholderEvent.ASKED] += count
            queue.pending_placeholders += count
        queue.pending_asks += count

    def _ask_withdrawn(self, fact: f.AskWithdrawn) -> None:
        count = fact.count
        key = (fact.rm_id, fact.partition, fact.queue)
        queue = self.queues[key]
        if fact.slot:
            queue.pending_slots -= count
        else:
            self._count_withdrawn(fact, queue)
        pending = queue.pending
        for name, amount in fact.resources.items():
            pending[name] -= amount * count
        if not queue.pending_asks:
            self._tidy(key, queue)

    def _count_withdrawn(self, fact: f.AskWithdrawn, queue: QueueTally) -> None:
        count = fact.count
        if fact.cause is f.WithdrawCause.AWAITING_PLACEHOLDER:
            queue.asks_awaiting_placeholder += count
        else:
            self.counters[families.ASKS_WITHDRAWN][fact.rm_id, fact.partition, fact.cause] += count
        if fact.placeholder:
            self._placeholders[fact.rm_id, fact.partition, PlaceholderEvent.WITHDRAWN] += count
            if fact.cause is f.WithdrawCause.TIMEOUT:
                self._placeholders[fact.rm_id, fact.partition, f.ReleaseCause.TIMED_OUT] += count
            queue.pending_placeholders -= count
        queue.pending_asks -= count

    def _allocated(self, fact: f.Allocated) -> None:
        queue = self.queues[fact.rm_id, fact.partition, fact.queue]
        allocated = queue.allocated
        if fact.slot:
            queue.pending_slots -= 1
            queue.held_slots += 1
            for name, amount in fact.resources.items():
                allocated[name] += amount
                queue.pending[name] -= amount
            return
        if fact.placeholder:
            self._placeholder_allocated(fact, queue)
        if fact.recovered:
            self.counters[families.RECOVERED][fact.rm_id, fact.partition] += 1
            for name, amount in fact.resources.items():
                allocated[name] += amount
            return
        self._placements[fact.rm_id, fact.partition] += 1
        queue.placed += 1
        for name, amount in fact.resources.items():
            allocated[name] += amount
        if fact.replaces:  # then it was awaiting its placeholder, and is pending no longer since
            if not fact.replaces_slot:
                self._placeholders[fact.rm_id, fact.partition, f.ReleaseCause.REPLACED] += 1
            queue.asks_awaiting_placeholder -= 1
        else:
            queue.pending_asks -= 1
            pending = queue.pending
            for name, amount in fact.resources.items():
                pending[name] -= amount
        self.placement_latency.observe((self._now.monotonic_ns - fact.asked_at_ns) * _SECONDS_PER_NS)

    def _allocation_changed(self, fact: f.AllocationChanged) -> None:
        self.counters[families.ALLOCATION_CHANGES][fact.rm_id, fact.partition, fact.cause] += 1
        allocated = self.queues[fact.rm_id, fact.partition, fact.queue].allocated
        for name, amount in fact.old_resources.items():
            allocated[name] -= amount
        for name, amount in fact.resources.items():
            allocated[name] += amount

    def _placeholder_allocated(self, fact: f.Allocated, queue: QueueTally) -> None:
        self._has_gangs(fact.rm_id, fact.partition, queue)
        event = PlaceholderEvent.RECOVERED if fact.recovered else PlaceholderEvent.PLACED
        self._placeholders[fact.rm_id, fact.partition, event] += 1
        queue.allocated_placeholders += 1
        if not fact.recovered:
            queue.pending_placeholders -= 1

    def _has_gangs(self, rm_id: str, partition: str, queue: QueueTally) -> None:
        if not queue.has_gangs:
            queue.has_gangs = True
            self._expect_gangs(rm_id, partition)

    def _expect_gangs(self, rm_id: str, partition: str) -> None:
        """Starts its counters at 0, so that a rate sees their first event too."""
        for placeholder_event in (*PlaceholderEvent, *f.ReleaseCause):
            self._placeholders.setdefault((rm_id, partition, placeholder_event), 0)
        for gang_event in GangEvent:
            self._gangs.setdefault((rm_id, partition, gang_event), 0)

    def _release_requested(self, fact: f.ReleaseRequested) -> None:
        labels = (fact.rm_id, fact.partition, _TERMINATION_LABELS[fact.termination])
        self.counters[families.RELEASE_REQUESTS][labels] += 1
        if fact.cause is f.ReleaseCause.PREEMPTED:
            self.preemption.count_victim(fact)
        if fact.placeholder and fact.cause is not f.ReleaseCause.REPLACED:  # that counts when it is done
            self._placeholders[fact.rm_id, fact.partition, fact.cause] += 1

    def _gang_completed(self, fact: g.GangCompleted) -> None:
        self._gangs[fact.rm_id, fact.partition, GangEvent.COMPLETE] += 1
        self.gang_complete.observe(fact.waited_ns * _SECONDS_PER_NS)

    def _gang_timed_out(self, fact: g.GangTimedOut) -> None:
        self._gangs[fact.rm_id, fact.partition, GangEvent.TIMED_OUT] += 1

    def _gang_state_changed(self, fact: g.GangStateChanged) -> None:
        if fact.old_state is None:
            self._expect_gangs(fact.rm_id, fact.partition)
            for state in GangState:
                self.gang_states.setdefault((fact.rm_id, fact.partition, state.name.lower()), 0)
        else:
            self.gang_states[fact.rm_id, fact.partition, fact.old_state.name.lower()] -= 1
        if fact.state is not None:
            self.gang_states[fact.rm_id, fact.partition, fact.state.name.lower()] += 1
        if fact.state is GangState.SHORT:
            self._gangs[fact.rm_id, fact.partition, GangEvent.SHORT] += 1
        elif fact.cause == GangTrigger.REQUEUE:
            self._gangs[fact.rm_id, fact.partition, GangEvent.REQUEUED] += 1

    def _gang_gave_way(self, fact: g.GangGaveWay) -> None:
        self._gangs[fact.rm_id, fact.partition, GangEvent.GAVE_WAY] += 1

    def _released(self, fact: f.Released) -> None:
        key = (fact.rm_id, fact.partition, fact.queue)
        queue = self.queues[key]
        if fact.slot:
            queue.held_slots -= 1
        else:
            self._releases[fact.rm_id, fact.partition, _TERMINATION_LABELS[fact.termination]] += 1
            queue.released += 1
        if fact.placeholder and not fact.slot:
            self._placeholders[fact.rm_id, fact.partition, PlaceholderEvent.RELEASED] += 1
            queue.allocated_placeholders -= 1
        allocated = queue.allocated
        for name, amount in fact.resources.items():
            allocated[name] -= amount
        if not queue.pending_asks and not any(allocated.values()):
            self._tidy(key, queue)

    def _release_ignored(self, fact: f.ReleaseIgnored) -> None:
        self.counters[families.RELEASES_IGNORED][(fact.rm_id,)] += 1

    def _check_failed(self, fact: f.CheckFailed) -> None:
        rm_id = fact.rm_id if fact.rm_id in self.resource_managers else UNREGISTERED
        self.counters[families.CHECKS_FAILED][rm_id, fact.item] += 1

    def _tag_ignored(self, fact: q.TagIgnored) -> None:
        self.counters[families.TAGS_IGNORED][fact.rm_id,] += 1

    def _item_ignored(self, fact: f.ItemIgnored) -> None:
        rm_id = fact.rm_id if fact.rm_id in self.resource_managers else UNREGISTERED
        self.counters[families.ITEMS_IGNORED][rm_id, fact.code] += 1

    def _reloaded(self, fact: configuration_facts.ConfigurationUpdated) -> None:
        self.reload(fact.rm_id, ReloadResult.APPLIED if fact.changed else ReloadResult.UNCHANGED, self._now.wall_ns)

    def _reload_refused(self, fact: configuration_facts.ConfigurationRejected) -> None:
        self.reload(fact.rm_id, ReloadResult.REFUSED, self._now.wall_ns)

    def _cycle_ran(self, fact: f.CycleRan) -> None:
        self.counters[families.UNSCHEDULABLE_REQUEST_CLASSES][()] += fact.classes_blocked
        self.counters[families.CYCLES_CUT][()] += fact.more


def _nothing_to_count(_fact: f.Fact) -> None:
    """For facts beside which another fact is counted, or what is sent because of them (`CallbackTally`)."""
