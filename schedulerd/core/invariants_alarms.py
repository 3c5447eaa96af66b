"""What must hold of alarms: a part of `invariants`, counted anew as well."""

from __future__ import annotations

from collections.abc import Iterator

from schedulerd.core.alarms import Alarm
from schedulerd.core.handlers.application_states import TIMED_STATES
from schedulerd.core.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.model.application import Application
from schedulerd.core.model.rejected_application import RejectedApplication
from schedulerd.core.scheduler import Scheduler


def alarms(scheduler: Scheduler) -> Iterator[str]:
    """Every alarm belongs to a state that has one, and every such state has its alarm."""
    owned: set[Alarm] = set()
    for rm in scheduler.cluster.resource_managers.values():
        waits = rm.state in (ResourceManagerState.INIT, ResourceManagerState.PAUSED)
        if (rm.alarm is not None and rm.alarm.live) != waits:
            yield f"resource manager {rm.rm_id} in state {rm.state} has {'no' if waits else 'an'} alarm"
        owned.update(alarm for alarm in (rm.alarm, *(held.alarm for held in rm.early)) if alarm is not None)
        for (name, application_id), backlog in rm.early.backlogs.items():
            if backlog.alarm is not None:
                owned.add(backlog.alarm)
            if backlog.alarm is None or not backlog.alarm.live:
                yield f"the backlog of application {application_id} in partition {name} has no alarm"
        owned.update(
            predicate_check.alarm
            for predicate_check in rm.callbacks.open_predicate_checks.values()
            if predicate_check.alarm is not None
        )
        if rm.scheduling_state_tracker is not None and rm.scheduling_state_tracker.alarm is not None:
            owned.add(rm.scheduling_state_tracker.alarm)
        for partition in rm.partitions.values():
            owned.update([one.alarm for one in partition.reservations if one.alarm is not None])
            above = [one.above_max_alarm for one in partition.root.subtree()]
            owned.update([one for one in above if one is not None])
            alarm = partition.retry_timers.alarm
            own_alarms = partition.cleanup_alarm, alarm, partition.refused_asks.alarm
            owned.update([one for one in own_alarms if one is not None and one.live])
            for app in (*partition.applications.values(), *partition.terminated.values()):
                if isinstance(app, RejectedApplication):
                    if app.alarm is None:
                        yield f"rejected application {app.application_id} has no alarm"
                    else:
                        owned.add(app.alarm)
                    continue
                gang_alarms = (app.gang.deadlock_alarm, app.gang.idle_alarm) if app.gang is not None else ()
                execution = [one.alarm for one in app.allocations.values()]
                timed_by = (app.alarm, app.gang_alarm, app.run_alarm, *gang_alarms, *execution)
                owned.update([alarm for alarm in timed_by if alarm is not None])
                yield from _execution_times(app)
                if app.gang_alarm is not None and not app.placeholders:
                    yield f"application {app.application_id} has a placeholder timeout, but no placeholder"
                timed = app.state in TIMED_STATES
                has_grace = app.state is ApplicationState.ACCEPTED
                waits_for_rm = app.state is ApplicationState.COMPLETING and bool(app.allocations)
                if (app.alarm is not None) != timed and not waits_for_rm and not has_grace:
                    yield f"application {app.application_id} in state {app.state} has {'no' if timed else 'an'} alarm"
    if set(scheduler.cluster.alarms.live()) != owned:
        yield "there are alarms that nothing owns, or owned ones that will not ring"


def _execution_times(app: Application) -> Iterator[str]:
    """What may only run for so long has its alarm for as long as it runs (SEMANTICS E2, E3)."""
    runs = app.state in (ApplicationState.STARTING, ApplicationState.RUNNING)
    if runs and app.spec.execution_timeout_ms > 0 and app.spec.placeholder_ask.is_zero() and app.run_alarm is None:
        yield f"application {app.application_id} runs without the alarm of its execution timeout"
    for allocation in app.allocations.values():
        if allocation.spec.execution_timeout_ms > 0 and allocation.alarm is None and allocation.releasing is None:
            yield f"allocation {allocation.uuid} runs without the alarm of its execution timeout"
