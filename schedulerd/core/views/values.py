"""The types of the views: plain values without references into the state. `view.py` fills them.

Amounts are plain dictionaries without zeros, sorted by name. Times are in nanoseconds of the scheduler's clock, or
since the Unix epoch if the query says so (`StateQuery.epoch_ns`). Lists are sorted by id unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.autoscaling.summary import OutstandingView
from schedulerd.core.views.gang_members import TaskGroupMembers

Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class AllocationView:
    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resources: Amounts
    priority: int
    task_group: str
    placeholder: bool
    used: Amounts | None
    """Real use of the allocation as reported; None if not reported."""
    releasing: str
    """Name of the termination type of a release that the RM has not confirmed yet; '' if it is not being released."""
    slot: bool
    """Whether it is a slot, which the scheduler itself has asked for."""


@dataclass(frozen=True, slots=True)
class UnclaimedView:
    """An existing allocation of an application that is not known. It uses room of its node, and no quota."""

    application_id: str
    allocation_key: str
    uuid: str
    node_id: str
    resources: Amounts
    priority: int
    task_group: str
    placeholder: bool
    reason: str
    """Why no application has it, as a sentence."""


@dataclass(frozen=True, slots=True)
class PredicateCheckView:
    """An open predicate check of an ask."""

    node_id: str
    purpose: str
    """`allocate`, `swap`, `reserve` or `preempt`."""
    call_id: int
    since_ns: int


@dataclass(frozen=True, slots=True)
class AskView:
    application_id: str
    allocation_key: str
    resources: Amounts
    pending: int
    """Number of pending allocations."""
    priority: int
    task_group: str
    placeholder: bool
    required_node: str
    """The required node; '' if there is none."""
    asked_at_ns: int
    waiting_for: str
    """Why the ask is not allocated, as a sentence; '' if it has not been tried since something changed for it."""
    no_preemption_because: str
    """Why nothing was preempted for the ask, as a sentence; '' if victims were released, or if it is not known to
    wait."""
    predicate_checks: list[PredicateCheckView]
    """Open checks, whose results are awaited."""
    slot: bool
    """Whether it is for slots, which the scheduler itself has asked for."""


@dataclass(frozen=True, slots=True)
class TaskGroupView:
    """A task group of a gang. All counts are of placeholders (gang design)."""

    name: str
    wanted: int
    """Placeholders asked for and not withdrawn."""
    placed: int
    """Placeholders allocated so far, whether they still exist or not."""
    idle: int
    """Placeholders that wait for their real asks."""
    awaiting_placeholder: int
    """Placeholders that are being released and whose room a real ask will get."""
    replaced: int
    timed_out: int
    """Placeholders released, or never allocated, because the gang timed out."""
    unused: int
    """Placeholders released because they were too small for an ask, were idle too long, or their application
    completed."""
    gave_back: int
    """Placeholders released because of a gang deadlock; they are asked for again."""
    preempted: int
    """Placeholders preempted for entitled asks."""


@dataclass(frozen=True, slots=True)
class ApplicationView:
    application_id: str
    queue: str
    user: str
    groups: tuple[str, ...]
    group: str
    """The group that counts for limits, determined at submission; '' if none does."""
    state: str
    state_log: list[tuple[int, str, str]]
    """(time, state, cause) of each state entered, oldest first; without New."""
    submitted_at_ns: int
    asked_at_ns: int
    """From when its age counts, by which it is ordered; before `submitted_at_ns` if the RM said so."""
    allocated: Amounts
    """Used by real allocations."""
    placeholder_allocated: Amounts
    pending: Amounts
    asks: list[AskView]
    """Only asks with pending allocations."""
    allocations: list[AllocationView]
    placeholder_ask: Amounts
    """The amounts that its gang needs in total, as announced (`placeholderAsk`)."""
    gang_started: bool
    """True from the first allocated placeholder until the gang is complete, has none left, or times out (SEMANTICS G2,
    G5)."""
    gang_deadline_ns: int | None
    """When the gang times out; None while it has no deadline."""
    gang_style: str
    """As submitted: `Hard`; any other value means soft."""
    execution_deadline_ns: int | None
    """When the application fails because of its execution timeout (SEMANTICS E3); None if it has no such deadline
    now."""
    awaiting_placeholder: int
    """Allocations that will get the room of a placeholder when it is gone."""
    gang_first_asked_ns: int | None
    """When the first placeholder was asked for; None without a gang, or if a placeholder is an existing allocation."""
    gang_full_ns: int | None
    """When the last missing placeholder was allocated (`GangCompleted`); None if that has not happened."""
    task_groups: list[TaskGroupView]
    lets_next_start: bool
    """In a state-aware leaf: it has been blocked for long, and the next application may start before it."""
    blocked_since_ns: int | None
    """In a state-aware leaf, of the application whose start the others wait for: since when no ask of it can be
    allocated; None if that is not so."""
    waits_for_gang_of: str
    """Id of the application with the priority gang for which its placeholders wait; '' if they do not."""
    gang_state: str
    """The state of its gang, if it declares its task groups; '' else."""
    members: list[TaskGroupMembers]
    """The task groups that it declares; empty without any."""


@dataclass(frozen=True, slots=True)
class LimitView:
    """A limit: what each of these users, and each of these groups, may use in a queue and below. `*` is any other."""

    users: tuple[str, ...]
    groups: tuple[str, ...]
    max: Amounts
    """A missing name means unlimited; 0 means nothing."""
    max_applications: int
    """0 means unlimited."""


@dataclass(frozen=True, slots=True)
class QueueView:
    path: str
    leaf: bool
    managed: bool
    """False for a dynamic queue."""
    draining: bool
    """The queue file no longer names it."""
    stopped: bool
    """An operator stopped it, and so all queues below it."""
    guaranteed: Amounts
    max: Amounts
    """The queue's own max. A missing name means unlimited; 0 means nothing."""
    headroom: Amounts
    """What the max of this queue and of its parents leaves. A missing name means unlimited."""
    allocated: Amounts
    pending: Amounts
    gang_quota_promised: Amounts
    """What gangs that passed the gate still lack (SEMANTICS G2)."""
    quota_reserved: Amounts
    """What entitled reservations and open predicate checks hold. It counts as used."""
    leaving: Amounts
    """The part of `allocated` that is being released. It no longer counts against the guarantee."""
    running_applications: int
    """Running applications that count for maxapplications, including those of child queues."""
    max_applications: int
    """0 means unlimited."""
    limits: list[LimitView]
    applications: list[str]
    application_order: str
    queue_order: str
    preemption_policy: str
    preemption_delay_ns: int
    """Minimum age of an ask in this leaf queue for its first preemption attempt."""
    above_max_since_ns: int | None
    """Since when the queue is above its max, if quota relief will follow; else None."""


