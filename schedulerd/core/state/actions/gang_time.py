"""The time of a gang: from its first allocated placeholder until it is complete or times out (SEMANTICS G5, I8).
A gang that declares its task groups, and loses members before it was complete, has its time while it waits for others.

During this time the gang's missing amounts are promised to it, and alarms check whether it is in a gang deadlock. A
complete gang has no deadline; its idle placeholders are released after a while.
"""

from __future__ import annotations

from schedulerd.core.language.facts.gangs import GangCompleted
from schedulerd.core.language.lifecycles import ApplicationState, GangState, GangTrigger
from schedulerd.core.language.specs import MILLISECOND_NS, Timeouts
from schedulerd.core.state.actions import gang_states
from schedulerd.core.state.alarm_events import (
    GangBelowMinTimeout,
    GangDeadlockTimeout,
    PlaceholdersIdle,
    PlaceholderTimeout,
)
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.application import SCHEDULABLE_STATES, Application
from schedulerd.core.state.model.gang import Gang
from schedulerd.core.state.model.gang_times import GangTimes
from schedulerd.core.state.nodes.own_room import exceed_all_nodes, gangs_that_hold
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import set_priority_gang
from schedulerd.core.state.pending.gang_order import is_ahead
from schedulerd.core.state.step_context import StepContext

HARD_STYLE = "hard"
REQUEUE_STYLE = "requeue"

AT_ONCE_NS = MILLISECOND_NS
"""After this time a gang deadlock is resolved that is certain."""

_TIMED_STATES = SCHEDULABLE_STATES | {ApplicationState.COMPLETING}


def begin(context: StepContext, application: Application) -> None:
    """The first placeholder was allocated: the time of the gang begins. A Completing application gets no promise,
    because nothing waits for its gang."""
    deadline_ns = context.now_ns + timeout_ns(context.cluster.timeouts, application)
    application.gang_alarm = context.cluster.alarms.set(deadline_ns, PlaceholderTimeout(application))
    if application.state is not ApplicationState.COMPLETING:
        commit.promise(context.partition_of(application), application)
    watch(context, application)
    if application.gang is not None and application.gang.declared:
        _resolve_at_once(context, context.partition_of(application))


def begin_without_members(context: StepContext, application: Application) -> None:
    """Members that the gang needs are withdrawn, and it gives back all that it holds: its time goes on, or begins, and
    ends when enough of them are asked for. A gang that is requeued anyway waits for them as long as it takes."""
    known = application.gang_alarm
    deadline_ns = context.now_ns + timeout_ns(context.cluster.timeouts, application)
    if known is not None:
        deadline_ns = known.deadline_ns
    end(context, application)
    if application.state in _TIMED_STATES and style(application) != REQUEUE_STYLE:
        application.gang_alarm = context.cluster.alarms.set(deadline_ns, PlaceholderTimeout(application))


def goes_on_without_room(application: Application) -> bool:
    """Whether the time of the gang, if it has any, does not end with the room that it holds."""
    gang = application.gang
    return gang is not None and gang.state is GangState.FORMING and application.state in _TIMED_STATES


def _resolve_at_once(context: StepContext, partition: Partition) -> None:
    """If the gangs that hold room cannot all be complete, the first of them is checked for a deadlock at once."""
    holding = gangs_that_hold(partition)
    if len(holding) > 1 and exceed_all_nodes(partition, holding):
        first = holding[0]
        for one in holding:
            first = one if is_ahead(one, first) else first
        assert first.gang is not None
        context.cluster.alarms.cancel(first.gang.times.deadlock_alarm)
        watch(context, first, AT_ONCE_NS)


