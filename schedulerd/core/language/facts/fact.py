"""Everything that the scheduler says. Responses, metrics, events and logs are made from this one stream of facts.

A fact has its cause, and enough data to keep all counts by adding and subtracting: counts made from facts alone equal
the state of the scheduler. `queue` is the full lower-case path (`root.a.b`), `partition` the name in the queue file,
and resources are per allocation. Like commands, facts are slotted dataclasses for speed: treat them as values, and
never change their mappings, which are shared with the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import TypeAlias

from schedulerd.core.language.commands import TerminationType
from schedulerd.core.language.facts.configuration import (
    ConfigurationAccepted,
    ConfigurationRejected,
    ConfigurationUpdated,
)
from schedulerd.core.language.facts.gangs import (
    GangBelowMin,
    GangCompleted,
    GangGaveWay,
    GangStateChanged,
    GangTimedOut,
    SwapRefused,
)
from schedulerd.core.language.facts.nodes import NodeRecommended
from schedulerd.core.language.facts.predicates import (
    PredicateAnswered,
    PredicateNotWanted,
    PredicateWanted,
    PreemptionPredicateWanted,
    SlotHeld,
)
from schedulerd.core.language.facts.preemption import Preempted, PreemptionRefused, QuotaPreempted, RoomMade
from schedulerd.core.language.facts.queues import QueueChanged, QueueNameUnused, TagIgnored
from schedulerd.core.language.facts.reservations import ReservationEnded, Reserved
from schedulerd.core.language.facts.scheduling_states import PendingReasonChanged, SchedulingStateChanged
from schedulerd.core.language.facts.unclaimed import AllocationUnclaimed, UnclaimedEnded
from schedulerd.core.language.lifecycles import ApplicationState, NodeState, ResourceManagerState
from schedulerd.core.language.resources import Resources


class RejectCode(StrEnum):
    """The kind of mistake, for counting. The reason beside it is the sentence for people."""

    EMPTY_ID = "empty_id"
    DUPLICATE_ID = "duplicate_id"
    UNKNOWN_PARTITION = "unknown_partition"
    UNKNOWN_APPLICATION = "unknown_application"
    UNKNOWN_NODE = "unknown_node"
    UNKNOWN_ACTION = "unknown_action"
    INVALID_RESOURCES = "invalid_resources"
    INVALID_COUNT = "invalid_count"
    INVALID_STATE = "invalid_state"
    INVALID_FIELD = "invalid_field"
    NOT_PLACED = "not_placed"
    ACCESS_DENIED = "access_denied"
    OVER_QUOTA = "over_quota"
    QUEUE_NOT_FIFO = "queue_not_fifo"
    CHECK_FAILED = "check_failed"
    """An exception while the item was checked: a bug of schedulerd, not a mistake of the resource manager."""


class WithdrawCause(StrEnum):
    """Why pending allocations of an ask were withdrawn without being allocated."""

    UPDATED = "updated"
    RELEASED_BY_RM = "released_by_rm"
    RECOVERED = "recovered"
    """It is allocated already: a node reported the allocation."""
    APPLICATION_REMOVED = "application_removed"
    APPLICATION_ENDED = "application_ended"
    TIMEOUT = "timeout"
    AWAITING_PLACEHOLDER = "awaiting_placeholder"
    """It is no longer pending and awaits a placeholder, whose room it gets (swap)."""


class ReleaseCause(StrEnum):
    """Why the scheduler asks the RM to release an allocation."""

    REPLACED = "replaced"
    """A placeholder: a real ask gets its room."""
    TIMED_OUT = "timed_out"
    """The time of the allocation, of its application or of its gang is over."""
    TOO_SMALL = "too_small"
    """A placeholder: the real ask that should replace it does not fit."""
    UNUSED = "unused"
    """A placeholder: its application completes without it, or its gang is complete and it has been idle for too
    long."""
    GAVE_WAY = "gave_way"
    """A placeholder: released for an earlier gang; its ask becomes pending again."""
    PREEMPTED = "preempted"
    """Preempted for an entitled ask."""


@dataclass(slots=True)
class ResourceManagerChanged:
    """A resource manager registered, connected, was lost or stopped. INIT and STOPPED drop its state."""

    rm_id: str
    state: ResourceManagerState
    cause: str


@dataclass(slots=True)
class NodeAccepted:
    rm_id: str
    partition: str
    node_id: str


@dataclass(slots=True)
class NodeRejected:
    rm_id: str
    partition: str
    node_id: str
    code: RejectCode
    reason: str


class NodeAspect(IntFlag):
    """Which aspects of a node changed. A new node counts as changed from: no capacity, nothing occupied, ready and
    schedulable."""

    NONE = 0
    CAPACITY = 1
    OCCUPIED = 2
    READY = 4
    SCHEDULABLE = 8
    """It was drained or is no longer drained (Kubernetes: cordoned)."""


@dataclass(slots=True)
class NodeChanged:
    """A node entered a state (`old_state` is None for a new node), or its capacity or occupied resources changed."""

    rm_id: str
    partition: str
    node_id: str
    old_state: NodeState | None
    state: NodeState
    capacity: Resources
    occupied: Resources
    cause: str
    changed: NodeAspect = NodeAspect.NONE
    ready: bool = True
    """Readiness as the resource manager reports it; independent of draining."""


@dataclass(slots=True)
class ApplicationAccepted:
    rm_id: str
    partition: str
    queue: str
    application_id: str


@dataclass(slots=True)
class ApplicationRejected:
    rm_id: str
    partition: str
    application_id: str
    code: RejectCode
    reason: str


@dataclass(slots=True)
class ApplicationChanged:
    """An application changed its state. `old_state` is None when it is new, or rejected at submission."""

    rm_id: str
    partition: str
    queue: str
    """'' for an application that was rejected before it had a queue."""
    application_id: str
    old_state: ApplicationState | None
    state: ApplicationState
    cause: str
    at_ns: int


@dataclass(slots=True)
class ApplicationForgotten:
    """An application is no longer remembered (removed by its RM, or Expired); its id can be used again."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    state: ApplicationState
    """Its last state."""


