"""Everything that can happen to the scheduler. Each change of state is one of these commands, in one order.

Commands carry what a resource manager sent, decoded but not checked; handlers check it. The classes are slotted
dataclasses and not frozen, because building a frozen one takes five times as long and there is one for each ask.
Nothing changes a command after it was built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TypeAlias

from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import NO_CONFIGURATION, ConfigurationText, PartitionSpec

NO_TAGS: Mapping[str, str] = {}


class NodeAction(IntEnum):
    """What to do with a node; the numbers of SI `NodeInfo.ActionFromRM`."""

    UNKNOWN = 0
    CREATE = 1
    UPDATE = 2
    DRAIN_NODE = 3
    DECOMISSION = 4
    DRAIN_TO_SCHEDULABLE = 5
    CREATE_DRAIN = 6
    """Registers a node that is drained from the start. Not in the 2023-06 interface; YuniKorn's release accepts it."""


class TerminationType(IntEnum):
    """Why an allocation or an ask ends; the numbers of SI `TerminationType`."""

    UNKNOWN_TERMINATION_TYPE = 0
    STOPPED_BY_RM = 1
    TIMEOUT = 2
    PREEMPTED_BY_SCHEDULER = 3
    PLACEHOLDER_REPLACED = 4


OF_RM = (TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN_TERMINATION_TYPE)
"""Types with which an RM asks for a release; the confirmation repeats the type. The scheduler itself uses the
others."""


class StopCause(StrEnum):
    """Why a resource manager is no longer served."""

    RECONNECT_TIMEOUT = "reconnect_timeout"
    OUTBOX_OVERFLOW = "outbox_overflow"
    CONNECTION_LOST = "connection_lost"
    """The connection broke, and some responses may not have arrived."""
    UNREGISTERED = "unregistered"


class AbsenceCause(StrEnum):
    """Why a registered resource manager cannot receive responses, as a phrase for people."""

    STREAM_NOT_OPEN = "its allocation stream is not open"
    GONE = "its allocation stream is gone: the client closed it, or the connection broke"
    REFUSED = "schedulerd ended its allocation stream with an error"
    READS_SLOWLY = "it reads its responses too slowly"
    SHUTDOWN = "schedulerd shuts down"


@dataclass(slots=True)
class ExistingAllocation:
    """An allocation that a resource manager reports with its node; it is taken over as it is (recovery)."""

    application_id: str
    allocation_key: str
    uuid: str
    resources: Resources
    node_id: str = ""
    partition: str = ""
    priority: int = 0
    task_group: str = ""
    placeholder: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""
    """The queue that the resource manager believes the allocation to be in; '' if it does not say."""
    unreadable: str = ""
    """What could not be decoded, as in `NewAsk.unreadable`. It is only reported, because the allocation already
    runs."""


@dataclass(slots=True)
class NodeUpdate:
    """One item of SI `NodeRequest.nodes`."""

    node_id: str
    action: NodeAction
    partition: str = ""
    """Name of the partition, '' for the default one. SI carries it in the attribute `si/node-partition`."""
    capacity: Resources | None = None
    """Schedulable resources; None if the message has none (an UPDATE then leaves the capacity unchanged)."""
    occupied: Resources | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    existing: list[ExistingAllocation] = field(default_factory=list)
    action_number: int = 0
    """The number in the message. For action UNKNOWN it distinguishes an unknown action from one that was not set."""


@dataclass(slots=True)
class NewApplication:
    """One item of SI `ApplicationRequest.new`."""

    application_id: str
    queue: str
    partition: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    execution_timeout_ms: int = 0
    placeholder_ask: Resources = field(default_factory=Resources)
    gang_style: str = ""
    asked_at_ns: int | None = None
    """From when its age counts, in the time of the steps (tag `schedulerd.io/asked-at`); None: from its report."""
    unreadable: str = ""
    """As `NewAsk.unreadable`, of that tag."""


@dataclass(slots=True)
class ApplicationRemoval:
    """One item of SI `ApplicationRequest.remove`."""

    application_id: str
    partition: str = ""


