"""The timeouts of gangs, and gangs that give way (gang design; SEMANTICS G5, I8)."""

from __future__ import annotations

from schedulerd.core.gangs import sentences as gang_words
from schedulerd.core.gangs.rules.gang_deadlock import gangs_to_release
from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.fact import ReleaseCause, WithdrawCause
from schedulerd.core.language.facts.gangs import GangBelowMin, GangGaveWay, GangTimedOut
from schedulerd.core.language.lifecycles import ApplicationState, ApplicationTrigger, GangState, GangTrigger
from schedulerd.core.language.specs import MILLISECOND_NS, SECOND_NS, OnBelowMin
from schedulerd.core.state.actions import application_states, gang_states, gang_time, releases, slots
from schedulerd.core.state.ledger import commit
from schedulerd.core.state.model.application import SCHEDULABLE_STATES, Application
from schedulerd.core.state.model.gang import UNBEGUN, Gang
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.pending.asks import set_priority_gang, update_groups
from schedulerd.core.state.step_context import StepContext

DEADLOCK_CHECK_SPACING_NS = 10 * MILLISECOND_NS
"""Minimum time between the deadlock checks of two gangs whose alarms ring together, so that one step does not check all
of them."""


def on_deadlock_timeout(context: StepContext, application: Application) -> None:
    """The gang lacked room on nodes for its deadlock timeout: later incomplete gangs release their placeholders, if
    that helps."""
    gang, partition = application.gang, context.partition_of(application)
    assert gang is not None
    if partition.deadlock_checked_ns == context.now_ns or (
        not gang.times.is_check_postponed and partition.next_deadlock_check_ns > context.now_ns
    ):
        slot_ns = max(partition.next_deadlock_check_ns, context.now_ns + DEADLOCK_CHECK_SPACING_NS)
        gang.times.is_check_postponed = True
        gang_time.watch(context, application, slot_ns - context.now_ns)
        partition.next_deadlock_check_ns = slot_ns + DEADLOCK_CHECK_SPACING_NS
        return
    gang.times.is_check_postponed = False
    partition.deadlock_checked_ns = context.now_ns
    partition.next_deadlock_check_ns = max(partition.next_deadlock_check_ns, context.now_ns + DEADLOCK_CHECK_SPACING_NS)
    gang_time.watch(context, application)
    giving = gangs_to_release(partition, application)
    if giving is None:
        if partition.priority_gang is application:
            set_priority_gang(partition, None)
        return
    if partition.priority_gang is not application:
        set_priority_gang(partition, application)
    for one in giving:
        assert one.gang is not None
        one.gang.gave_back += 1
        placeholders = list(one.gang.idle_placeholders())
        context.emit(
            GangGaveWay(
                rm_id=partition.rm_id,
                partition=partition.name,
                queue=one.queue.path,
                application_id=one.application_id,
                placeholders=len(placeholders),
                in_favour_of=application.application_id,
                declared=one.declares_gang,
            )
        )
        message = f"incomplete gang {one.application_id} is released for the earlier gang {application.application_id}"
        for placeholder in placeholders:
            placeholder.ask_again_when_gone = True
            releases.request_release(context, partition, placeholder, ReleaseCause.GAVE_WAY, message)