@dataclass(slots=True)
class AskAdded:
    """`count` more allocations of the ask, of `resources` each, are pending."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    resources: Resources
    count: int
    placeholder: bool
    awaited_placeholder: bool = False
    """True: not new demand, but what awaited its placeholder (`WithdrawCause.AWAITING_PLACEHOLDER`) and is pending
    again."""
    slot: bool = False
    """Of a slot (`NewAsk.slot`), of which the RM is not told."""


@dataclass(slots=True)
class AskWithdrawn:
    """`count` pending allocations of an ask are no longer pending, and were not allocated."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    resources: Resources
    count: int
    placeholder: bool
    cause: WithdrawCause
    termination: TerminationType | None
    """The type to tell the RM with (SI `releasedAsks`); None if the RM is not told."""
    message: str
    slot: bool = False
    """Of a slot (`NewAsk.slot`), of which the RM is not told."""


@dataclass(slots=True)
class EarlyAskReleased:
    """The RM withdrew an ask that still waited for its application; nothing of the ask was pending yet."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    termination: TerminationType
    """As in the release that this fact confirms (SI `releasedAsks`)."""
    message: str


@dataclass(slots=True)
class AskRejected:
    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    code: RejectCode
    reason: str


@dataclass(slots=True)
class Allocated:
    """An ask was allocated on a node, or (`recovered`) an existing allocation was taken over with its node."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resources: Resources
    priority: int
    tags: Mapping[str, str]
    task_group: str
    placeholder: bool
    recovered: bool
    """True: the RM reported the allocation with its node. No ask was pending for it, and the RM is not told."""
    asked_at_ns: int
    """When the ask arrived. The time of the step minus this is the scheduling latency."""
    replaces: str = ""
    """UUID of the placeholder whose room it took ('' if none); its ask awaited that placeholder and was not pending."""
    slot: bool = False
    """Of a slot (`NewAsk.slot`), of which the RM is not told."""
    replaces_slot: bool = False
    """Whether that placeholder was a slot."""


