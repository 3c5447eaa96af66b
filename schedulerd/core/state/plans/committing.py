"""Commits a plan: all of it, or nothing."""

from __future__ import annotations

from schedulerd.core.language.facts.reservations import ReservationEnd
from schedulerd.core.state.actions import reservations
from schedulerd.core.state.actions.allocating import allocate
from schedulerd.core.state.actions.releases import release_victims
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.plans.plan import Plan, PlannedPreemption
from schedulerd.core.state.plans.rules import objection
from schedulerd.core.state.step_context import StepContext


def commit_plan(context: StepContext, partition: Partition, plan: Plan) -> str | None:
    """Commits the plan and returns None; or returns why it cannot be committed, as a sentence, and changes nothing."""
    against = objection(partition, plan)
    if against is not None:
        return against
    for preemption in plan.preemptions:
        _preempt(context, preemption)
    for one in plan.reservations:
        reservations.reserve(context, one.application, one.ask, one.node, is_entitled=one.is_entitled)
    for planned in plan.allocations:
        allocate(context, partition, planned.application, planned.ask, planned.node)
    return None


def _preempt(context: StepContext, planned: PlannedPreemption) -> None:
    application, ask, node = planned.application, planned.ask, planned.node
    weaker = ask.aging_on(node)
    if weaker is None and ask.unreserved <= 0:
        weaker = next(one for one in reversed(ask.reservations) if not one.is_entitled)
    if weaker is not None:
        reservations.end(context, weaker, ReservationEnd.NOT_NEEDED)
    reservation = reservations.reserve(context, application, ask, node, is_entitled=True)
    release_victims(context, reservation, planned.victims, planned.why)
