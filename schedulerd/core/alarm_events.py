"""What an alarm is for: one class for each reason to wait, with what it is about. `scheduler.py` says what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from schedulerd.core.decide.quota_relief import Relief
from schedulerd.core.model.allocation import Allocation
from schedulerd.core.model.application import Application
from schedulerd.core.model.cluster import ResourceManager
from schedulerd.core.model.early import Backlog, EarlyItem
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.predicate_check import PredicateCheck
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.rejected_application import RejectedApplication
from schedulerd.core.model.reservation import Reservation


@dataclass(slots=True)
class ApplicationStateTimeout:
    """The application has been in its state for as long as that may last."""

    application: Application


@dataclass(slots=True)
class RejectionTimeout:
    """A rejected application was remembered for long enough."""

    rejected: RejectedApplication


@dataclass(slots=True)
class PlaceholderTimeout:
    """The gang had its time to be complete."""

    application: Application


@dataclass(slots=True)
class PlaceholdersIdle:
    """Placeholders of a complete gang have been idle for as long as they may be."""

    application: Application


@dataclass(slots=True)
class GangDeadlockTimeout:
    """The gang has waited for others that hold a part of the room for as long as it does."""

    application: Application


@dataclass(slots=True)
class ApplicationExecutionTimeout:
    """The application has run for as long as it may."""

    application: Application


@dataclass(slots=True)
class AllocationExecutionTimeout:
    """The allocation has run for as long as it may."""

    allocation: Allocation


@dataclass(slots=True)
class QueueCleanupDue:
    """Queues that nobody needs may have been empty for long enough."""

    partition: Partition


@dataclass(slots=True)
class RetryDue:
    """An ask is old enough for a reservation, or for preemption."""

    partition: Partition


@dataclass(slots=True)
class ReservationTimeout:
    """The reservation has waited for its room for as long as it may."""

    reservation: Reservation


@dataclass(slots=True)
class QuotaReliefDue:
    """The queue has been above a lowered max for long enough, or a pass over its allocations goes on."""

    partition: Partition
    queue: Queue
    relief: Relief | None = None
    """The pass that goes on; None if a new one begins."""


@dataclass(slots=True)
class PredicateTimeout:
    """The resource manager did not answer in time."""

    predicate_check: PredicateCheck


@dataclass(slots=True)
class RefusedAsksDue:
    """Refused asks are tried on every node again, whatever changed."""

    partition: Partition


@dataclass(slots=True)
class ReconnectTimeout:
    """The resource manager did not come back in time."""

    rm: ResourceManager


@dataclass(slots=True)
class SchedulingStatesDue:
    """The next slice of what is told about scheduling states."""

    rm: ResourceManager


@dataclass(slots=True)
class EarlyItemTimeout:
    """The application that the item waits for did not come in time."""

    item: EarlyItem


@dataclass(slots=True)
class BacklogDue:
    """More of what waited for an application that has come is to be handled."""

    backlog: Backlog


AlarmEvent: TypeAlias = (
    ApplicationStateTimeout
    | RejectionTimeout
    | PlaceholderTimeout
    | PlaceholdersIdle
    | GangDeadlockTimeout
    | ApplicationExecutionTimeout
    | AllocationExecutionTimeout
    | QueueCleanupDue
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
