"""The outcome of a demand, counted from facts alone: waiting times, use of queues, preempted allocations.

The record and simulated runs are counted in the same way, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import (
    Allocated,
    AllocationChanged,
    ApplicationRejected,
    AskAdded,
    AskRejected,
    AskWithdrawn,
    Fact,
    RejectCode,
    ReleaseCause,
    Released,
    ReleaseRequested,
    ResourceManagerChanged,
    WithdrawCause,
)
from schedulerd.core.language.facts.queues import QueueChange, QueueChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.replay.names import PodName, QueueName, pod_of, queue_of
from schedulerd.replay.playback import Step


@dataclass(frozen=True, slots=True)
class Waits:
    """How long allocations were asked for before they were placed, in nanoseconds."""

    count: int
    median_ns: int
    p95_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class Share:
    """Use of an amount: of its resources, the most used one counts."""

    mean: float
    """Over the time of the record."""
    peak: float


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """Outcome of one queue. Use includes the queues below; asks, waits and preemptions are of the queue itself."""

    waits: Waits | None
    """None if nothing was placed."""
    never_placed: int
    """Asked for, and still pending at the end or taken back before."""
    of_max: Share | None
    """None if the queue has no max."""
    of_guaranteed: Share | None
    preempted: int
    """Allocations that were asked to end for others."""
    lost_ns: int
    """How long the preempted allocations had run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a run."""

    queues: Mapping[QueueName, QueueOutcome]
    """In the order of their names."""
    rejected: Mapping[tuple[str, str], str]
    """Applications by resource manager and id, with the reason that was given last."""
    rejected_asks: int
    last_ns: int
    """When something was placed or ended for the last time, in monotonic time; 0 if never."""


@dataclass(slots=True)
class _Use:
    """A queue's use of an amount that is set for it."""

    amounts: Mapping[str, int]
    area: float = 0.0
    """Share times nanoseconds."""
    peak: float = 0.0

    def share(self, used: Mapping[str, int]) -> float:
        return max((used.get(name, 0) / amount for name, amount in self.amounts.items() if amount), default=0.0)


@dataclass(slots=True)
class _Queue:
    allocated: Resources = field(default_factory=Resources)
    since_ns: int = 0
    """Time of the last update."""
    of_max: _Use = field(default_factory=lambda: _Use({}))
    of_guaranteed: _Use = field(default_factory=lambda: _Use({}))
    waits_ns: list[int] = field(default_factory=list)
    pending: int = 0
    given_up: int = 0
    preempted: int = 0
    lost_ns: int = 0