def on_timeout(context: StepContext, application: Application) -> None:
    """The gang timed out.

    An application that waited for its gang fails (`Hard`), resumes without it (`Soft`), or, if it declares its task
    groups and gathers, waits and tries again (`Requeue`); also one that was Starting or
    Running because its gang was complete once, and lost placeholders before anything real was allocated. An application
    that has run only loses its unused placeholders, unless its gang declares its task groups and is not complete: then
    members that run were bound by somebody else.

    The RM is told of each placeholder's ask that it has timed out, also of one that was allocated: so it does not take
    the release of one for an ordinary loss, after which it would ask again. No room is freed before the RM confirms.
    """
    partition, gang = context.partition_of(application), application.gang
    assert gang is not None
    has_begun = application.has_run if gang.state is None else gang.state not in UNBEGUN
    gave_up = application.state in SCHEDULABLE_STATES and not has_begun
    had_ns = gang_time.timeout_ns(context.cluster.timeouts, application)
    why = (
        gang_words.timed_out(partition, application, had_ns) if gave_up else ""
    )  # before the withdrawal, which removes the reasons
    gang_time.end(context, application)
    releases.cancel_yield(application.allocations.values())
    style = gang_time.style(application)
    if gave_up and style == gang_time.REQUEUE_STYLE and gang.state is GangState.GATHERING:
        context.emit(_timed_out(partition, application, gang))
        slots.requeue(context, partition, application)
        return
    if gave_up:
        trigger = ApplicationTrigger.FAIL if style == gang_time.HARD_STYLE else ApplicationTrigger.RESUME
        application_states.fire(context, application, trigger, why)
    message = f"placeholders of application {application.application_id} timed out"
    for ask in sorted(application.asks.values(), key=lambda ask: ask.serial):
        if ask.placeholder:
            releases.withdraw_ask(
                context, partition, application, ask, WithdrawCause.TIMEOUT, TerminationType.TIMEOUT, message
            )
            commit.forget_if_done(application, ask)
    for allocation in application.allocations.values():
        if allocation.placeholder or (
            gave_up and style == gang_time.HARD_STYLE
        ):  # members that somebody else has bound too
            releases.request_release(context, partition, allocation, ReleaseCause.TIMED_OUT, message)
    if gang.state in UNBEGUN:
        gang_states.enter(context, application, GangTrigger.GIVE_UP)
        update_groups(partition, application, placeholders=False)  # they were not admitted while it was forming
    gang.completion_untold = False
    context.emit(_timed_out(partition, application, gang))
    if application.state is ApplicationState.FAILING:
        for allocation in application.allocations.values():
            releases.end_placeholder_wait(context, allocation)
    application_states.on_less(context, application)


def on_idle_timeout(context: StepContext, application: Application) -> None:
    """The idle placeholders of a complete gang are released if no ask took one for the idle timeout (SEMANTICS I8)."""
    partition = context.partition_of(application)
    gang, queue = application.gang, application.queue
    assert gang is not None
    gang.times.idle_alarm = None
    idle_ns = queue.properties.gang_placeholder_idle_timeout_ns
    if gang.times.idle_since_ns is None or context.now_ns < gang.times.idle_since_ns + idle_ns:
        partition.gangs_touched[application] = None
        return
    idle = list(gang.idle_placeholders())
    message = (
        f"{len(idle)} placeholders of application {application.application_id} are idle: no ask took one of them for "
        f"{idle_ns / SECOND_NS:g} s (gang.placeholder.idle.timeout)"
    )
    for placeholder in idle:
        releases.request_release(context, partition, placeholder, ReleaseCause.UNUSED, message)
    partition.gangs_touched[application] = None


def on_below_min_timeout(context: StepContext, application: Application) -> None:
    """The gang has been short for its timeout: that is said, and its application fails if its queue says so."""
    partition, gang = context.partition_of(application), application.gang
    assert gang is not None
    gang.times.below_min_alarm = None
    properties = application.queue.properties
    fails = properties.gang_on_below_min is OnBelowMin.FAIL
    why = gang_words.below_min(partition, application, properties.gang_below_min_timeout_ns)
    queue = application.queue.path
    context.emit(GangBelowMin(partition.rm_id, partition.name, queue, application.application_id, fails, why))
    if fails:
        application_states.fail(context, application, f"{gang_words.BELOW_MIN}: {why}", why)


def _timed_out(partition: Partition, application: Application, gang: Gang) -> GangTimedOut:
    queue = application.queue
    groups = gang.task_groups.values()
    return GangTimedOut(
        rm_id=partition.rm_id,
        partition=partition.name,
        queue=queue.path,
        application_id=application.application_id,
        state=application.state,
        wanted=sum(group.wanted for group in groups),
        placed=sum(group.placed for group in groups),
        replaced=sum(group.replaced for group in groups),
        timed_out=sum(group.timed_out for group in groups),
        declared=bool(gang.declared),
    )
