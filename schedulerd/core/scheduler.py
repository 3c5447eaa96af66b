"""The scheduler as one function of a command and a time: `facts = scheduler.step(now_ns, command)`.

Dispatch only: what a command means is in its handler, what may be decided in `decide`, what changes in `commit`.
"""

from __future__ import annotations

from collections.abc import Callable

from schedulerd.core.alarms import Alarm, AlarmKind
from schedulerd.core.commands import (
    CleanQueues,
    Command,
    ConnectCallbacks,
    ConnectResourceManager,
    DisconnectCallbacks,
    DisconnectResourceManager,
    GivePredicateResults,
    RegisterResourceManager,
    ReportUtilization,
    RingAlarms,
    RunCycle,
    StopCause,
    StopResourceManager,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from schedulerd.core.cycle import run_cycle
from schedulerd.core.facts import Fact, ItemIgnored, RejectCode
from schedulerd.core.handlers import (
    application_states,
    applications,
    asks,
    configuration,
    early,
    execution_times,
    gang_time,
    gangs,
    nodes,
    predicate_checks,
    predicate_results,
    queues,
    quota_preemption,
    reservations,
    resource_managers,
    rm_releases,
    scheduling_states,
    utilization,
    waiting,
)
from schedulerd.core.handlers.taking import take
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.application import Application
from schedulerd.core.model.cluster import Cluster, ResourceManager
from schedulerd.core.model.early import Backlog, EarlyItem
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.predicate_check import PredicateCheck
from schedulerd.core.model.reservation import Reservation
from schedulerd.core.specs import Timeouts
from schedulerd.core.step_context import StepContext

ALARMS_MAX = 200
"""Alarms that ring in one step; further ones that are due ring in the next."""


class Scheduler:
    """Owns all scheduling state. Not thread safe, and need not be: one owner calls `step`, one command at a time."""

    def __init__(self, timeouts: Timeouts, new_uuid: Callable[[], str], matches: Callable[[str, str], bool]) -> None:
        """`new_uuid` returns a fresh allocation UUID at each call; it is the only source of ids the core has.

        `matches` says whether a regular expression, its first argument, matches anywhere in a text. The core has no
        regular expressions of its own: those of the standard library may take for ever.
        """
        self.cluster = Cluster(timeouts, new_uuid, matches)
        self.failed_checks: list[Exception] = []
        """What went wrong in the last step while items were checked, with tracebacks. For the log: each is a
        `CheckFailed` among the facts as well."""
        self._now_ns = 0

    def step(self, now_ns: int, command: Command) -> list[Fact]:
        """Lets one thing happen at `now_ns` and returns all there is to say about it.

        `now_ns` is a monotonic time in nanoseconds, from any zero; every deadline is in it (SEMANTICS I19). A time
        before that of an earlier step counts as that one. Nothing an RM can send makes this raise; an exception is a
        bug of the scheduler, and the state cannot be trusted after it. An exception in the check of an item, before
        anything changed, rejects that item (`handlers/taking.py`).
        """
        self._now_ns = now_ns = max(now_ns, self._now_ns)
        context = StepContext(self.cluster, now_ns)
        match command:
            case RunCycle():
                run_cycle(context, command.allocations_max)
            case RingAlarms():
                for _ in range(ALARMS_MAX):
                    alarm = self.cluster.alarms.pop_due(now_ns)
                    if alarm is None:
                        break
                    _ring(context, alarm)
                    alarm.subject = None  # its subject still refers to it
            case RegisterResourceManager():
                known = self.cluster.resource_managers.get(command.rm_id)
                take(context, known, [command], resource_managers.check_registration, resource_managers.reject)
            case _:
                rm = self.cluster.resource_managers.get(command.rm_id)
                if rm is None:
                    context.say(_not_registered(command.rm_id))
                else:
                    _of_resource_manager(context, rm, command)
        for partition in self.cluster.partitions():
            if partition.gangs_touched:
                gang_time.review(context, partition)
            partition.end_of_step()
            waiting.schedule_alarm(context, partition)
        for rm in self.cluster.resource_managers.values():
            if rm.scheduling_state_tracker is not None:
                scheduling_states.hear(context, rm, rm.scheduling_state_tracker)
        self.failed_checks = context.failed_checks
        return context.facts

    def next_deadline_ns(self) -> int | None:
        """When the next alarm is due: send RingAlarms then. None if nothing is waited for."""
        return self.cluster.alarms.next_deadline_ns()

    def dismantle(self, count: int) -> bool:
        """Frees up to `count` pieces of what earlier steps dropped; returns whether any are left.

        To be called between steps. It changes nothing that a step or a view can see, so it is not a command.
        """
        return self.cluster.dismantling.run(count)

    def wants_cycle(self) -> bool:
        """Whether a cycle might place anything. False on an idle cluster, and where everything pending is parked."""
        return any(partition.wants_cycle for partition in self.cluster.running_partitions())


def _of_resource_manager(context: StepContext, rm: ResourceManager, command: Command) -> None:
    match command:
        case UpdateAllocations():
            take(context, rm, command.asks, asks.check, asks.reject)
            take(context, rm, command.releases, rm_releases.check, rm_releases.ignore)
            take(context, rm, command.ask_releases, asks.check_release, asks.ignore)
        case UpdateApplications():
            take(context, rm, command.new, applications.check, applications.reject)
            take(context, rm, command.remove, applications.check_removal, applications.ignore)
        case UpdateNodes():
            take(context, rm, command.nodes, nodes.check, nodes.reject)
        case UpdateConfiguration():
            take(context, rm, [command], configuration.check, configuration.reject)
        case ReportUtilization():
            take(context, rm, command.reports, utilization.check, utilization.ignore)
        case CleanQueues():
            for partition in rm.partitions.values():
                queues.clean(context, partition)
        case ConnectCallbacks():
            predicate_results.connect(context, rm, command)
            scheduling_states.connect(context, rm, command)
        case DisconnectCallbacks():
            predicate_results.disconnect(context, rm)
            scheduling_states.end(context, rm)
        case GivePredicateResults():
            take(context, rm, command.results, predicate_results.check, predicate_results.ignore)
        case ConnectResourceManager():
            resource_managers.connect(context, rm)
        case DisconnectResourceManager():
            resource_managers.disconnect(context, rm, command.cause)
        case StopResourceManager():
            resource_managers.stop(context, rm, command.cause)


def _ring(context: StepContext, alarm: Alarm) -> None:
    subject = alarm.subject
    if alarm.kind is AlarmKind.APPLICATION_STATE and isinstance(subject, Application):
        application_states.on_state_timeout(context, subject)
    elif alarm.kind is AlarmKind.PLACEHOLDER_TIMEOUT and isinstance(subject, Application):
        gangs.on_timeout(context, subject)
    elif alarm.kind is AlarmKind.PLACEHOLDERS_IDLE and isinstance(subject, Application):
        gangs.on_idle_timeout(context, subject)
    elif alarm.kind is AlarmKind.GANG_DEADLOCK and isinstance(subject, Application):
        gangs.on_deadlock_timeout(context, subject)
    elif alarm.kind is AlarmKind.APPLICATION_EXECUTION and isinstance(subject, Application):
        execution_times.end_application(context, subject)
    elif alarm.kind is AlarmKind.ALLOCATION_EXECUTION and isinstance(subject, Allocation):
        execution_times.end_allocation(context, subject)
    elif alarm.kind is AlarmKind.CLEANUP and isinstance(subject, Partition):
        queues.clean(context, subject)
    elif alarm.kind is AlarmKind.PATIENCE and isinstance(subject, Partition):
        subject.retry_timers.has_due = True
    elif alarm.kind is AlarmKind.RESERVATION and isinstance(subject, Reservation):
        reservations.on_expired(context, subject)
    elif alarm.kind is AlarmKind.ABOVE_MAX and isinstance(subject, tuple):
        quota_preemption.on_time_over(context, *subject)
    elif alarm.kind is AlarmKind.PREDICATE and isinstance(subject, PredicateCheck):
        predicate_results.on_timeout(context, subject)
    elif alarm.kind is AlarmKind.TURNED_DOWN and isinstance(subject, Partition):
        predicate_checks.on_rested(context, subject)
    elif alarm.kind is AlarmKind.RECONNECT and isinstance(subject, ResourceManager):
        resource_managers.stop(context, subject, StopCause.RECONNECT_TIMEOUT)
    elif alarm.kind is AlarmKind.SCHEDULING_STATES and isinstance(subject, ResourceManager):
        assert subject.scheduling_state_tracker is not None
        scheduling_states.on_time(context, subject, subject.scheduling_state_tracker)
    elif alarm.kind is AlarmKind.EARLY_ITEM and isinstance(subject, EarlyItem):
        rm = context.cluster.resource_managers[subject.rm_id]
        early.release(context, rm, subject)
        applications.replay(context, rm, subject, may_wait=False)
    elif alarm.kind is AlarmKind.BACKLOG and isinstance(subject, Backlog):
        applications.on_backlog(context, subject)


def _not_registered(rm_id: str) -> ItemIgnored:
    return ItemIgnored(
        rm_id=rm_id,
        partition="",
        object_id=rm_id,
        code=RejectCode.INVALID_STATE,
        reason=f"resource manager {rm_id!r} is not registered; it has to register before it can send anything",
    )
