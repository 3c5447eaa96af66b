"""The scheduler as one function of a time and a command: `facts = scheduler.step(now_ns, command)`.

This module only dispatches: handlers carry commands out, `rules` decide, and `commit` changes the ledgers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

from schedulerd.core.applications.handlers import applications, asks, execution_times, queues, rm_releases, start_times
from schedulerd.core.configuration.handlers import configuration, stops
from schedulerd.core.cycle import run_cycle
from schedulerd.core.gangs.handlers import gangs
from schedulerd.core.language.commands import (
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
from schedulerd.core.language.facts.fact import Fact, ItemIgnored, RejectCode
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.language.specs import Timeouts
from schedulerd.core.nodes.handlers import nodes, utilization
from schedulerd.core.predicates.handlers import predicate_results
from schedulerd.core.preemption.handlers import quota_preemption
from schedulerd.core.reactions import ON_ANSWER, after_step
from schedulerd.core.resource_managers.handlers import resource_managers
from schedulerd.core.scheduling_states.handlers import scheduling_states
from schedulerd.core.state.actions import application_states, predicate_checks, reservations, slots
from schedulerd.core.state.alarm_events import (
    AlarmEvent,
    AllocationExecutionTimeout,
    ApplicationExecutionTimeout,
    ApplicationStateTimeout,
    BacklogDue,
    EarlyItemTimeout,
    GangBelowMinTimeout,
    GangDeadlockTimeout,
    GangRequeued,
    PlaceholdersIdle,
    PlaceholderTimeout,
    PredicateTimeout,
    QueueCleanupDue,
    QuotaReliefDue,
    ReconnectTimeout,
    RefusedAsksDue,
    RejectionTimeout,
    ReservationTimeout,
    RetryDue,
    SchedulingStatesDue,
    StartTimeout,
)
from schedulerd.core.state.step_context import Cluster, ResourceManager, StepContext, take

ALARMS_MAX = 200
"""Most alarms that ring in one step; further due alarms ring in the next step."""


class Scheduler:
    """Owns all scheduling state. Not thread safe: one owner calls `step`, one command at a time."""

    def __init__(self, timeouts: Timeouts, new_uuid: Callable[[], str], matches: Callable[[str, str], bool]) -> None:
        """`new_uuid` returns a new allocation UUID at each call; it is the only source of ids in the core.

        `matches` tells whether a regular expression (first argument) matches anywhere in a text. The core has no
        regular expressions for such patterns itself, because those of the standard library may take unbounded time.
        """
        self.cluster = Cluster(timeouts, new_uuid, matches)
        self.failed_checks: list[Exception] = []
        """Exceptions in checks of items during the last step, with tracebacks, for the log. Each is also a
        `CheckFailed` fact."""
        self._now_ns = 0

    def step(self, now_ns: int, command: Command) -> list[Fact]:
        """Handles one command at `now_ns` and returns all facts about it.

        `now_ns` is a monotonic time in nanoseconds from any zero; all deadlines use it (SEMANTICS I19). A time before
        that of an earlier step counts as that earlier time. Nothing that an RM sends makes this raise; an exception is
        a bug, and the state cannot be trusted after it. An exception in the check of an item, before anything changed,
        rejects only that item (`step_context.py`).
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
                    _ring(context, alarm.event)
                    alarm.event = None  # the object that the alarm was for may still refer to the alarm
            case RegisterResourceManager():
                known = self.cluster.resource_managers.get(command.rm_id)
                take(context, known, [command], resource_managers.check_registration, resource_managers.reject)
            case _:
                rm = self.cluster.resource_managers.get(command.rm_id)
                if rm is None:
                    context.emit(_not_registered(command.rm_id))
                else:
                    _of_resource_manager(context, rm, command)
        after_step(context)
        self.failed_checks = context.failed_checks
        return context.facts

    def next_deadline_ns(self) -> int | None:
        """Deadline of the earliest alarm: send RingAlarms then. None if there is no alarm."""
        return self.cluster.alarms.next_deadline_ns()

    def dismantle(self, count: int) -> bool:
        """Frees up to `count` pieces of state that earlier steps dropped; returns whether any are left.

        Call it between steps. It changes nothing that a step or a view can see, so it is not a command.
        """
        return self.cluster.dismantling.run(count)

    def wants_cycle(self) -> bool:
        """Whether a cycle could do something. False on an idle cluster, and where everything that is pending is
        blocked."""
        return self.cluster.wants_cycle()


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
        case SetQueueStopped():
            take(context, rm, [command], stops.check, stops.ignore)
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
            take(context, rm, command.results, partial(predicate_results.check, ON_ANSWER), predicate_results.ignore)
        case ConnectResourceManager():
            resource_managers.connect(context, rm)
        case DisconnectResourceManager():
            resource_managers.disconnect(context, rm, command.cause)
        case StopResourceManager():
            resource_managers.stop(context, rm, command.cause)


def _ring(context: StepContext, event: AlarmEvent) -> None:
    match event:
        case ApplicationStateTimeout():
            application_states.on_state_timeout(context, event.application)
        case RejectionTimeout():
            application_states.on_rejection_timeout(context, event.rejected)
        case PlaceholderTimeout():
            gangs.on_timeout(context, event.application)
        case PlaceholdersIdle():
            gangs.on_idle_timeout(context, event.application)
        case GangRequeued():
            slots.on_requeued(context, event.application)
        case GangBelowMinTimeout():
            gangs.on_below_min_timeout(context, event.application)
        case GangDeadlockTimeout():
            gangs.on_deadlock_timeout(context, event.application)
        case ApplicationExecutionTimeout():
            execution_times.end_application(context, event.application)
        case AllocationExecutionTimeout():
            execution_times.end_allocation(context, event.allocation)
        case QueueCleanupDue():
            queues.clean(context, event.partition)
        case StartTimeout():
            start_times.on_timeout(context, event.application)
        case RetryDue():
            event.partition.retry_timers.has_due = True
        case ReservationTimeout():
            reservations.on_expired(context, event.reservation)
        case QuotaReliefDue():
            quota_preemption.on_time_over(context, event.partition, event.queue, event.relief)
        case PredicateTimeout():
            predicate_results.on_timeout(ON_ANSWER, context, event.predicate_check)
        case RefusedAsksDue():
            predicate_checks.on_retry_due(context, event.partition)
        case ReconnectTimeout():
            resource_managers.stop(context, event.rm, StopCause.RECONNECT_TIMEOUT)
        case SchedulingStatesDue():
            scheduling_states.on_time(context, event.rm)
        case EarlyItemTimeout():
            applications.on_early_item_timeout(context, event.item)
        case BacklogDue():
            applications.on_backlog(context, event.backlog)
        case _:
            assert_never(event)


def _not_registered(rm_id: str) -> ItemIgnored:
    return ItemIgnored(
        rm_id=rm_id,
        partition="",
        object_id=rm_id,
        code=RejectCode.INVALID_STATE,
        reason=f"resource manager {rm_id!r} is not registered; it has to register before it can send anything",
    )
