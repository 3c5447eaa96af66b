"""Changes of application states: one function for all moves, and the rules for when they happen.

Entering a state sets its alarm and leaving it cancels the alarm, from one table for all states, so no alarm can outlive
its state.
"""

from __future__ import annotations

from collections.abc import Mapping

from schedulerd.core.language.ask_tags import tag
from schedulerd.core.language.commands import NewApplication, TerminationType
from schedulerd.core.language.facts.fact import ApplicationChanged, ApplicationForgotten, ReleaseCause, WithdrawCause
from schedulerd.core.language.fsm import is_legal, move
from schedulerd.core.language.lifecycles import APPLICATION, TERMINAL_STATES, ApplicationState, ApplicationTrigger
from schedulerd.core.language.specs import MILLISECOND_NS, Timeouts
from schedulerd.core.state.actions import gang_time, queue_changes, releases
from schedulerd.core.state.alarm_events import ApplicationExecutionTimeout, ApplicationStateTimeout, RejectionTimeout
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import SCHEDULABLE_STATES, Application
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.partition import REMEMBERED_MAX, Partition
from schedulerd.core.state.pending.asks import on_state_changed
from schedulerd.core.state.pending.start_order import admit_next
from schedulerd.core.state.step_context import StepContext

STATE_AWARE_DISABLE_TAG = "application.stateaware.disable"
"""SI constant `AppTagStateAwareDisable`."""

TIMED_STATES: Mapping[ApplicationState, tuple[str, ApplicationTrigger]] = {
    ApplicationState.STARTING: ("starting_ns", ApplicationTrigger.RUN),
    ApplicationState.COMPLETING: ("completing_ns", ApplicationTrigger.COMPLETE),
    ApplicationState.COMPLETED: ("retention_ns", ApplicationTrigger.EXPIRE),
    ApplicationState.FAILED: ("retention_ns", ApplicationTrigger.EXPIRE),
}
"""States that end by themselves: the field of Timeouts with their duration, and the trigger that ends them."""


def fire(context: StepContext, application: Application, trigger: ApplicationTrigger, cause: str = "") -> None:
    """Moves the application to its next state and says so. Raises IllegalMove if the table has no such move."""
    partition = context.partition_of(application)
    old = application.state
    new = move(APPLICATION, old, trigger)
    if new is old:
        return
    application.state = new
    cause = cause or trigger.value
    application.state_log.append((context.now_ns, new, cause))
    alarms = context.cluster.alarms
    alarms.cancel(application.alarm)
    application.alarm = None
    if new in TIMED_STATES:
        deadline_ns = context.now_ns + _timeout_ns(context.cluster.timeouts, application)
        application.alarm = alarms.set(deadline_ns, ApplicationStateTimeout(application))
    _limit_run(context, application)
    queue = application.queue
    context.emit(
        ApplicationChanged(
            rm_id=application.rm_id,
            partition=application.partition_name,
            queue=queue.path,
            application_id=application.application_id,
            old_state=old,
            state=new,
            cause=cause,
            at_ns=context.now_ns,
        )
    )
    on_state_changed(partition, application)
    admit_next(partition, queue)
    if new is ApplicationState.COMPLETING:
        commit.retire(partition, application)
    elif new is ApplicationState.EXPIRED:
        forget(context, application)
    elif new in TERMINAL_STATES:
        _leave_queue(context, application)


def on_ask(context: StepContext, application: Application, *, placeholder: bool, recovered: bool = False) -> None:
    """An ask was added, or an existing allocation is about to be: a New application is accepted, and a Completing one
    runs again, or waits for its gang again.

    A recovered placeholder does not make an application run again.
    """
    state = application.state
    if state is ApplicationState.NEW:
        fire(context, application, ApplicationTrigger.RUN)
    elif state is ApplicationState.COMPLETING:
        if _has_gang_to_wait_for(application, placeholder=placeholder):
            fire(context, application, ApplicationTrigger.RESUME)
        elif not (placeholder and recovered):
            fire(context, application, ApplicationTrigger.RUN)


def _has_gang_to_wait_for(application: Application, *, placeholder: bool) -> bool:
    """Whether a Completing application is one with a gang that has never started: otherwise it would run without its
    gang, only because it lost all placeholders before the last of them was asked for."""
    has_gang = placeholder or application.gang is not None or application.is_gang
    _, before, _ = application.state_log[-2]
    return has_gang and before is ApplicationState.ACCEPTED


def on_placed(context: StepContext, application: Application, allocation: Allocation) -> None:
    """An allocation was made: the first real one makes the application Starting, the second Running.

    A placeholder changes no state until the application has the whole `placeholderAsk` (gang design: pending
    placeholders delay the exit from Accepted). A first placeholder that does not complete the gang begins the gang's
    time.
    """
    if not allocation.placeholder:
        if application.state in SCHEDULABLE_STATES:
            fire(context, application, ApplicationTrigger.RUN)
        return
    if application.gang_alarm is not None:
        commit.keep_promise(application)
    elif gang_time.needs_time(application):
        gang_time.begin(context, application)
    gang_time.tell_if_complete(context, application)
    if application.state is ApplicationState.ACCEPTED and gang_time.has_whole_gang(application):
        fire(context, application, ApplicationTrigger.RUN)
    elif not application.groups or application.lets_next_start:
        admit_next(context.partition_of(application), application.queue)