@dataclass(frozen=True, slots=True)
class ReservationView:
    """A reservation: room of a node is held for one allocation of an ask."""

    application_id: str
    allocation_key: str
    node_id: str
    resources: Amounts
    entitled: bool
    since_ns: int
    waits_for: list[str]
    """UUIDs of the victims that are still there."""


@dataclass(frozen=True, slots=True)
class NodeView:
    node_id: str
    state: str
    schedulable: bool
    ready: bool
    attributes: dict[str, str]
    capacity: Amounts
    occupied: Amounts
    allocated: Amounts
    available: Amounts
    """Can be negative where the node is over-committed."""
    reserved: Amounts
    """The part of `available` that is reserved."""
    used: Amounts | None
    """Real use of the node by all workloads as reported; None if not reported."""
    recommended: Amounts | None
    """The recommended capacity that the RM was told last; None if it was told nothing."""
    entitled_reserved: Amounts
    """The part of `reserved` that entitled reservations and predicate checks hold."""
    reservations: list[ReservationView]
    allocations: list[AllocationView]
    unclaimed: list[UnclaimedView]
    """Their amounts are a part of `allocated`."""


@dataclass(frozen=True, slots=True)
class UserView:
    """The use of a user, or of a group."""

    user: str
    usage: dict[str, Amounts]
    """By queue path, root first."""
    applications: dict[str, list[str]]
    """Applications with allocations, by queue path."""
    gang_promised: dict[str, Amounts]
    """What gangs of the user or group that have started still lack, by queue path; only where they lack some."""


@dataclass(frozen=True, slots=True)
class PartitionView:
    rm_id: str
    name: str
    node_order: str
    preemption_enabled: bool
    total: Amounts
    """Sum of the capacities of its nodes."""
    queues: list[QueueView]
    applications: list[ApplicationView]
    """Applications that have a queue."""
    terminated: list[ApplicationView]
    """Completed, Failed and Rejected applications that are still remembered. An id can occur more than once."""
    nodes: list[NodeView]
    users: list[UserView]
    groups: list[UserView]
    """The use of each group that counts for limits."""
    outstanding: list[OutstandingView]
    """What is outstanding: pending asks that fit all quotas but no node, by kind."""


@dataclass(frozen=True, slots=True)
class ResourceManagerView:
    rm_id: str
    state: str
    version: str
    policy_group: str
    configuration_source: str
    """Where its queue file came from."""
    configuration_checksum: str
    configured_at_ns: int
    """When its queue file took effect."""
    partitions: list[PartitionView]
