"""What features do after another one has acted: no feature calls a handler of another one.

What happens at the end of every step, whatever the command was, is `after_step`, from top to bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedulerd.core.predicates.handlers.predicate_results import OnAnswer
from schedulerd.core.preemption.handlers import preemption
from schedulerd.core.reservations.handlers import new_reservations
from schedulerd.core.reservations.handlers.reserved_room import RequiredNode
from schedulerd.core.scheduling_states.handlers import scheduling_states
from schedulerd.core.state.actions import gang_time, retries, slots
from schedulerd.core.state.model.predicate_check import Purpose
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.end_of_step import end_of_step
from schedulerd.core.state.step_context import StepContext

ON_RETRY_DUE: tuple[Callable[[StepContext, Partition], None], ...] = (
    # Asks that are due for a reservation, before preemption is attempted for any.
    new_reservations.collect_due,
    preemption.collect_due,
)
"""Asks of a partition have become old enough: the cycle lists them."""

ON_REQUIRED_NODE = RequiredNode(make_room=preemption.for_required_node, refuse=preemption.refuse_for_quota)
"""Room is reserved for an ask on its required node, which does not have it."""

ON_ANSWER: Mapping[Purpose, OnAnswer] = {
    Purpose.RESERVE: OnAnswer(new_reservations.reserve_agreed, new_reservations.reserve_refused),
    Purpose.PREEMPT: OnAnswer(preemption.agreed, preemption.refused),
}
"""A resource manager has answered a predicate check, and what the check held is free again."""


def after_step(context: StepContext) -> None:
    """Whatever the command was: gangs that changed, asks that may be tried again, retries, and what RMs are told."""
    for partition in context.cluster.partitions():
        if partition.gangs_touched or partition.gangs_to_review or partition.bound_gangs:
            slots.finish(context, partition)
            gang_time.review(context, partition)
        end_of_step(partition)
        timers = partition.retry_timers
        if timers.reservations_due.times or timers.attempts_due.times or timers.alarm is not None:
            retries.schedule_alarm(context, partition)
    for rm in context.cluster.resource_managers.values():
        if rm.scheduling_state_tracker is not None:
            scheduling_states.on_facts(context, rm, rm.scheduling_state_tracker)
