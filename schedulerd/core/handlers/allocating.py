"""Placing one pending allocation of an ask on the node that was chosen, and saying so."""

from __future__ import annotations

from schedulerd.core import commit
from schedulerd.core.handlers import application_states, execution_times, predicate_checks, releases, reservations
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.model.allocation import Ask
from schedulerd.core.model.application import Application
from schedulerd.core.model.node import Node
from schedulerd.core.step_context import StepContext


def allocate(context: StepContext, application: Application, ask: Ask, node: Node) -> None:
    """The change of state that comes with it is said first."""
    uuid = context.cluster.new_uuid()
    allocation = commit.allocate(application, ask, node, uuid)
    if ask.reservations:
        reservations.trim(context, ask)
    if ask.predicate_history is not None:
        predicate_checks.review(context, application, ask)
    if application.state is not ApplicationState.RUNNING or allocation.placeholder:
        application_states.on_placed(context, application, allocation)
    if ask.spec.execution_timeout_ms > 0:
        execution_times.begin(context, allocation)
    context.say(releases.allocated(allocation, ask.asked_at_ns))