def on_resized(context: StepContext, application: Application, allocation: Allocation) -> None:
    """The allocation has other amounts (SEMANTICS I17, I25). With a larger placeholder the gang may be whole."""
    if not allocation.placeholder:
        context.partition_of(application).note_members(application)
        return
    if application.gang_alarm is not None:
        commit.keep_promise(application)
    if application.state is ApplicationState.ACCEPTED and gang_time.has_whole_gang(application):
        fire(context, application, ApplicationTrigger.RUN)


def on_taken_over(context: StepContext, allocation: Allocation) -> None:
    """A node was registered with the allocation. If the RM was already asked to release the other allocations of the
    application, it is asked to release this one too: otherwise the application would wait for it for ever."""
    application = allocation.application
    state = application.state
    if application.gang_alarm is not None and not allocation.placeholder and allocation.spec.task_group:
        commit.keep_promise(application)
    message = (
        f"application {application.application_id} is {state}: the reported allocation is released with the others"
    )
    partition = context.partition_of(application)
    if state is ApplicationState.FAILING or (state is ApplicationState.RESUMING and allocation.placeholder):
        releases.request_release(context, partition, allocation, ReleaseCause.TIMED_OUT, message)
    elif state is ApplicationState.COMPLETING and application.alarm is None:
        releases.request_release(context, partition, allocation, ReleaseCause.UNUSED, message)


def on_swapped(context: StepContext, application: Application) -> None:
    """A real ask got the room of its placeholder.

    The application is Starting since its gang was complete. The first swap does not change that, unless no placeholders
    and no pending asks are left.
    """
    if application.state is ApplicationState.ACCEPTED:
        fire(context, application, ApplicationTrigger.RUN)
    several = len(application.allocations) - application.placeholders > 1
    is_last = not application.placeholders and not application.groups
    if application.state is ApplicationState.STARTING and (several or is_last):
        fire(context, application, ApplicationTrigger.RUN)


def on_fewer_asks(context: StepContext, application: Application) -> None:
    """Asks are gone. Placeholders hold room for asks that are still to come, so with placeholders the application does
    not complete, unless it is Running: then placeholders do not count as activity (gang design, Definition)."""
    if not application.placeholders or application.state is ApplicationState.RUNNING:
        on_less(context, application)


def on_less(context: StepContext, application: Application) -> None:
    """Asks or allocations are gone: if none are left, the application moves on towards its end."""
    if not application.placeholders:
        if not gang_time.goes_on_without_room(application):
            gang_time.end(context, application)
        if application.state is ApplicationState.RESUMING:
            fire(context, application, ApplicationTrigger.RUN)
            if len(application.allocations) > application.placeholders:
                fire(context, application, ApplicationTrigger.RUN)
            elif application.is_idle:
                _delay_completion(context, application)
                return
    if application.state is ApplicationState.COMPLETING:
        if application.alarm is None and not application.allocations:
            fire(context, application, ApplicationTrigger.COMPLETE)
    elif application.state is ApplicationState.FAILING:
        if not application.allocations:
            # The last state change said why it fails.
            fire(context, application, ApplicationTrigger.FAIL, application.state_log[-1][2])
    elif application.is_idle and is_legal(APPLICATION, application.state, ApplicationTrigger.COMPLETE):
        fire(context, application, ApplicationTrigger.COMPLETE)


def _delay_completion(context: StepContext, application: Application) -> None:
    """A gang that continues without placeholders still expects its real asks, so it does not complete at once."""
    deadline_ns = context.now_ns + context.cluster.timeouts.completing_ns
    application.alarm = context.cluster.alarms.set(deadline_ns, ApplicationStateTimeout(application))


def on_state_timeout(context: StepContext, application: Application) -> None:
    """The time of the application's present state is over."""
    application.alarm = None
    if application.state is ApplicationState.ACCEPTED:
        on_fewer_asks(context, application)
        return
    if application.state is ApplicationState.COMPLETING and application.allocations:
        partition = context.partition_of(application)
        message = f"application {application.application_id} is completing: its unused placeholders are released"
        for allocation in application.allocations.values():
            releases.request_release(context, partition, allocation, ReleaseCause.UNUSED, message)
        return
    fire(context, application, TIMED_STATES[application.state][1])