class Operator(StrEnum):
    """How a tag or attribute is compared; the names of SI 2021-02 `AffinityTargetOperator`."""

    IN = "IN"
    NOT_IN = "NOT_IN"
    EXIST = "EXIST"
    NOT_EXIST = "NOT_EXIST"


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition on one key of a node's attributes or of an allocation's tags."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    """Sorted and without duplicates; for IN and NOT_IN only."""


@dataclass(frozen=True, slots=True)
class AllocationAffinity:
    """How many matching allocations a group of nodes may have once the ask is allocated there."""

    scope: str
    """The node attribute whose values form the groups of nodes."""
    expressions: tuple[Expression, ...]
    """Conditions on allocation tags; an allocation matches if it meets all of them."""
    min_cardinality: int = 0
    max_cardinality: int = 0
    """0: no upper bound."""
    required: bool = True
    """False: nodes that satisfy the affinity are preferred, but not required."""


@dataclass(frozen=True, slots=True)
class PlacementConstraint:
    """SI 2021-02 `SimplePlacementConstraint`. Part of a request class, so it must be hashable."""

    node: tuple[Expression, ...] = ()
    """Conditions on node attributes; all must be met."""
    allocations: AllocationAffinity | None = None


@dataclass(slots=True)
class NewAsk:
    """One item of SI `AllocationRequest.asks`: a request for `max_allocations` allocations of `resources` each."""

    application_id: str
    allocation_key: str
    resources: Resources
    partition: str = ""
    max_allocations: int = 1
    priority: int = 0
    execution_timeout_ms: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    task_group: str = ""
    placeholder: bool = False
    originator: bool = False
    allow_preempt_self: bool = True
    allow_preempt_other: bool = False
    constraint: PlacementConstraint | None = None
    asked_at_ns: int | None = None
    """When it was made first, in the time of the steps (tag `schedulerd.io/asked-at`); None: when it is taken."""
    unreadable: str = ""
    """Why the ask must be rejected for content that no field here can express: the field, its value and what would be
    right. '' if there is none."""
    slot: bool = False
    """A placeholder that the scheduler itself asks for, for a gang that declares its task groups: the RM is not told of
    it, and is not asked to release it. No request has this."""


@dataclass(slots=True)
class AllocationRelease:
    """One item of SI `AllocationReleasesRequest.allocationsToRelease`: a release by the RM, or its confirmation of a
    release that the scheduler asked for."""

    application_id: str
    partition: str = ""
    uuid: str = ""
    allocation_key: str = ""
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    message: str = ""


@dataclass(slots=True)
class AskRelease:
    """One item of SI `AllocationReleasesRequest.allocationAsksToRelease`; no key means all asks of the application."""

    application_id: str
    partition: str = ""
    allocation_key: str = ""
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    message: str = ""


@dataclass(slots=True)
class RegisterResourceManager:
    """A resource manager registers, perhaps again: all state of `rm_id` is dropped, and the RM is expected to report
    everything."""

    rm_id: str
    partitions: tuple[PartitionSpec, ...]
    version: str = ""
    policy_group: str = ""
    build_info: Mapping[str, str] = field(default_factory=dict)
    configuration: ConfigurationText = NO_CONFIGURATION
    extra_config: Mapping[str, str] = field(default_factory=dict, repr=False)
    """SI `extraConfig`, a secret. The core keeps it and does not read it."""


@dataclass(slots=True)
class ConnectResourceManager:
    """The stream that carries the allocations of this RM is open: the RM is Running."""

    rm_id: str


@dataclass(slots=True)
class DisconnectResourceManager:
    """The stream that carries the allocations of this RM is gone, or the RM reads it too slowly. The RM is Paused:
    nothing is allocated for it, and its reconnect timeout starts."""

    rm_id: str
    cause: AbsenceCause = AbsenceCause.STREAM_NOT_OPEN


@dataclass(slots=True)
class StopResourceManager:
    """The RM is no longer served: drops its state at once."""

    rm_id: str
    cause: StopCause


@dataclass(slots=True)
class UpdateNodes:
    rm_id: str
    nodes: list[NodeUpdate]


@dataclass(slots=True)
class UpdateApplications:
    """New applications are handled before removals, each list in order."""

    rm_id: str
    new: list[NewApplication] = field(default_factory=list)
    remove: list[ApplicationRemoval] = field(default_factory=list)


@dataclass(slots=True)
class UpdateAllocations:
    """Handled in this order: asks, releases of allocations, releases of asks; each list in order."""

    rm_id: str
    asks: list[NewAsk] = field(default_factory=list)
    releases: list[AllocationRelease] = field(default_factory=list)
    ask_releases: list[AskRelease] = field(default_factory=list)


@dataclass(slots=True)
class UpdateConfiguration:
    """A new queue file for this RM. Settings that it does not name are default again."""

    rm_id: str
    partitions: tuple[PartitionSpec, ...]
    configuration: ConfigurationText = NO_CONFIGURATION
    instead_of: ConfigurationText | None = None
    """Apply the file only if this text is still in effect for the RM when the command is handled; None: in any case."""
    extra_config: Mapping[str, str] | None = field(default=None, repr=False)
    """SI `extraConfig`, a secret; None: as before."""


@dataclass(slots=True)
class ConnectCallbacks:
    """The RM opened its callback stream and says which calls it takes part in (SI `ResourceManagerCallback`)."""

    rm_id: str
    predicates: bool = False
    """The RM is asked about a node before an ask is allocated there."""
    preemption_predicates: bool = False
    """The RM is asked before allocations are preempted for an ask."""
    scheduling_states: bool = False
    """The RM is sent the scheduling states of its asks."""
    wanted_states: tuple[int, ...] = ()
    """Which of them it is sent, as numbers of `SchedulingState`; () for all."""
    pending_reasons: bool = False
    """The RM is told as data why its asks wait."""
    holds: bool = False
    """The RM is told of the room that slots hold (`core.language.task_groups`), and with `predicates` it is asked
    before a slot gets a node."""


@dataclass(slots=True)
class DisconnectCallbacks:
    """The callback stream of this RM is gone: open calls there get no answer, and asks are allocated without checks."""

    rm_id: str


@dataclass(slots=True)
class PredicateResult:
    """An answer to one `PredicateWanted` or `PreemptionPredicateWanted`."""

    call_id: int
    refusal: str = ""
    """Why the ask may not run on the node: a short phrase, the same for equal causes. '' if it may."""
    index: int = 0
    """Index of the last victim that has to go; only in an answer to `PreemptionPredicateWanted` without refusal."""


@dataclass(slots=True)
class GivePredicateResults:
    """The RM answers calls on its callback stream. Answers that are no longer wanted are ignored."""

    rm_id: str
    results: list[PredicateResult]


@dataclass(slots=True)
class Utilization:
    """One item of SI 2021-02 `UpdateRequest.utilizationReports`."""

    object_id: str
    """Id of a node, or UUID of an allocation."""
    used: Resources
    partition: str = ""


@dataclass(slots=True)
class ReportUtilization:
    """What nodes and allocations really use. It is shown, and never used for quotas."""

    rm_id: str
    reports: list[Utilization]


@dataclass(slots=True)
class CleanQueues:
    """Removes empty queues that are no longer needed at once, without `Timeouts.cleanup_ns`.

    The daemon never sends it: there an alarm removes these queues. The recorded scenarios of `tests/conformance` have
    such a step, in which time stands still and no other alarm may ring.
    """

    rm_id: str


@dataclass(slots=True)
class RunCycle:
    """One scheduling cycle with at most `allocations_max` allocations. A bound by time could not be replayed."""

    allocations_max: int


@dataclass(slots=True)
class RingAlarms:
    """Rings the alarms that are due, up to `scheduler.ALARMS_MAX` in one step."""


Command: TypeAlias = (
    RegisterResourceManager
    | ConnectResourceManager
    | DisconnectResourceManager
    | StopResourceManager
    | UpdateNodes
    | UpdateApplications
    | UpdateAllocations
    | UpdateConfiguration
    | ConnectCallbacks
    | DisconnectCallbacks
    | GivePredicateResults
    | ReportUtilization
    | SetQueueStopped
    | CleanQueues
    | RunCycle
    | RingAlarms
)