def review(context: StepContext, partition: Partition) -> None:
    """Ends the time of gangs that became complete in this step, and starts the full time of gangs that are incomplete
    again."""
    touched, partition.gangs_touched = partition.gangs_touched, {}
    for application in touched:
        gang = application.gang
        assert gang is not None
        if is_complete(application):
            gang.was_complete = True
            note_complete(context, application)
            end(context, application)
        elif application.gang_alarm is None and gang.has_idle and needs_time(application):
            begin(context, application)
        if gang.state is GangState.COMPLETE and is_short(application, gang):
            gang_states.enter(context, application, GangTrigger.FALL_SHORT)
            application.rekey()
        elif gang.state is GangState.SHORT and not is_short(application, gang):
            gang_states.enter(context, application, GangTrigger.REPAIR)
            application.rekey()
        _watch_idle(context, application, gang)
        if gang.declared:
            _watch_short(context, application, gang)


def note_complete(context: StepContext, application: Application) -> None:
    """Nothing that is held or allocated is missing any longer to a gang that gathers, if so."""
    gang = application.gang
    if gang is not None and gang.state is GangState.GATHERING and is_complete(application):
        gang_states.enter(context, application, GangTrigger.COMPLETE)
        gang.gave_back = 0
        tell_if_complete(context, application)  # the last member may have got its node elsewhere


def is_short(application: Application, gang: Gang) -> bool:
    """Whether members are asked for of a task group that has fewer than it needs."""
    asked = {group.task_group for group in application.groups.values() if not group.placeholder}
    return any(
        name in asked and group.min > gang.task_group(name).members + gang.task_group(name).idle
        for name, group in gang.declared.items()
    )


def needs_time(application: Application) -> bool:
    """Whether the gang is incomplete, in a state of its application in which that matters."""
    return application.state in _TIMED_STATES and not is_complete(application)


def is_complete(application: Application) -> bool:
    """Whether no placeholder is pending, and the application holds the whole of its `placeholderAsk`, if it has one, or
    once held it and has run since."""
    gang = application.gang
    if gang is None or gang.waits:
        return False
    if gang.declared or application.gang_total.is_zero() or has_whole_gang(application):
        return True
    return gang.was_complete and application.has_run


def _watch_idle(context: StepContext, application: Application, gang: Gang) -> None:
    """Sets the alarm for idle placeholders of a complete gang, if the queue has a timeout for them; else cancels it."""
    idle_ns = application.queue.properties.gang_placeholder_idle_timeout_ns
    is_idle = application.state in SCHEDULABLE_STATES and gang.has_idle and is_complete(application)
    if not is_idle:
        context.cluster.alarms.cancel(gang.times.idle_alarm)
        gang.times.idle_alarm = None
        gang.times.idle_since_ns = None
        return
    if gang.times.idle_since_ns is None:
        gang.times.idle_since_ns = context.now_ns
    if idle_ns and gang.times.idle_alarm is None:
        deadline_ns = max(context.now_ns, gang.times.idle_since_ns + idle_ns)
        gang.times.idle_alarm = context.cluster.alarms.set(deadline_ns, PlaceholdersIdle(application))


def _watch_short(context: StepContext, application: Application, gang: Gang) -> None:
    """Sets the alarm of a gang that is short, if the queue has a timeout for that; else cancels it."""
    timeout_ns = application.queue.properties.gang_below_min_timeout_ns
    if gang.state is not GangState.SHORT or application.state not in SCHEDULABLE_STATES:
        context.cluster.alarms.cancel(gang.times.below_min_alarm)
        gang.times.below_min_alarm = gang.times.short_since_ns = None
        return
    if gang.times.short_since_ns is None:
        gang.times.short_since_ns = context.now_ns
    deadline_ns = gang.times.short_since_ns + timeout_ns
    if timeout_ns and gang.times.below_min_alarm is None and deadline_ns > context.now_ns:
        gang.times.below_min_alarm = context.cluster.alarms.set(deadline_ns, GangBelowMinTimeout(application))


def reset_idle(context: StepContext, partition: Partition) -> None:
    """The queue file may have changed the timeouts of idle placeholders and of short gangs: all their alarms are set
    again."""
    for application in partition.applications.values():
        if application.gang is not None:
            context.cluster.alarms.cancel(application.gang.times.idle_alarm)
            context.cluster.alarms.cancel(application.gang.times.below_min_alarm)
            application.gang.times.idle_alarm = application.gang.times.below_min_alarm = None
            partition.gangs_touched[application] = None


