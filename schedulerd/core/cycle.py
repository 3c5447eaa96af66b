"""One scheduling cycle: its phases in order, each tried until it has nothing to do, up to a budget.

What cannot be allocated is blocked where the reason is (the queue whose quota lacks room, or the root if no node fits),
for all asks of its pending class at once. So a cycle spends its time on asks that can be allocated. Budgets are counts:
a bound by time would make a replay of the same commands diverge.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from schedulerd.core.applications.handlers import start_times
from schedulerd.core.language.facts.fact import CycleRan
from schedulerd.core.preemption.handlers import preemption
from schedulerd.core.preemption.handlers.preemption import Progress
from schedulerd.core.reactions import ON_REQUIRED_NODE, ON_RETRY_DUE
from schedulerd.core.reservations.handlers import new_reservations, reserved_room
from schedulerd.core.state.actions import predicate_checks, retries, slot_room, slots, swaps
from schedulerd.core.state.actions.allocating import allocate
from schedulerd.core.state.actions.slot_room import Held
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import hold_growth_back, next_ask, propagate
from schedulerd.core.state.pending.parent_entity import BlockReason
from schedulerd.core.state.quotas.rules import highest_blocked
from schedulerd.core.state.step_context import StepContext

BLOCKED_MAX = 200
"""Most classes that one cycle may find blocked or unschedulable in a partition, plus blocks that it may propagate."""


class Outcome(Enum):
    """What one call of a phase did, and which budget it used."""

    NOTHING = auto()
    """There is nothing to do in this phase: the next phase follows."""
    ALLOCATED = auto()
    """An ask was allocated, swapped, reserved for or checked, or victims were chosen for it; counts as one of the
    allocations of the cycle. The first phase follows."""
    BLOCKED = auto()
    """A class was found blocked or unschedulable; counts towards `BLOCKED_MAX`. The first phase follows."""
    PROPAGATED = auto()
    """A block was propagated; counts towards `BLOCKED_MAX`. The first phase follows."""
    UNFINISHED = auto()
    """The visits of the cycle are used up: the phase goes on in the next cycle."""


class Run:
    """The budgets of a cycle in one partition, and what the cycle did there."""

    __slots__ = ("allocated", "allocations_max", "blocked", "let_start", "partition", "propagated", "visits_end")

    def __init__(self, partition: Partition, allocations_max: int, visits_max: int) -> None:
        self.partition = partition
        self.allocations_max = allocations_max
        self.visits_end = partition.retry_timers.budget.visits + visits_max
        """Searches stop when `WorkBudget.visits`, which counts all visits since the partition exists, reaches this."""
        self.allocated = 0
        self.blocked = 0
        self.propagated = 0
        self.let_start = False
        """Whether an application of a state-aware leaf was let in before one that is blocked for long."""

    @property
    def is_out_of_visits(self) -> bool:
        return self.partition.retry_timers.budget.visits >= self.visits_end


Advance: TypeAlias = Callable[[StepContext, Run], Outcome]


class Phase(NamedTuple):
    """One kind of work, done one piece at a time."""

    name: str
    advance: Advance
    budget: tuple[Outcome, ...]
    """The outcomes other than NOTHING that the phase can have."""


def run_cycle(context: StepContext, allocations_max: int) -> None:
    """Allocates up to `allocations_max` asks over all partitions of Running resource managers."""
    partitions = context.cluster.running_partitions()
    if not partitions:
        return
    first = context.cluster.cycle_turn % len(partitions)
    context.cluster.cycle_turn += 1
    allocated = blocked = 0
    visits_left = preemption.VISITS_PER_SLICE
    more = let_start = False
    for partition in partitions[first:] + partitions[:first]:
        before = partition.retry_timers.budget.visits
        run = Run(partition, allocations_max - allocated, visits_left)
        more = _run_partition(context, run) or more
        visits_left -= partition.retry_timers.budget.visits - before
        partition.moves += run.allocated
        allocated += run.allocated
        blocked += run.blocked
        let_start = let_start or run.let_start
    if allocated or blocked or let_start:
        context.emit(CycleRan(allocations=allocated, classes_blocked=blocked, more=more))


def _run_partition(context: StepContext, run: Run) -> bool:
    """Returns whether it stopped at a budget, so that the next cycle may find more to do at once."""
    partition, timers, callbacks = run.partition, run.partition.retry_timers, run.partition.callbacks
    budget, visits_end = timers.budget, run.visits_end
    may_be_full = callbacks.predicates or callbacks.preemption_predicates
    nothing, allocated = Outcome.NOTHING, Outcome.ALLOCATED  # once: to read a member costs as much as a call
    while (
        run.allocated < run.allocations_max
        and run.blocked + run.propagated < BLOCKED_MAX
        and budget.visits < visits_end
    ):
        if may_be_full and callbacks.is_full:
            return False  # full of open predicate calls: the next answer lets the cycle go on
        # For most asks the first phases have nothing to do: then none of them is called.
        has_room_to_give = (
            partition.swaps or partition.reservations_to_check or timers.to_reserve or timers.to_reserve_required
        )
        for _, advance, _ in PHASES if has_room_to_give or timers.overflow or timers.has_due else _LAST_PHASES:
            outcome = advance(context, run)
            if outcome is not nothing:
                break
        if outcome is allocated:
            run.allocated += 1
        elif outcome is Outcome.BLOCKED:
            run.blocked += 1
        elif outcome is Outcome.PROPAGATED:
            run.propagated += 1
        else:
            if outcome is nothing and partition.start_checks:
                run.let_start = start_times.on_all_tried(context, partition)
            return outcome is Outcome.UNFINISHED
    return True


def _collect_due(context: StepContext, run: Run) -> Outcome:
    partition = run.partition
    if partition.retry_timers.has_due:
        partition.retry_timers.has_due = False
        for collect_due in ON_RETRY_DUE:
            collect_due(context, partition)
    return Outcome.NOTHING


def _swap(context: StepContext, run: Run) -> Outcome:
    partition = run.partition
    if not partition.swaps:
        return Outcome.NOTHING
    before = len(partition.slots_leaving)
    has_begun = swaps.swap_next(context, partition, run.allocations_max - run.allocated)
    run.allocated += max(0, len(partition.slots_leaving) - before - 1)  # those of a gang are begun together
    return Outcome.ALLOCATED if has_begun else Outcome.NOTHING


def _serve_reservation(context: StepContext, run: Run) -> Outcome:
    partition = run.partition
    return (
        Outcome.ALLOCATED
        if partition.reservations_to_check and reserved_room.allocate_reserved(context, partition, ON_REQUIRED_NODE)
        else Outcome.NOTHING
    )


def _reserve(context: StepContext, run: Run) -> Outcome:
    partition = run.partition
    timers = partition.retry_timers
    if not (timers.to_reserve or timers.to_reserve_required or timers.overflow):
        return Outcome.NOTHING
    if new_reservations.reserve_next(context, partition, run.visits_end):
        return Outcome.ALLOCATED
    return Outcome.UNFINISHED if run.is_out_of_visits else Outcome.NOTHING


def _allocate_next(context: StepContext, run: Run) -> Outcome:
    """The pipeline of one ask: next in order, quotas and limits, node, then a predicate check or the allocation."""
    partition = run.partition
    found = next_ask(partition)
    if found is None:
        return Outcome.NOTHING
    partition.asks_tried += 1
    application, group, block = found
    pending_class = group.pending_class
    if block is not None:
        propagate(block, application, pending_class)
        return Outcome.PROPAGATED
    blocked = highest_blocked(application.queue, pending_class.items, pending_class.quota_key)
    if blocked is not None:
        blocked.queue.block(pending_class, BlockReason.QUOTA)
        return Outcome.BLOCKED
    if group.placeholder and slot_room.are_held_together(application):
        return _hold_all(context, run, application)
    if application.gang is not None and hold_growth_back(partition, application, group):
        return Outcome.BLOCKED
    node = partition.first_fit(group.request_class)
    if node is None:
        retries.mark_unschedulable(context, partition, pending_class, group.first())
        return Outcome.BLOCKED
    if partition.callbacks.predicates and partition.wants_predicates(group.request_class):
        predicate_checks.attempt(context, application, group.first(), node)
    else:
        allocate(context, partition, application, group.first(), node)
    return Outcome.ALLOCATED


_HELD = {Held.ALL: Outcome.ALLOCATED, Held.NONE: Outcome.BLOCKED, Held.UNFINISHED: Outcome.UNFINISHED}


def _hold_all(context: StepContext, run: Run, application: Application) -> Outcome:
    """Each allocation of a gang counts as one of the cycle."""
    before = len(application.allocations)
    held = slot_room.hold_all(context, run.partition, application, slots.ask_each)
    run.allocated += max(0, len(application.allocations) - before - 1)
    return _HELD[held]


def _preempt(context: StepContext, run: Run) -> Outcome:
    if not run.partition.retry_timers.preemptors:
        return Outcome.NOTHING
    match preemption.advance(context, run.partition, run.visits_end):
        case Progress.DECIDED:
            return Outcome.ALLOCATED
        case Progress.UNFINISHED:
            return Outcome.UNFINISHED
        case Progress.NOTHING:
            return Outcome.NOTHING


PHASES: tuple[Phase, ...] = (
    # Lists asks that became due for a reservation or for a preemption attempt.
    Phase("retry timers", _collect_due, ()),
    # Before all other allocations, because a swap takes no new room; also for an ask that has reserved room elsewhere.
    Phase("swaps", _swap, (Outcome.ALLOCATED,)),
    # Before next asks, which could take the room otherwise.
    Phase("reserved room", _serve_reservation, (Outcome.ALLOCATED,)),
    Phase("new reservations", _reserve, (Outcome.ALLOCATED, Outcome.UNFINISHED)),
    Phase("next ask", _allocate_next, (Outcome.ALLOCATED, Outcome.BLOCKED, Outcome.PROPAGATED, Outcome.UNFINISHED)),
    # Only when no ask can be allocated.
    Phase("preemption", _preempt, (Outcome.ALLOCATED, Outcome.UNFINISHED)),
)
"""The phases in order. After each piece of work the cycle begins again with the first phase."""
_LAST_PHASES = PHASES[4:]
"""From "next ask" on."""
