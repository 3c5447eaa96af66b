"""All that can happen to the scheduler. Everything that changes state is one of these, in one order.

Commands carry what a resource manager sent, decoded but not judged: whether it makes sense is for the handlers to say.
The classes are plain slotted dataclasses and not frozen ones, because building a frozen one costs five times as much
and there is one per ask; nothing changes a command after it was built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TypeAlias

from schedulerd.core.resources import Resources
from schedulerd.core.specs import NO_CONFIGURATION, ConfigurationText, PartitionSpec

NO_TAGS: Mapping[str, str] = {}


class NodeAction(IntEnum):
    """What to do with a node; numbers as in SI `NodeInfo.ActionFromRM`."""

    UNKNOWN = 0
    CREATE = 1
    UPDATE = 2
    DRAIN_NODE = 3
    DECOMISSION = 4
    DRAIN_TO_SCHEDULABLE = 5
    CREATE_DRAIN = 6
    """Not in the 2023-06 interface; the peer's release takes it (register a node that is drained from the start)."""


class TerminationType(IntEnum):
    """Why an allocation or an ask ends; numbers as in SI `TerminationType`."""

    UNKNOWN_TERMINATION_TYPE = 0
    STOPPED_BY_RM = 1
    TIMEOUT = 2
    PREEMPTED_BY_SCHEDULER = 3
    PLACEHOLDER_REPLACED = 4


OF_RM = (TerminationType.STOPPED_BY_RM, TerminationType.UNKNOWN_TERMINATION_TYPE)
"""With these a release is the RM's wish, and is confirmed to it with the same type; the others are the core's."""


class StopCause(StrEnum):
    """Why a resource manager is no longer served."""

    RECONNECT_TIMEOUT = "reconnect_timeout"
    OUTBOX_OVERFLOW = "outbox_overflow"
    CONNECTION_LOST = "connection_lost"
    """With responses that may not have come."""
    UNREGISTERED = "unregistered"


class AbsenceCause(StrEnum):
    """Why a registered resource manager is not there to receive, in words for people."""

    NOBODY_READS = "nobody reads its allocation stream"
    GONE = "its allocation stream is gone: the client closed it, or the connection broke"
    REFUSED = "schedulerd ended its allocation stream with an error, which the client was told"
    READS_TOO_SLOWLY = "it reads its responses too slowly"
    SHUTDOWN = "schedulerd shuts down"


@dataclass(slots=True)
class ExistingAllocation:
    """An allocation that a resource manager reports with its node, to be taken over as it is (recovery)."""

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
    """Where the resource manager believes it to be; '' if it does not say."""
    unreadable: str = ""
    """As in `NewAsk`; it runs all the same, so this is told and nothing more."""


@dataclass(slots=True)
class NodeUpdate:
    """One item of SI `NodeRequest.nodes`."""

    node_id: str
    action: NodeAction
    partition: str = ""
    """Name of the partition, '' for the default one; SI carries it in the attribute `si/node-partition`."""
    capacity: Resources | None = None
    """Schedulable resources; None if the message does not carry any (an UPDATE then leaves the capacity alone)."""
    occupied: Resources | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    existing: list[ExistingAllocation] = field(default_factory=list)
    action_number: int = 0
    """What the message said; it tells an action that nobody knows from one that was not set."""


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


@dataclass(slots=True)
class ApplicationRemoval:
    """One item of SI `ApplicationRequest.remove`."""

    application_id: str
    partition: str = ""


class Operator(StrEnum):
    """How a tag or attribute is compared; names as in SI 2021-02 `AffinityTargetOperator`."""

    IN = "IN"
    NOT_IN = "NOT_IN"
    EXIST = "EXIST"
    NOT_EXIST = "NOT_EXIST"


