"""The request classes in which the scheduler's state can be looked at: plain values, never references into the state.

`view.py` fills them. Amounts are plain dictionaries without zeros, sorted by name; times are nanoseconds
of the scheduler's clock, or since the Unix epoch if the look says so (`StateQuery.epoch_ns`); lists are sorted by id
unless said otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """What it really uses, as reported; None if nobody said."""
    releasing: str
    """Name of the termination type the RM still has to confirm, '' if the allocation is not being released."""


@dataclass(frozen=True, slots=True)
class PredicateCheckView:
    """What the resource manager is asked about an ask."""

    node_id: str
    purpose: str
    """`place`, `swap`, `keep` or `preempt`."""
    call_id: int
    since_ns: int


@dataclass(frozen=True, slots=True)
class AskView:
    application_id: str
    allocation_key: str
    resources: Amounts
    pending: int
    """How many allocations of it are still to be placed."""
    priority: int
    task_group: str
    placeholder: bool
    required_node: str
    """The only node that will do, '' if any will."""
    asked_at_ns: int
    waiting_for: str
    """Why it is not placed, as a sentence; '' if it has not been tried since something changed for it."""
    no_preemption_because: str
    """Why nobody was asked to end for it, as a sentence; '' if somebody was, or if it is not known to have to wait."""
    predicate_checks: list[PredicateCheckView]
    """Results that are waited for."""


@dataclass(frozen=True, slots=True)
class TaskGroupView:
    """Members of a gang that are interchangeable; all counts are of placeholders (gang design)."""

    name: str
    wanted: int
    """Asked for and not taken back."""
    placed: int
    """So far, whether they are still there or not."""
    idle: int
    """There, and waiting for their real asks."""
    awaiting_placeholder: int
    """On their way out, and a real ask waits for their room."""
    replaced: int
    timed_out: int
    """Released, or never placed, because the time for the gang was over."""
    unused: int
    """Released because they were too small for the ask that came for them, or their application completed."""
    gave_back: int
    """Released for the sake of an earlier gang, to be placed again."""
    preempted: int
    """Released for the sake of others who have a right to their room."""


@dataclass(frozen=True, slots=True)
class ApplicationView:
    application_id: str
    queue: str
    user: str
    groups: tuple[str, ...]
    group: str
    """The one of them that counts for limits, as found when it was submitted; '' if none does."""
    state: str
    state_log: list[tuple[int, str, str]]
    """(time, state, cause) of each state entered, oldest first; New is not listed."""
    submitted_at_ns: int
    allocated: Amounts
    """By real allocations."""
    placeholder_allocated: Amounts
    pending: Amounts
    asks: list[AskView]
    """Only those with something pending."""
    allocations: list[AllocationView]
    placeholder_ask: Amounts
    """All that its placeholders are announced to want."""
    gang_started: bool
    """True from its first placeholder placed until there are none, or their time is over (SEMANTICS G2, G5)."""
    gang_deadline_ns: int | None
    """When that time is over; None while it has none."""
    gang_style: str
    """As it was submitted: `Hard`, or anything else for soft."""
    execution_deadline_ns: int | None
    """When it fails for having run too long (SEMANTICS E3); None while or if it may run."""
    awaiting_placeholder: int
    """Allocations that wait for a placeholder to go and take its room then."""
    gang_first_asked_ns: int | None
    """When it asked for its first placeholder; None without a gang, or if placeholders of it came with their node."""
    gang_full_ns: int | None
    """When the last placeholder that it lacked was placed (`GangCompleted`); None if that did not happen."""
    task_groups: list[TaskGroupView]
    held_back_for: str
    """The application whose gang is first, if its own placeholders have to wait for that; else ''."""


@dataclass(frozen=True, slots=True)
class LimitView:
    """What each of these users, and each of these groups, may use in a queue and below; `*` is everybody else."""

    users: tuple[str, ...]
    groups: tuple[str, ...]
    max: Amounts
    """A missing name is unlimited, 0 is none."""
    max_applications: int
    """0: unlimited."""


@dataclass(frozen=True, slots=True)
class QueueView:
    path: str
    leaf: bool
    managed: bool
    """False for a dynamic queue that the file does not name."""
    guaranteed: Amounts
    max: Amounts
    """Its own quota; a missing name is unlimited, 0 is none."""
    headroom: Amounts
    """What the quotas of it and its parents still allow; a missing name is unlimited."""
    allocated: Amounts
    pending: Amounts
    gang_quota_promised: Amounts
    """What gangs that were let start have not placed yet (SEMANTICS G2)."""
    quota_reserved: Amounts
    """What its asks will use for which others end: it counts against its guarantee already."""
    leaving: Amounts
    """Of what is allocated, what was asked to end: it does not count against its guarantee any longer."""
    running_applications: int
    """Those that count towards its maxapplications, its children's included."""
    max_applications: int
    """0: unlimited."""
    limits: list[LimitView]
    applications: list[str]
    application_order: str
    preemption_policy: str
    preemption_delay_ns: int
    """How old an ask of a leaf has to be before others are ended for it."""
    above_max_since_ns: int | None
    """Since when it uses more than its max, if what is too much of it is to end; None otherwise."""


@dataclass(frozen=True, slots=True)
class ReservationView:
    """Room of a node that is kept for one allocation of an ask."""

    application_id: str
    allocation_key: str
    node_id: str
    resources: Amounts
    entitled: bool
    since_ns: int
    waits_for: list[str]
    """UUIDs of the allocations that were asked to end for it and are still there."""


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
    """May be negative where the node is over-committed."""
    reserved: Amounts
    """Of that, what is reserved."""
    used: Amounts | None
    """What is really used on it, by whomever, as reported; None if nobody said."""
    recommended: Amounts | None
    """What it had better offer, as the RM was told last; None if nothing was said."""
    entitled_reserved: Amounts
    """Of that, for asks that others end for, or that may run nowhere else."""
    reservations: list[ReservationView]
    allocations: list[AllocationView]


@dataclass(frozen=True, slots=True)
class UserView:
    """What a user uses, or a group."""

    user: str
    usage: dict[str, Amounts]
    """Per queue path, root first."""
    applications: dict[str, list[str]]
    """Per queue path, the applications that have allocations."""


@dataclass(frozen=True, slots=True)
class OutstandingView:
    """Equal asks that lack nothing but room on nodes (SI 2021-02 `OutstandingResourceRequest`)."""

    resources: Amounts
    """Of each of them."""
    count: int
    """How many allocations of that size a larger cluster would run."""
    queue: str
    """The deepest queue that all of them are in."""
    node_selector: str
    """What they demand of node attributes, as in a label selector; '' if nothing."""
    affinity_scope: str
    """The node attribute by whose groups they count other allocations; '' if they do not."""


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
    """Those with a queue."""
    terminated: list[ApplicationView]
    """Completed, Failed and Rejected ones that are still remembered; an id can occur more than once."""
    nodes: list[NodeView]
    users: list[UserView]
    groups: list[UserView]
    """The same for the groups that limits count."""
    outstanding: list[OutstandingView]
    """What is pending that fits every quota but no node, by kind."""


@dataclass(frozen=True, slots=True)
class ResourceManagerView:
    rm_id: str
    state: str
    version: str
    policy_group: str
    configuration_source: str
    """Where the queue file that it lives by came from."""
    configuration_checksum: str
    configured_at_ns: int
    """Since when it lives by that file."""
    partitions: list[PartitionView]
