"""All that can be said about what happened. Responses, metrics, events and logs are projections of this one stream.

A fact names its cause, and carries enough to keep every count by adding and subtracting: who recounts from facts alone
arrives at the scheduler's own state. `queue` is the full lower-case path (`root.a.b`), `partition` the name as in the
queue file, resources are per allocation. Like commands these are plain slotted dataclasses for speed: treat them as
values, and never change the mappings inside, which are shared with the scheduler's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import TypeAlias

from schedulerd.core.callback_facts import (
    NodeRecommended,
    PredicateAnswered,
    PredicateNotWanted,
    PredicateWanted,
    PreemptionPredicateWanted,
    SchedulingStateChanged,
)
from schedulerd.core.commands import TerminationType
from schedulerd.core.configuration_facts import ConfigurationAccepted, ConfigurationRejected, ConfigurationUpdated
from schedulerd.core.gang_facts import GangCompleted, GangGaveWay, GangTimedOut, SwapRefused
from schedulerd.core.lifecycles import ApplicationState, NodeState, ResourceManagerState
from schedulerd.core.preemption_facts import (
    Preempted,
    PreemptionRefused,
    QuotaPreempted,
    ReservationEnded,
    Reserved,
    RoomMade,
)
from schedulerd.core.queue_facts import QueueChanged, TagIgnored
from schedulerd.core.resources import Resources


class RejectCode(StrEnum):
    """The kind of mistake, for counting; the reason beside it is the sentence for a person."""

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
    """Why pending asks are gone without having been placed."""

    UPDATED = "updated"
    RELEASED_BY_RM = "released_by_rm"
    RECOVERED = "recovered"
    """It was placed already: a node came with the allocation."""
    APPLICATION_REMOVED = "application_removed"
    APPLICATION_ENDED = "application_ended"
    TIMEOUT = "timeout"
    AWAITING_PLACEHOLDER = "awaiting_placeholder"
    """It waits for its placeholder to go and takes its room then (gang design); or it is asked for again."""


class ReleaseCause(StrEnum):
    """Why the core wants an allocation gone."""

    REPLACED = "replaced"
    """A placeholder: a real ask takes its room."""
    TIMED_OUT = "timed_out"
    """Its time is over, or that of its application or gang."""
    TOO_SMALL = "too_small"
    """A placeholder: the real ask that came for it does not fit."""
    UNUSED = "unused"
    """A placeholder: its application completes without it, or no ask took one of a complete gang for long."""
    GAVE_WAY = "gave_way"
    """A placeholder: it makes room for an earlier gang, and is asked for again."""
    PREEMPTED = "preempted"
    """It makes room for somebody who has a right to it."""


@dataclass(slots=True)
class ResourceManagerChanged:
    """A resource manager registered, connected, was lost or stopped; entering INIT or STOPPED drops its state."""

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
    """What of a node is not as it was; of a new one, what is not as it is with most: all of it free and usable."""

    NONE = 0
    CAPACITY = 1
    OCCUPIED = 2
    READY = 4
    SCHEDULABLE = 8
    """It was drained, or is no longer (in Kubernetes: cordoned)."""


@dataclass(slots=True)
class NodeChanged:
    """A node entered a state (None before it existed) or its capacity or occupied resources changed."""

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
    """What its resource manager says of it; a node that is drained may be ready or not."""


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
    """An application moved from one state to another; `old_state` is None when it came to be (New, or Rejected)."""

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
    """Nothing is remembered of an application any longer (removed by its RM, or Expired); its id is free."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    state: ApplicationState
    """The state it was last in."""


@dataclass(slots=True)
class AskAdded:
    """An ask was taken: `count` more allocations of `resources` each are pending."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    resources: Resources
    count: int
    placeholder: bool
    awaited_placeholder: bool = False
    """True: it is no new demand, it waited for its placeholder to go (`WithdrawCause.PARKED`) and does so no longer."""


@dataclass(slots=True)
class AskWithdrawn:
    """`count` pending allocations of an ask are pending no longer, without having been placed."""

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
    """Set if the RM is to be told (SI `releasedAsks`), and the type to tell it."""
    message: str


@dataclass(slots=True)
class EarlyAskReleased:
    """The RM took back an ask that still waited for its application; of such an ask nothing was pending yet."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    termination: TerminationType
    """As in the release that is confirmed by this (SI `releasedAsks`)."""
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
    """An ask was placed on a node, or (`recovered`) an existing allocation was taken over with its node."""

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
    """True: it came with the node, no ask was pending for it, and the RM is not told what it told us."""
    asked_at_ns: int
    """When the ask arrived; with the time of the step that is the placement latency."""
    replaces: str = ""
    """The UUID of the placeholder whose room it took; its ask was awaiting its placeholder and not pending."""


@dataclass(slots=True)
class ReleaseRequested:
    """The core wants an allocation gone and tells the RM; nothing is freed before the RM confirms (SEMANTICS F)."""

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
    """An allocation is gone and what it used is free."""

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
    """True if the RM is to be told: it asked for it, or has to learn of it. False after the RM's own confirmation, and
    where the RM was asked to end it before its node went."""
    message: str
    node_removed: bool = False
    """True if it is gone because its node is."""


@dataclass(slots=True)
class ReleaseIgnored:
    """A release or confirmation that refers to nothing here; counted, and nothing changes (SEMANTICS F)."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    uuid: str
    reason: str


@dataclass(slots=True)
class ItemIgnored:
    """Something else that refers to nothing here and has no rejection message of its own in SI."""

    rm_id: str
    partition: str
    object_id: str
    code: RejectCode
    reason: str


@dataclass(slots=True)
class CheckFailed:
    """An exception while an item was checked: a bug of schedulerd. The item is rejected by the fact that follows."""

    rm_id: str
    item: str
    """Name of the item's class in `core.commands`."""
    object_id: str
    code: RejectCode
    exception: str
    """Name of the exception's class; the traceback is for the log (`Scheduler.failed_checks`)."""


@dataclass(slots=True)
class CycleRan:
    """A scheduling pass placed something or found out that asks cannot be placed now."""

    allocations: int
    """With swaps begun, reservations made and others asked to end: each counts towards the pass's bound."""
    unschedulable: int
    """How many kinds of ask were set aside during this pass because nothing can place them for now."""
    more: bool
    """True if the pass stopped at its bound and another one should follow."""


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
    | ReleaseRequested
    | GangCompleted
    | GangTimedOut
    | SwapRefused
    | GangGaveWay
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
    | ConfigurationAccepted
    | ConfigurationUpdated
    | ConfigurationRejected
    | CycleRan
    | PredicateWanted
    | PreemptionPredicateWanted
    | PredicateNotWanted
    | PredicateAnswered
    | SchedulingStateChanged
    | NodeRecommended
)