@dataclass(frozen=True, slots=True)
class Expression:
    """What is demanded of one key of a node's attributes, or of an allocation's tags."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    """Sorted, without repetitions; for IN and NOT_IN only."""


@dataclass(frozen=True, slots=True)
class AllocationAffinity:
    """How many allocations that match may be together in a group of nodes, once an ask is placed there."""

    scope: str
    """The node attribute by whose value nodes form groups."""
    expressions: tuple[Expression, ...]
    """About allocation tags, all to be met."""
    min_cardinality: int = 0
    max_cardinality: int = 0
    """0: no upper bound."""
    required: bool = True
    """False: nodes where it holds are preferred, and others will do."""


@dataclass(frozen=True, slots=True)
class PlacementConstraint:
    """SI 2021-02 `SimplePlacementConstraint`; asks with the same one are the same request class, so it can be a key."""

    node: tuple[Expression, ...] = ()
    """About node attributes, all to be met."""
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
    unreadable: str = ""
    """What was sent and no field here can say, as a reason to reject the ask: the field, its value, what would be
    right. '' if there is nothing."""


@dataclass(slots=True)
class AllocationRelease:
    """One item of SI `AllocationReleasesRequest.allocationsToRelease`: a wish of the RM, or its answer to ours."""

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
    """A resource manager (re-)registers: whatever was known of `rm_id` is dropped and a full report expected."""

    rm_id: str
    partitions: tuple[PartitionSpec, ...]
    version: str = ""
    policy_group: str = ""
    build_info: Mapping[str, str] = field(default_factory=dict)
    configuration: ConfigurationText = NO_CONFIGURATION


@dataclass(slots=True)
class ConnectResourceManager:
    """The stream that carries this RM's allocations is open for responses: it is Running."""

    rm_id: str


@dataclass(slots=True)
class DisconnectResourceManager:
    """That stream is gone or read too slowly: the RM is Paused, nothing is placed for it, and a deadline starts."""

    rm_id: str
    cause: AbsenceCause = AbsenceCause.NOBODY_READS


@dataclass(slots=True)
class StopResourceManager:
    """The RM will not be served any longer: drop its state at once."""

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
    """Asks are handled first, then releases of allocations, then releases of asks, each list in order."""

    rm_id: str
    asks: list[NewAsk] = field(default_factory=list)
    releases: list[AllocationRelease] = field(default_factory=list)
    ask_releases: list[AskRelease] = field(default_factory=list)


@dataclass(slots=True)
class UpdateConfiguration:
    """The queue file of this RM changed: what it says now holds, what it does not say is default again."""

    rm_id: str
    partitions: tuple[PartitionSpec, ...]
    configuration: ConfigurationText = NO_CONFIGURATION
    instead_of: ConfigurationText | None = None
    """Holds only if the RM still lives by this text when its turn comes; None: in any case."""


@dataclass(slots=True)
class ConnectCallbacks:
    """The RM opened its callback stream and says what it wants to be asked and told there (SI
    `ResourceManagerCallback`)."""

    rm_id: str
    predicates: bool = False
    """Its say on nodes is asked for before an ask is placed."""
    preemption_predicates: bool = False
    """Likewise before others end for an ask."""
    scheduling_states: bool = False
    """It wants to hear how far its asks have come."""


@dataclass(slots=True)
class DisconnectCallbacks:
    """That stream is gone: what was asked there is answered by nobody, and placing goes on without its say."""

    rm_id: str


@dataclass(slots=True)
class PredicateResult:
    """An answer to one `PredicateWanted` or `PreemptionPredicateWanted`."""

    call_id: int
    refusal: str = ""
    """Why not, as a short phrase that is the same for equal causes; '' if the ask may run there."""
    index: int = 0
    """Of the last victim that has to go; of a `PreemptionPredicateWanted` without refusal only."""


@dataclass(slots=True)
class GivePredicateResults:
    """The RM answers what it was asked on its callback stream. What nobody waits for any longer is ignored."""

    rm_id: str
    results: list[PredicateResult]


@dataclass(slots=True)
class Utilization:
    """One item of SI 2021-02 `UpdateRequest.utilizationReports`."""

    object_id: str
    """Of a node, or UUID of an allocation."""
    used: Resources
    partition: str = ""


@dataclass(slots=True)
class ReportUtilization:
    """What nodes and allocations really use; shown, and never used for quotas."""

    rm_id: str
    reports: list[Utilization]


@dataclass(slots=True)
class CleanQueues:
    """Removes empty queues that nobody needs at once, without waiting for their time."""

    rm_id: str


@dataclass(slots=True)
class RunCycle:
    """One scheduling pass that places at most `placements_max` asks (a bound by time could not be replayed)."""

    allocations_max: int


@dataclass(slots=True)
class RingAlarms:
    """Deadlines may have passed: let every alarm that is due by now ring."""


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
    | CleanQueues
    | RunCycle
    | RingAlarms
)
