"""RMs register, connect, disconnect and are stopped (SI `Lifecycle of RM-Scheduler communication`)."""

from __future__ import annotations

from functools import partial

from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.commands import AbsenceCause, RegisterResourceManager, StopCause
from schedulerd.core.language.facts.fact import ItemIgnored, ResourceManagerChanged
from schedulerd.core.language.fsm import is_legal, move
from schedulerd.core.language.lifecycles import RESOURCE_MANAGER, ResourceManagerState, ResourceManagerTrigger
from schedulerd.core.state.actions import predicate_checks, queue_changes, relief_time
from schedulerd.core.state.alarm_events import ReconnectTimeout
from schedulerd.core.state.model.dismantling import pieces_of, pieces_of_trials
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.step_context import Change, ResourceManager, StepContext


def check_registration(context: StepContext, known: ResourceManager | None, command: RegisterResourceManager) -> Change:
    """A registration: all state of an RM with this id is dropped, and a full report is expected (SEMANTICS C2).

    Nothing is allocated for the RM before its stream is open. It must open in time, like a stream that was lost (C3).
    """
    return partial(_register, context, known, ResourceManager(command, context.cluster.timeouts, context.now_ns))


def reject(
    context: StepContext, known: ResourceManager | None, command: RegisterResourceManager, mistake: Mistake
) -> None:
    """Rejects a registration. If the RM is known, its state stays as it is."""
    context.emit(ItemIgnored(command.rm_id, "", command.rm_id, mistake.code, mistake.reason))


def _register(context: StepContext, known: ResourceManager | None, rm: ResourceManager) -> None:
    if known is not None:
        _drop(context, known)
    before = ResourceManagerState.STOPPED if known is None else known.state
    rm.state = move(RESOURCE_MANAGER, before, ResourceManagerTrigger.REGISTER)
    context.cluster.resource_managers[rm.rm_id] = rm
    _await_contact(context, rm)
    cause = "registered" if known is None else "registered again: all its state was dropped"
    context.emit(ResourceManagerChanged(rm.rm_id, rm.state, cause))
    for partition in rm.partitions.values():
        queue_changes.added(context, partition, partition.root.subtree())


def connect(context: StepContext, rm: ResourceManager) -> None:
    """The allocation stream of the RM is open: its asks can be allocated."""
    context.cluster.alarms.cancel(rm.alarm)
    rm.alarm = None
    before, rm.state = rm.state, move(RESOURCE_MANAGER, rm.state, ResourceManagerTrigger.CONNECT)
    if rm.state is not before:
        context.emit(ResourceManagerChanged(rm.rm_id, rm.state, "its allocation stream is open"))


def disconnect(context: StepContext, rm: ResourceManager, cause: AbsenceCause) -> None:
    """The RM is away: nothing is allocated for it, and it is stopped if it does not come back in time."""
    if is_legal(RESOURCE_MANAGER, rm.state, ResourceManagerTrigger.DISCONNECT):
        rm.state = move(RESOURCE_MANAGER, rm.state, ResourceManagerTrigger.DISCONNECT)
        predicate_checks.void_all(context, rm.callbacks.open_predicate_checks.values())
        _await_contact(context, rm)
        context.emit(ResourceManagerChanged(rm.rm_id, rm.state, cause.value))


def stop(context: StepContext, rm: ResourceManager, cause: StopCause) -> None:
    """Stops the RM: all its state is dropped. To come back it must register."""
    _drop(context, rm)
    rm.state = move(RESOURCE_MANAGER, rm.state, ResourceManagerTrigger.STOP)
    context.emit(ResourceManagerChanged(rm.rm_id, rm.state, cause.value))


def _await_contact(context: StepContext, rm: ResourceManager) -> None:
    deadline_ns = context.now_ns + context.cluster.timeouts.reconnect_ns
    rm.alarm = context.cluster.alarms.set(deadline_ns, ReconnectTimeout(rm))


def _drop(context: StepContext, rm: ResourceManager) -> None:
    alarms = context.cluster.alarms
    alarms.cancel(rm.alarm)
    if rm.scheduling_state_tracker is not None:
        alarms.cancel(rm.scheduling_state_tracker.alarm)
        context.cluster.dismantling.drop(rm.scheduling_state_tracker.dismantle())
    for held in rm.early:
        alarms.cancel(held.alarm)
    for backlog in rm.early.backlogs.values():
        alarms.cancel(backlog.alarm)
    for predicate_check in rm.callbacks.open_predicate_checks.values():
        alarms.cancel(predicate_check.alarm)
    for partition in rm.partitions.values():
        alarms.cancel(partition.cleanup_alarm)
        alarms.cancel(partition.retry_timers.alarm)
        alarms.cancel(partition.refused_asks.alarm)
        for queue in partition.root.subtree():
            relief_time.forget(context, queue)
        for reservation in partition.reservations:
            alarms.cancel(reservation.alarm)
        for application in (*partition.applications.values(), *partition.terminated.values()):
            alarms.cancel(application.alarm)
            if isinstance(application, RejectedApplication):
                continue
            alarms.cancel(application.gang_alarm)
            alarms.cancel(application.run_alarm)
            alarms.cancel(application.start_alarm)
            if application.gang is not None:
                for alarm in application.gang.times.alarms():
                    alarms.cancel(alarm)
        for allocation in partition.allocations.values():
            alarms.cancel(allocation.alarm)
    dismantling = context.cluster.dismantling
    dismantling.drop(rm.early.dismantle())
    dismantling.drop(pieces_of_trials(rm.callbacks.open_predicate_checks))
    for partition in rm.partitions.values():
        dismantling.drop(pieces_of(partition))
    del context.cluster.resource_managers[rm.rm_id]