class Measure:
    """Give it every step of a history with `observe`, and take the `outcome` at the end."""

    def __init__(self, end_ns: int | None = None) -> None:
        """Means are taken until `end_ns`; None: until the last step."""
        self._end_ns = end_ns
        self._start_ns = 0
        self._now_ns = 0
        self._last_ns = 0
        self._queues: dict[QueueName, _Queue] = {}
        self._placed_ns: dict[PodName, int] = {}
        """Times of placement of existing allocations."""
        self._rejected: dict[tuple[str, str], str] = {}
        self._rejected_asks = 0

    def observe(self, step: Step) -> None:
        """Counts the facts of one step."""
        self._start_ns = self._start_ns or step.now_ns
        self._now_ns = step.now_ns
        for fact in step.facts:
            self._take(fact)

    def outcome(self) -> Outcome:
        """Of all that was observed."""
        end_ns = self._end_ns or self._now_ns
        duration_ns = end_ns - self._start_ns
        for queue in self._queues.values():
            self._look(queue)
        return Outcome(
            queues={name: _outcome(queue, duration_ns) for name, queue in sorted(self._queues.items())},
            rejected=self._rejected,
            rejected_asks=self._rejected_asks,
            last_ns=self._last_ns,
        )

    def _take(self, fact: Fact) -> None:
        match fact:
            case Allocated():
                self._allocated(fact)
            case AllocationChanged():
                self._change(fact)
            case Released():
                self._released(fact)
            case AskAdded(slot=True) | AskWithdrawn(slot=True):
                pass  # what nobody asked for does not wait
            case AskAdded(awaited_placeholder=False):
                self._queue(fact).pending += fact.count
            case AskWithdrawn() if fact.cause is not WithdrawCause.AWAITING_PLACEHOLDER:
                queue = self._queue(fact)
                queue.pending -= fact.count
                if fact.cause not in (WithdrawCause.UPDATED, WithdrawCause.RECOVERED):
                    queue.given_up += fact.count
            case ReleaseRequested(cause=ReleaseCause.PREEMPTED):
                self._queue(fact).preempted += 1
            case QueueChanged():
                self._changed(fact)
            case ApplicationRejected() if fact.code is not RejectCode.DUPLICATE_ID:
                self._rejected[fact.rm_id, fact.application_id] = fact.reason
            case AskRejected():
                self._rejected_asks += 1
            case ResourceManagerChanged(state=ResourceManagerState.INIT | ResourceManagerState.STOPPED):
                self._drop(fact)

    def _queue(self, fact: AskAdded | AskWithdrawn | Allocated | Released | ReleaseRequested | QueueChanged) -> _Queue:
        return self._queues.setdefault(queue_of(fact), _Queue(since_ns=self._now_ns))

    def _allocated(self, fact: Allocated) -> None:
        self._last_ns = self._now_ns
        self._placed_ns[pod_of(fact)] = self._now_ns
        self._book(fact, 1)
        if not fact.recovered and not fact.slot:
            queue = self._queue(fact)
            queue.pending -= 1
            queue.waits_ns.append(self._now_ns - fact.asked_at_ns)

    def _released(self, fact: Released) -> None:
        self._last_ns = self._now_ns
        ran_ns = self._now_ns - self._placed_ns.pop(pod_of(fact))
        self._book(fact, -1)
        if fact.termination is TerminationType.PREEMPTED_BY_SCHEDULER and not fact.slot:
            self._queue(fact).lost_ns += ran_ns

    def _change(self, fact: AllocationChanged) -> None:
        self._placed_ns[pod_of(fact)] = self._placed_ns.pop(pod_of(fact)._replace(uuid=fact.old_uuid))
        self._add(fact, fact.old_resources, -1)
        self._add(fact, fact.resources, 1)

    def _book(self, fact: Allocated | Released, times: int) -> None:
        self._add(fact, fact.resources, times)

    def _add(self, fact: Allocated | AllocationChanged | Released, resources: Resources, times: int) -> None:
        """Adds to what the queue and all above it use."""
        path = fact.queue
        while path:
            queue = self._queues[QueueName(fact.rm_id, fact.partition, path)]
            self._look(queue)
            queue.allocated.add(resources.items(), times)
            for use in (queue.of_max, queue.of_guaranteed):
                use.peak = max(use.peak, use.share(queue.allocated))
            path = path.rpartition(".")[0]

    def _look(self, queue: _Queue) -> None:
        """Brings the means of a queue up to now."""
        now_ns = self._now_ns if self._end_ns is None else min(self._now_ns, self._end_ns)
        for use in (queue.of_max, queue.of_guaranteed):
            use.area += use.share(queue.allocated) * max(0, now_ns - queue.since_ns)
        queue.since_ns = max(now_ns, queue.since_ns)

    def _changed(self, fact: QueueChanged) -> None:
        queue = self._queue(fact)
        self._look(queue)
        if fact.change is QueueChange.MAX:
            queue.of_max.amounts = fact.amounts
        elif fact.change is QueueChange.GUARANTEED:
            queue.of_guaranteed.amounts = fact.amounts

    def _drop(self, fact: ResourceManagerChanged) -> None:
        """All of a resource manager is gone. One that registers asks again for what was pending, under a file that is
        about to be said."""
        registers = fact.state is ResourceManagerState.INIT
        for name, queue in self._queues.items():
            if name.rm_id == fact.rm_id:
                self._look(queue)
                queue.allocated.clear()
                queue.given_up += 0 if registers else queue.pending
                queue.pending = 0
                if registers:
                    queue.of_max.amounts = queue.of_guaranteed.amounts = {}
        self._placed_ns = {pod: at_ns for pod, at_ns in self._placed_ns.items() if pod.rm_id != fact.rm_id}


def _outcome(queue: _Queue, duration_ns: int) -> QueueOutcome:
    return QueueOutcome(
        waits=_waits(sorted(queue.waits_ns)),
        never_placed=queue.given_up + queue.pending,
        of_max=_share(queue.of_max, duration_ns),
        of_guaranteed=_share(queue.of_guaranteed, duration_ns),
        preempted=queue.preempted,
        lost_ns=queue.lost_ns,
    )


def _waits(sorted_ns: list[int]) -> Waits | None:
    if not sorted_ns:
        return None
    return Waits(len(sorted_ns), _percentile(sorted_ns, 50), _percentile(sorted_ns, 95), sorted_ns[-1])


def _percentile(sorted_ns: list[int], percent: int) -> int:
    """The least of them that so many in a hundred do not exceed."""
    return sorted_ns[-(-len(sorted_ns) * percent // 100) - 1]


def _share(use: _Use, duration_ns: int) -> Share | None:
    if not any(use.amounts.values()):
        return None
    return Share(use.area / duration_ns if duration_ns else 0.0, use.peak)