def forget(context: StepContext, application: Application) -> None:
    """The application ends: cancels all alarms of its gang."""
    end(context, application)
    if application.gang is not None:
        for alarm in application.gang.times.alarms():
            context.cluster.alarms.cancel(alarm)
        application.gang.times = GangTimes()
        partition = context.partition_of(application)
        for noted in (partition.gangs_touched, partition.gangs_to_review, partition.bound_gangs):
            noted.pop(application, None)
        gang_states.forget(context, application, "its application ends")


def watch(context: StepContext, application: Application, patience_ns: int = 0) -> None:
    """Sets the alarm that checks for a gang deadlock, after `patience_ns`, or after the configured time if that is
    0."""
    timeouts, gang = context.cluster.timeouts, application.gang
    assert gang is not None
    if timeouts.gang_deadlock_timeout_ns:
        patience_ns = patience_ns or _patience_ns(context, application)
        alarm = context.cluster.alarms.set(context.now_ns + patience_ns, GangDeadlockTimeout(application))
        gang.times.deadlock_alarm = alarm


def _patience_ns(context: StepContext, application: Application) -> int:
    timeouts, gang = context.cluster.timeouts, application.gang
    most_ns = min(timeouts.gang_deadlock_timeout_ns, timeout_ns(timeouts, application) // 2)
    if gang is not None and gang.declared:
        partition = context.partition_of(application)
        holding = gangs_that_hold(partition)
        if len(holding) > 1 and exceed_all_nodes(partition, holding):
            return min(most_ns, timeouts.reservation_delay_ns) or 1
    return most_ns


def end(context: StepContext, application: Application) -> None:
    """Ends the time of the gang, if it has one: its placeholders are gone, it is complete, or it timed out."""
    if application.gang_alarm is not None:
        partition = context.partition_of(application)
        context.cluster.alarms.cancel(application.gang_alarm)
        application.gang_alarm = None
        assert application.gang is not None
        context.cluster.alarms.cancel(application.gang.times.deadlock_alarm)
        application.gang.times.deadlock_alarm = None
        if partition.priority_gang is application:
            set_priority_gang(partition, None)
        commit.end_promise(partition, application)


def tell_if_complete(context: StepContext, application: Application, members: int = 0) -> None:
    """After a placeholder was allocated, or `members` of a gang without any: sends `GangCompleted` if the gang is
    complete for the first time."""
    gang = application.gang
    assert gang is not None
    if gang.pending or not gang.completion_untold:
        return
    if not application.gang_total.is_zero() and not has_whole_gang(application):
        return
    assert gang.first_asked_ns is not None
    gang.completed_ns, gang.completion_untold = context.now_ns, False
    context.emit(
        GangCompleted(
            rm_id=application.rm_id,
            partition=application.partition_name,
            queue=application.queue.path,
            application_id=application.application_id,
            placeholders=application.placeholders + members,
            waited_ns=context.now_ns - gang.first_asked_ns,
            declared=bool(gang.declared),
        )
    )


def has_whole_gang(application: Application) -> bool:
    """Whether the application holds its whole `placeholderAsk`. Real allocations outside the gang count too (recorded
    decision)."""
    ask = application.gang_total
    held = application.placeholder_allocated.plus(application.allocated)
    return not ask.is_zero() and held.lacks(ask.items()) is None


def style(application: Application) -> str:
    """What happens at the end of the gang's time: `HARD_STYLE`, `REQUEUE_STYLE`, or anything else for Soft."""
    return application.spec.gang_style.strip().lower()


def timeout_ns(timeouts: Timeouts, application: Application) -> int:
    """The timeout of the gang: the execution timeout of the application if it has a `placeholderAsk` (SEMANTICS E3),
    else the default."""
    spec = application.spec
    if spec.execution_timeout_ms > 0 and application.is_gang:
        return spec.execution_timeout_ms * MILLISECOND_NS
    return timeouts.placeholder_ns
