"""In a state-aware leaf, an application that has been blocked for long lets the next one start."""

from __future__ import annotations

from schedulerd.core.alarm_events import StartTimeout
from schedulerd.core.model.application import Application
from schedulerd.core.partition import Partition
from schedulerd.core.pending.enqueueing import admit_next, holds_nothing, is_blocked, next_to_start
from schedulerd.core.specs import ApplicationOrder
from schedulerd.core.step_context import StepContext


def watch(context: StepContext, partition: Partition) -> None:
    """Sets the alarms of the applications that became the last one that may start in their leaf."""
    for application in partition.may_start_next:
        if application.application_id in application.queue.applications and application.start_alarm is None:
            _set_alarm(context, application)
    partition.may_start_next.clear()


def _set_alarm(context: StepContext, application: Application) -> None:
    deadline_ns = context.now_ns + application.queue.properties.stateaware_timeout_ns
    application.start_alarm = context.cluster.alarms.set(deadline_ns, StartTimeout(application))


def on_timeout(context: StepContext, application: Application) -> None:
    """Lets the next application start if this one holds nothing and could not start now.

    Otherwise the timeout is set again, as long as this application is the next one.
    """
    application.start_alarm = None
    queue = application.queue
    is_state_aware = queue.properties.application_order is ApplicationOrder.STATE_AWARE
    if not is_state_aware or queue.applications.get(application.application_id) is not application:
        return
    if next_to_start(queue)[-1:] != [application]:
        return
    if holds_nothing(application) and is_blocked(application):
        application.lets_next_start = True
        admit_next(context.partition_of(application), queue)
    else:
        _set_alarm(context, application)
