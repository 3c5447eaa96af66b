"""The time a gang has: from its first placeholder placed until it is complete, or the time is over (SEMANTICS G5, I8).

While it has its time, what it still lacks is promised to it, and it is looked at again and again whether others have to
give way to it. A complete gang has no deadline; placeholders that no ask takes go after a while.
"""

from __future__ import annotations

from schedulerd.core import commit
from schedulerd.core.alarm_events import GangDeadlockTimeout, PlaceholdersIdle, PlaceholderTimeout
from schedulerd.core.gang_facts import GangCompleted
from schedulerd.core.lifecycles import ApplicationState
from schedulerd.core.model.application import SCHEDULABLE_STATES, Application
from schedulerd.core.model.gang import Gang
from schedulerd.core.model.partition import Partition
from schedulerd.core.specs import MILLISECOND_NS, Timeouts
from schedulerd.core.step_context import StepContext

_TIMED_STATES = SCHEDULABLE_STATES | {ApplicationState.COMPLETING}


def begin(context: StepContext, application: Application) -> None:
    """Its first placeholder is there. One that is Completing is not waited for, so nothing is promised to it."""
    deadline_ns = context.now_ns + timeout_ns(context.cluster.timeouts, application)
    application.gang_alarm = context.cluster.alarms.set(deadline_ns, PlaceholderTimeout(application))
    if application.state is not ApplicationState.COMPLETING:
        commit.promise(application)
    watch(context, application)


def review(context: StepContext, partition: Partition) -> None:
    """Ends the time of gangs that became complete in this step, and gives its full time to one that is so no longer."""
    touched, partition.gangs_touched = partition.gangs_touched, {}
    for application in touched:
        gang = application.gang
        assert gang is not None
        if is_complete(application):
            gang.was_complete = True
            end(context, application)
        elif application.gang_alarm is None and gang.has_idle and needs_time(application):
            begin(context, application)
        _watch_idle(context, application, gang)


def needs_time(application: Application) -> bool:
    """Whether its gang is not complete, in a state in which that matters."""
    return application.state in _TIMED_STATES and not is_complete(application)


def is_complete(application: Application) -> bool:
    """Whether no placeholder is pending and it has the whole of its `placeholderAsk`, or had it before it ran."""
    gang = application.gang
    if gang is None or gang.pending:
        return False
    if application.spec.placeholder_ask.is_zero() or has_whole_gang(application):
        return True
    return gang.was_complete and application.has_run


def _watch_idle(context: StepContext, application: Application, gang: Gang) -> None:
    """Sees to it that idle placeholders of a complete gang go after a while, if the queue limits that."""
    idle_ns = application.queue.properties.gang_placeholder_idle_timeout_ns
    is_idle = application.state in SCHEDULABLE_STATES and gang.has_idle and is_complete(application)
    if not is_idle:
        context.cluster.alarms.cancel(gang.idle_alarm)
        gang.idle_alarm = None
        gang.idle_since_ns = None
        return
    if gang.idle_since_ns is None:
        gang.idle_since_ns = context.now_ns
    if idle_ns and gang.idle_alarm is None:
        deadline_ns = max(context.now_ns, gang.idle_since_ns + idle_ns)
        gang.idle_alarm = context.cluster.alarms.set(deadline_ns, PlaceholdersIdle(application))


def reset_idle(context: StepContext, partition: Partition) -> None:
    """The queue file may allow idle placeholders another time."""
    for application in partition.applications.values():
        if application.gang is not None:
            context.cluster.alarms.cancel(application.gang.idle_alarm)
            application.gang.idle_alarm = None
            partition.gangs_touched[application] = None


def forget(context: StepContext, application: Application) -> None:
    """The application ends, and with it whatever is timed of its gang."""
    end(context, application)
    if application.gang is not None:
        context.cluster.alarms.cancel(application.gang.idle_alarm)
        application.gang.idle_alarm = None
        application.partition.gangs_touched.pop(application, None)


def watch(context: StepContext, application: Application, patience_ns: int = 0) -> None:
    """After `patience_ns`, or as long as is usual, it is looked at whether the gang finds the room it needs."""
    timeouts, gang = context.cluster.timeouts, application.gang
    assert gang is not None
    if timeouts.gang_deadlock_timeout_ns:
        patience_ns = patience_ns or min(timeouts.gang_deadlock_timeout_ns, timeout_ns(timeouts, application) // 2)
        alarm = context.cluster.alarms.set(context.now_ns + patience_ns, GangDeadlockTimeout(application))
        gang.deadlock_alarm = alarm


def end(context: StepContext, application: Application) -> None:
    """Its placeholders are gone, or their time is over; fine if there was none."""
    if application.gang_alarm is not None:
        context.cluster.alarms.cancel(application.gang_alarm)
        application.gang_alarm = None
        assert application.gang is not None
        context.cluster.alarms.cancel(application.gang.deadlock_alarm)
        application.gang.deadlock_alarm = None
        if application.partition.priority_gang is application:
            application.partition.set_priority_gang(None)
        commit.end_promise(application)


def say_if_full(context: StepContext, application: Application) -> None:
    """A placeholder was placed: it may have been the last that was missing."""
    gang, partition, queue = application.gang, application.partition, application.queue
    assert gang is not None
    if gang.pending or not gang.awaits_full:
        return
    if not application.spec.placeholder_ask.is_zero() and not has_whole_gang(application):
        return
    assert gang.first_asked_ns is not None
    gang.full_ns, gang.awaits_full = context.now_ns, False
    context.say(
        GangCompleted(
            rm_id=partition.rm_id,
            partition=partition.name,
            queue=queue.path,
            application_id=application.application_id,
            placeholders=application.placeholders,
            waited_ns=context.now_ns - gang.first_asked_ns,
        )
    )


def has_whole_gang(application: Application) -> bool:
    """Whether it has all that it announced; what it has beside its gang counts as well, as recorded."""
    ask = application.spec.placeholder_ask
    held = application.placeholder_allocated.plus(application.allocated)
    return not ask.is_zero() and held.lacks(ask.items()) is None


def timeout_ns(timeouts: Timeouts, application: Application) -> int:
    """How long a gang may take: what the application says, if it says for what (SEMANTICS E3), else the default."""
    spec = application.spec
    if spec.execution_timeout_ms > 0 and not spec.placeholder_ask.is_zero():
        return spec.execution_timeout_ms * MILLISECOND_NS
    return timeouts.placeholder_ns
