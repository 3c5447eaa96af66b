"""Placeholders that run out of time (gang design, Cleanup; SEMANTICS G5).

The time starts with the first placeholder placed. When it is over, an application that never got its gang fails
(`Hard`) or goes on without one (`Soft`); one that runs already just loses the placeholders it did not use. Nothing is
freed before the RM confirms.
"""

from __future__ import annotations

from schedulerd.core import commit
from schedulerd.core.commands import TerminationType
from schedulerd.core.facts import WithdrawCause
from schedulerd.core.handlers import application_states, departures
from schedulerd.core.lifecycles import ApplicationState, ApplicationTrigger
from schedulerd.core.model.application import Application
from schedulerd.core.turn import Turn

HARD_STYLE = "hard"
TIMED_OUT = "ResourceReservationTimeout"


def on_timeout(turn: Turn, application: Application) -> None:
    """The time for the gang is over."""
    application.gang_alarm = None
    if application.state is ApplicationState.ACCEPTED:
        hard = application.spec.gang_style.strip().lower() == HARD_STYLE
        trigger = ApplicationTrigger.FAIL if hard else ApplicationTrigger.RESUME
        application_states.fire(turn, application, trigger, TIMED_OUT)
    message = f"placeholders of application {application.application_id} timed out"
    for ask in sorted(application.asks.values(), key=lambda ask: ask.serial):
        if ask.placeholder:
            departures.withdraw_ask(turn, application, ask, WithdrawCause.TIMEOUT, TerminationType.TIMEOUT, message)
            commit.forget_if_done(application, ask)
    for allocation in application.allocations.values():
        if allocation.placeholder:
            departures.request_release(turn, allocation, TerminationType.TIMEOUT, message)
    application_states.on_less(turn, application)
