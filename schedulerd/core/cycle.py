"""One scheduling cycle: place the next ask, and the next, up to a bound.

What cannot be placed is set aside with its reason (the queue whose quota is short, or no node with room) for all asks
of its request class at once, so a cycle spends its time on what moves. The bounds are counts: a bound by time would
make a replay of the same commands diverge.
"""

from __future__ import annotations

from schedulerd.core.decide.next_ask import next_ask
from schedulerd.core.facts import CycleRan
from schedulerd.core.handlers import gangs, predicate_checks, preemption, reserving, waiting
from schedulerd.core.handlers.allocating import allocate
from schedulerd.core.handlers.preemption import Progress
from schedulerd.core.model.application import Application
from schedulerd.core.model.parent_entity import Block, BlockReason, ParentEntity
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.request_class import PendingClass
from schedulerd.core.quotas.rules import highest_blocked
from schedulerd.core.step_context import StepContext

SET_ASIDE_MAX = 200
"""How many request classes one cycle may find impossible in a partition before it gives the loop back."""


def run_cycle(context: StepContext, placements_max: int) -> None:
    """Places up to `placements_max` asks over all partitions whose resource manager is there."""
    partitions = context.cluster.running_partitions()
    if not partitions:
        return
    first = context.cluster.cycle_turn % len(partitions)
    context.cluster.cycle_turn += 1
    placements = set_aside = visits = 0
    more = False
    for partition in partitions[first:] + partitions[:first]:
        before = partition.retry_timers.budget.visits
        visits_end = before + preemption.VISITS_PER_SLICE - visits
        placed, refused, cut = _run_partition(context, partition, placements_max - placements, visits_end)
        visits += partition.retry_timers.budget.visits - before
        placements += placed
        partition.moves += placed
        set_aside += refused
        more = more or cut
    if placements or set_aside:
        context.say(CycleRan(allocations=placements, unschedulable=set_aside, more=more))


def _run_partition(
    context: StepContext, partition: Partition, placements_max: int, visits_end: int
) -> tuple[int, int, bool]:
    """Returns how many asks were placed or asked about, how many request classes set aside, and whether it stopped at a
    bound.

    `visits_end` is where it stops to look for who might end for whom.
    """
    placements = set_aside = propagated = 0
    first_fit = partition.first_fit
    timers = partition.retry_timers
    budget = timers.budget
    callbacks = partition.callbacks
    is_asked_first, may_be_full = callbacks.predicates, callbacks.predicates or callbacks.preemption_predicates
    while placements < placements_max and set_aside + propagated < SET_ASIDE_MAX and budget.visits < visits_end:
        if may_be_full and callbacks.is_full:
            return placements, set_aside, False
        if timers.has_due:
            waiting.enqueue_due(context, partition)
        # Swaps first: who has a placeholder takes its room, also if other room was kept meanwhile.
        if (
            (partition.swaps and gangs.swap_next(context, partition))
            or (partition.ready and waiting.serve_next(context, partition))
            or (
                (timers.to_reserve or timers.to_reserve_required or timers.overflow)
                and reserving.reserve_next(context, partition, visits_end)
            )
        ):
            placements += 1
            continue
        if budget.visits >= visits_end:
            break
        found = next_ask(partition)
        if found is None:
            progress = preemption.advance(context, partition, visits_end)
            if progress is not Progress.DECIDED:
                return placements, set_aside, progress is Progress.UNFINISHED
            placements += 1
            continue
        partition.asks_tried += 1
        application, group, block = found
        queue = application.queue
        pending_class = group.pending_class
        if block is not None:
            _propagate(block, application, pending_class)
            propagated += 1
            continue
        blocked = highest_blocked(queue, pending_class.items, pending_class.quota_key)
        if blocked is not None:
            blocked.queue.block(pending_class, BlockReason.QUOTA)
            set_aside += 1
            continue
        node = first_fit(group.request_class)
        if node is None:
            waiting.mark_unschedulable(context, partition, pending_class, group.first())
            set_aside += 1
            continue
        if is_asked_first:
            predicate_checks.attempt(context, application, group.first(), node)
        else:
            allocate(context, application, group.first(), node)
        placements += 1
    return placements, set_aside, True


def _propagate(block: Block, application: Application, pending_class: PendingClass) -> None:
    """The pending class is blocked above: the cycle does not come across it on this way again."""
    ancestors: tuple[ParentEntity, ...] = (application, *application.queue.path_to_root)
    for ancestor in ancestors:
        if ancestor is block.origin:
            return
        if pending_class not in ancestor.pending_index.blocked_by:
            ancestor.propagate(pending_class, block)