def fail(context: StepContext, application: Application, cause: str, message: str) -> None:
    """The application fails: its asks are withdrawn, and the RM is asked to release all of its allocations, with
    TIMEOUT and this message."""
    fire(context, application, ApplicationTrigger.FAIL, cause)
    releases.withdraw_all(context, application, WithdrawCause.TIMEOUT, TerminationType.TIMEOUT, message)
    partition = context.partition_of(application)
    for allocation in application.allocations.values():
        releases.request_release(context, partition, allocation, ReleaseCause.TIMED_OUT, message)
    on_less(context, application)


def forget(context: StepContext, application: Application) -> None:
    """Nothing is remembered of the application any longer."""
    for alarm in (application.alarm, application.run_alarm, application.start_alarm):
        context.cluster.alarms.cancel(alarm)
    application.alarm = application.run_alarm = application.start_alarm = None
    gang_time.forget(context, application)
    context.partition_of(application).forget(application)
    context.emit(
        ApplicationForgotten(
            rm_id=application.rm_id,
            partition=application.partition_name,
            queue=application.queue.path,
            application_id=application.application_id,
            state=application.state,
        )
    )


def _leave_queue(context: StepContext, application: Application) -> None:
    """A terminated application leaves its queue, frees its id, and is remembered for a while."""
    message = f"application {application.application_id} is {application.state}"
    ended = WithdrawCause.APPLICATION_ENDED
    releases.withdraw_all(context, application, ended, TerminationType.TIMEOUT, message)
    gang_time.forget(context, application)
    queue_changes.leave(context, application)
    commit.retire(context.partition_of(application), application)
    _remember(context, application)


def reject(context: StepContext, partition: Partition, spec: NewApplication, reason: str, queue: str = "") -> None:
    """The application is rejected, and remembered for a while with the reason and the queue that it would have had."""
    rejected = RejectedApplication(
        spec, partition.rm_id, partition.name, partition.next_serial(), context.now_ns, reason, queue
    )
    deadline_ns = context.now_ns + context.cluster.timeouts.retention_ns
    rejected.alarm = context.cluster.alarms.set(deadline_ns, RejectionTimeout(rejected))
    context.emit(_rejection(context, rejected, None, reason))
    _remember(context, rejected)


def on_rejection_timeout(context: StepContext, rejected: RejectedApplication) -> None:
    """A rejected application expires and is forgotten."""
    rejected.state = move(APPLICATION, rejected.state, ApplicationTrigger.EXPIRE)
    context.emit(_rejection(context, rejected, ApplicationState.REJECTED, ApplicationTrigger.EXPIRE.value))
    forget_terminated(context, rejected)


def forget_terminated(context: StepContext, application: Application | RejectedApplication) -> None:
    """Forgets an application that has terminated or was rejected."""
    if isinstance(application, Application):
        forget(context, application)
        return
    context.cluster.alarms.cancel(application.alarm)
    application.alarm = None
    partition = context.partition_of(application)
    partition.forget(application)
    id_, state = application.application_id, application.state
    context.emit(ApplicationForgotten(partition.rm_id, partition.name, "", id_, state))


def _remember(context: StepContext, application: Application | RejectedApplication) -> None:
    partition = context.partition_of(application)
    partition.remember(application)
    if len(partition.terminated) > REMEMBERED_MAX:
        forget_terminated(context, next(iter(partition.terminated.values())))


def _rejection(
    context: StepContext, rejected: RejectedApplication, old: ApplicationState | None, cause: str
) -> ApplicationChanged:
    return ApplicationChanged(
        rm_id=rejected.rm_id,
        partition=rejected.partition_name,
        queue="",
        application_id=rejected.application_id,
        old_state=old,
        state=rejected.state,
        cause=cause,
        at_ns=context.now_ns,
    )


def _limit_run(context: StepContext, application: Application) -> None:
    """Starts or ends the execution timeout of the application, which runs from Starting until the application ends,
    also while it is Completing in between.

    An application that had only asks before it was Completing becomes Running without being Starting: then the timeout
    runs from there.
    """
    spec, state, alarms = application.spec, application.state, context.cluster.alarms
    is_limited = spec.execution_timeout_ms > 0 and not application.is_gang
    runs = state in (ApplicationState.STARTING, ApplicationState.RUNNING)
    if runs and is_limited and application.run_alarm is None:
        deadline_ns = context.now_ns + spec.execution_timeout_ms * MILLISECOND_NS
        application.run_alarm = alarms.set(deadline_ns, ApplicationExecutionTimeout(application))
    elif state is ApplicationState.FAILING or state in TERMINAL_STATES:
        alarms.cancel(application.run_alarm)
        application.run_alarm = None


def _timeout_ns(timeouts: Timeouts, application: Application) -> int:
    """How long the present state may last; 0 for Starting with the tag `STATE_AWARE_DISABLE_TAG`."""
    is_starting = application.state is ApplicationState.STARTING
    if is_starting and tag(application.spec.tags, STATE_AWARE_DISABLE_TAG).lower() == "true":
        return 0
    timeout_ns: int = getattr(timeouts, TIMED_STATES[application.state][0])
    return timeout_ns
