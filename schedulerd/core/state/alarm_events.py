"""Alarm events: one class for each reason to wait, with the object that the alarm is for. `scheduler.py` dispatches
them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from schedulerd.core.state.model.allocation import Allocation
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.early import Backlog, EarlyItem
from schedulerd.core.state.model.predicate_check import PredicateCheck
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.model.rejected_application import RejectedApplication
from schedulerd.core.state.model.reservation import Reservation
from schedulerd.core.state.partition import Partition
from schedulerd.core.state.step_context import ResourceManager


@dataclass(slots=True)
class ApplicationStateTimeout:
    """The application has been in its state for the longest time that this state may last."""

    application: Application


@dataclass(slots=True)
class RejectionTimeout:
    """A rejected application was remembered for `Timeouts.retention_ns`."""

    rejected: RejectedApplication


@dataclass(slots=True)
class PlaceholderTimeout:
    """The time to complete the gang is over."""

    application: Application


@dataclass(slots=True)
class PlaceholdersIdle:
    """Placeholders of a complete gang have been idle for `gang.placeholder.idle.timeout`."""

    application: Application


@dataclass(slots=True)
class GangRequeued:
    """A declared gang of style Requeue gave back what it held, and has waited long enough: it gathers again."""

    application: Application


@dataclass(slots=True)
class GangBelowMinTimeout:
    """The gang of the application has been short for `gang.below-min.timeout`."""

    application: Application


@dataclass(slots=True)
class GangDeadlockTimeout:
    """The gang is still incomplete: checks whether it is in a gang deadlock."""

    application: Application


@dataclass(slots=True)
class ApplicationExecutionTimeout:
    """The execution timeout of the application is over."""

    application: Application


@dataclass(slots=True)
class AllocationExecutionTimeout:
    """The execution timeout of the allocation is over."""

    allocation: Allocation


@dataclass(slots=True)
class QueueCleanupDue:
    """Queues that are no longer needed may have been empty for `Timeouts.cleanup_ns`."""

    partition: Partition


@dataclass(slots=True)
class StartTimeout:
    """The application, the next to start in its state-aware leaf, may have been blocked for `stateaware.timeout`."""

    application: Application


@dataclass(slots=True)
class RetryDue:
    """An ask is old enough for a reservation or for a preemption attempt."""

    partition: Partition


@dataclass(slots=True)
class ReservationTimeout:
    """The reservation has lasted for `Timeouts.reservation_ns`."""

    reservation: Reservation


class ReliefPass(Protocol):
    """A pass of quota relief that goes on after other commands."""

    def end(self) -> None:
        """Stops the pass."""


@dataclass(slots=True)
class QuotaReliefDue:
    """The queue has been above a lowered max for its quota preemption delay, or a pass of quota relief continues."""

    partition: Partition
    queue: Queue
    relief: ReliefPass | None = None
    """The pass to continue; None if a new one begins."""


@dataclass(slots=True)
class PredicateTimeout:
    """The resource manager did not answer a predicate check in time."""

    predicate_check: PredicateCheck


@dataclass(slots=True)
class RefusedAsksDue:
    """The retry time of refused asks is over: they are tried on every node again, even if no node changed."""

    partition: Partition


@dataclass(slots=True)
class ReconnectTimeout:
    """The resource manager did not reconnect in time."""

    rm: ResourceManager


@dataclass(slots=True)
class SchedulingStatesDue:
    """The next slice of a scan of scheduling states, for what the RM is to be told."""

    rm: ResourceManager


@dataclass(slots=True)
class EarlyItemTimeout:
    """The application that an early item refers to did not arrive in time."""

    item: EarlyItem


@dataclass(slots=True)
class BacklogDue:
    """The next slice of a backlog: early items whose application has arrived."""

    backlog: Backlog


AlarmEvent: TypeAlias = (
    ApplicationStateTimeout
    | RejectionTimeout
    | PlaceholderTimeout
    | PlaceholdersIdle
    | GangRequeued
    | GangBelowMinTimeout
    | GangDeadlockTimeout
    | ApplicationExecutionTimeout
    | AllocationExecutionTimeout
    | QueueCleanupDue
    | StartTimeout
    | RetryDue
    | ReservationTimeout
    | QuotaReliefDue
    | PredicateTimeout
    | RefusedAsksDue
    | ReconnectTimeout
    | SchedulingStatesDue
    | EarlyItemTimeout
    | BacklogDue
)