class ChangeCause(StrEnum):
    """What changed of an allocation that stays."""

    RESIZED = "resized"
    """Its amounts: an ask with its key, or a report of it, has others (SEMANTICS I17)."""
    MOVED = "moved"
    """Its node or UUID: the RM reports it there (SEMANTICS I25)."""


@dataclass(slots=True)
class AllocationChanged:
    """An allocation has other amounts, or is on another node, because the RM says so."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resources: Resources
    placeholder: bool
    cause: ChangeCause
    old_uuid: str
    old_node_id: str
    old_resources: Resources


@dataclass(slots=True)
class ReleaseRequested:
    """The RM is asked to release an allocation. Its resources are freed when the RM confirms (SEMANTICS F)."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    placeholder: bool
    termination: TerminationType
    cause: ReleaseCause
    message: str


@dataclass(slots=True)
class Released:
    """An allocation is gone, and its resources are free."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resources: Resources
    placeholder: bool
    termination: TerminationType
    confirm: bool
    """Whether the RM is told: it asked for the release, or must learn of it. False if the RM itself confirmed it, and
    where the RM had been asked to release it before its node was removed."""
    message: str
    node_removed: bool = False
    """True if it is gone because its node was removed."""
    slot: bool = False
    """Of a slot (`NewAsk.slot`), of which the RM is not told."""


@dataclass(slots=True)
class ReleaseIgnored:
    """A release or confirmation of something unknown. It is counted, and nothing changes (SEMANTICS F)."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    reason: str


@dataclass(slots=True)
class ItemIgnored:
    """Another item that refers to something unknown and has no rejection message of its own in SI."""

    rm_id: str
    partition: str
    object_id: str
    code: RejectCode
    reason: str


@dataclass(slots=True)
class CheckFailed:
    """An exception while an item was checked: a bug of schedulerd. The next fact rejects the item."""

    rm_id: str
    item: str
    """Name of the item's class in `core.commands`."""
    object_id: str
    code: RejectCode
    exception: str
    """Name of the exception's class. The traceback is in `Scheduler.failed_checks`, for the log."""


@dataclass(slots=True)
class CycleRan:
    """A cycle allocated something, found pending classes blocked or unschedulable, or let an application of a
    state-aware leaf start before one that is blocked for long."""

    allocations: int
    """Includes swaps, new reservations, predicate checks and decisions to preempt; each counts towards the bound of the
    cycle."""
    classes_blocked: int
    """Number of pending classes that the cycle found blocked by a quota or limit, or unschedulable."""
    more: bool
    """True if the cycle stopped at a bound and another one should follow."""


Fact: TypeAlias = (
    ResourceManagerChanged
    | NodeAccepted
    | NodeRejected
    | NodeChanged
    | QueueChanged
    | ApplicationAccepted
    | ApplicationRejected
    | ApplicationChanged
    | ApplicationForgotten
    | AskAdded
    | AskWithdrawn
    | EarlyAskReleased
    | AskRejected
    | Allocated
    | AllocationChanged
    | AllocationUnclaimed
    | UnclaimedEnded
    | ReleaseRequested
    | GangCompleted
    | GangTimedOut
    | SwapRefused
    | GangGaveWay
    | GangStateChanged
    | GangBelowMin
    | Reserved
    | ReservationEnded
    | Preempted
    | QuotaPreempted
    | RoomMade
    | PreemptionRefused
    | Released
    | ReleaseIgnored
    | ItemIgnored
    | CheckFailed
    | TagIgnored
    | QueueNameUnused
    | ConfigurationAccepted
    | ConfigurationUpdated
    | ConfigurationRejected
    | CycleRan
    | PredicateWanted
    | PreemptionPredicateWanted
    | PredicateNotWanted
    | SlotHeld
    | PredicateAnswered
    | SchedulingStateChanged
    | PendingReasonChanged
    | NodeRecommended
)
