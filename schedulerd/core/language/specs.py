"""The operator's configuration as plain data: the queue file and the timeouts, in the form that the core uses.

`config` reads and validates YAML and builds these. The core never sees a file, a unit suffix or an implied default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from schedulerd.core.language.resources import Limits, Resources

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000 * MILLISECOND_NS
MINUTE_NS = 60 * SECOND_NS
DAY_NS = 24 * 60 * MINUTE_NS

QUEUE_NAME = re.compile(r"[A-Za-z0-9_:#/@-]{1,64}")
"""What a queue may be called, in the file or by a placement rule that creates it."""
QUEUE_NAME_FORM = "1 to 64 letters, digits and _ : # / @ -"
"""The same for sentences."""


class ApplicationOrder(StrEnum):
    """The order in which the applications of a leaf queue get resources (`application.sort.policy`)."""

    FIFO = "fifo"
    FAIR = "fair"
    STATE_AWARE = "stateaware"
    """Like fifo, but only one application at a time may be starting; one that is blocked lets the next one start."""
    DRF = "drf"
    """Dominant resource fairness: the application goes first whose largest share of the cluster is the smallest."""


class QueueOrder(StrEnum):
    """In which order the queues below a parent get resources (`queue.sort.policy`)."""

    FAIR = "fair"
    """By the largest share of the guarantee of the queue, else of the nearest max, else of the cluster."""
    DRF = "drf"
    """Dominant resource fairness: by the largest share of the cluster."""


class PriorityPolicy(StrEnum):
    """Which priority a queue shows its parent (`priority.policy`)."""

    DEFAULT = "default"
    """The highest pending priority inside, plus the queue's offset."""
    FENCE = "fence"
    """Only the queue's offset, whatever is pending inside."""


class WithinQueue(StrEnum):
    """Whether asks preempt allocations of lower priority in their own leaf (`preemption.within-queue`)."""

    OFF = "off"
    """Inside a leaf, priority decides which ask is next, and preempts nothing."""
    PRIORITY = "priority"
    """Allocations of strictly lower priority of other applications may be preempted."""


class OnBelowMin(StrEnum):
    """What becomes of an application whose gang stays below the min of a task group (`gang.on-below-min`)."""

    CONTINUE = "continue"
    FAIL = "fail"


class PreemptionPolicy(StrEnum):
    """Whether asks in a queue may preempt outside it, and whether its allocations may be preempted
    (`preemption.policy`)."""

    DEFAULT = "default"
    FENCE = "fence"
    """Asks inside preempt nothing outside; allocations inside can be preempted for asks outside."""
    DISABLED = "disabled"
    """Allocations inside are never victims."""


class OptOut(StrEnum):
    """What `allowPreemptSelf: false` of an ask means for its allocations (`preemption.optout`)."""

    NEVER = "never"
    """They are never preempted."""
    LAST = "last"
    """They are preempted only where no other victims than originators are left."""


class RuleKind(StrEnum):
    """Kinds of placement rules (`placementrules[].name`)."""

    PROVIDED = "provided"
    USER = "user"
    TAG = "tag"
    FIXED = "fixed"
    RECOVERY = "recovery"


class NodeOrder(StrEnum):
    """Which node is tried first (`nodesortpolicy.type`): the emptiest (`fair`) or the fullest (`binpacking`)."""

    FAIR = "fair"
    BINPACKING = "binpacking"


@dataclass(frozen=True, slots=True)
class Acl:
    """Allows every user, or the named users and the members of the named groups. Default: no user."""

    everybody: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def allows(self, user: str, groups: tuple[str, ...]) -> bool:
        return self.everybody or user in self.users or any(group in self.groups for group in groups)


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """What each named user, and each named group as a whole, may use in a queue and below.

    `*` among the users stands for each user that no limit of the same queue names. `*` among the groups stands for all
    users together of whose groups no limit on the path to the root names any.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max: Limits | None = None
    """None: no limit on resources."""
    max_applications: int = 0
    """0: no limit on running applications."""


@dataclass(frozen=True, slots=True)
class QueueProperties:
    """Settings of a queue. A child takes over the inherited ones where it has no value of its own."""

    application_order: ApplicationOrder = ApplicationOrder.FIFO
    """Inherited."""
    queue_order: QueueOrder = QueueOrder.FAIR
    """Inherited."""
    priority_sort: bool = True
    """`application.sort.priority`, inherited: whether priority comes before or after the order (or share)."""
    priority_policy: PriorityPolicy = PriorityPolicy.DEFAULT
    priority_offset: int = 0
    preemption_policy: PreemptionPolicy = PreemptionPolicy.DEFAULT
    """Only `DISABLED` is inherited."""
    preemption_delay_ns: int = 30 * SECOND_NS
    """Inherited: how old an ask of the leaf must be before allocations may be preempted for it."""
    preemption_within_queue: WithinQueue = WithinQueue.OFF
    """Inherited: whether asks preempt by priority inside their own leaf."""
    quota_preemption_delay_ns: int = 0
    """Inherited: how long the queue may stay above a lowered max before quota relief begins; 0: for ever."""
    gang_placeholder_idle_timeout_ns: int = 15 * MINUTE_NS
    """Inherited: how long placeholders of a complete gang may be idle before they are released; 0: as long as their
    application runs."""

    stateaware_timeout_ns: int = 30 * SECOND_NS
    """Inherited: how long an application that holds nothing may be blocked before it lets the next one of a
    `stateaware` leaf start."""
    gang_on_below_min: OnBelowMin = OnBelowMin.CONTINUE
    """Inherited: what becomes of an application whose gang is short for `gang_below_min_timeout_ns`."""
    gang_below_min_timeout_ns: int = 15 * MINUTE_NS
    """Inherited; 0: for ever."""

    def for_child(self) -> QueueProperties:
        """The settings that a child starts with."""
        disabled = self.preemption_policy is PreemptionPolicy.DISABLED
        return QueueProperties(
            application_order=self.application_order,
            queue_order=self.queue_order,
            priority_sort=self.priority_sort,
            preemption_policy=PreemptionPolicy.DISABLED if disabled else PreemptionPolicy.DEFAULT,
            preemption_delay_ns=self.preemption_delay_ns,
            preemption_within_queue=self.preemption_within_queue,
            quota_preemption_delay_ns=self.quota_preemption_delay_ns,
            gang_placeholder_idle_timeout_ns=self.gang_placeholder_idle_timeout_ns,
            stateaware_timeout_ns=self.stateaware_timeout_ns,
            gang_on_below_min=self.gang_on_below_min,
            gang_below_min_timeout_ns=self.gang_below_min_timeout_ns,
        )


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """What a leaf that a placement rule creates below the queue starts with (`childtemplate`)."""

    max_applications: int = 0
    guaranteed: Resources = field(default_factory=Resources)
    max: Limits = field(default_factory=Limits)
    properties: QueueProperties | None = None
    """None: as for a child without template."""


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue of the file, with its children."""

    name: str
    """A single path element as written in the file; the top one is `root`."""
    parent: bool = False
    """True for a queue that may have only queues. A queue with children is a parent in any case."""
    guaranteed: Resources = field(default_factory=Resources)
    max: Limits = field(default_factory=Limits)
    max_applications: int = 0
    """How many applications may run in the queue and below at a time; 0 is unlimited."""
    properties: QueueProperties = QueueProperties()
    """Includes what the queue inherits."""
    submit_acl: Acl = Acl()
    admin_acl: Acl = Acl()
    limits: tuple[LimitSpec, ...] = ()
    template: TemplateSpec | None = None
    """None: that of the nearest parent that has one."""
    children: tuple[QueueSpec, ...] = ()

    @property
    def key(self) -> str:
        """The name in lower case, because queue names ignore case (SEMANTICS I15)."""
        return self.name.lower()

    @property
    def is_leaf(self) -> bool:
        return not self.parent and not self.children


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """For which applications a placement rule is used, by user and group. Without users and groups: for all."""

    allow: bool = True
    """False: for all except those of these users and groups."""
    users: tuple[str, ...] = ()
    """Names, or a single regular expression (`is_user_pattern`)."""
    groups: tuple[str, ...] = ()
    is_user_pattern: bool = False
    is_group_pattern: bool = False

    @property
    def has_pattern(self) -> bool:
        return self.is_user_pattern or self.is_group_pattern


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """One placement rule, with the rule that finds its parent queue."""

    kind: RuleKind
    create: bool = False
    """Whether a queue that does not exist may be created."""
    value: str = ""
    """For a `fixed` rule the queue as written; for a `tag` rule the tag name in lower case."""
    filter: FilterSpec = FilterSpec()
    parent: RuleSpec | None = None

    @property
    def has_pattern(self) -> bool:
        """Whether its filter, or the filter of a rule that finds its parent, has a regular expression."""
        return self.filter.has_pattern or (self.parent is not None and self.parent.has_pattern)


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One partition of the file: a set of nodes and the queue tree that shares them."""

    name: str
    root: QueueSpec
    rules: tuple[RuleSpec, ...] = ()
    """Placement rules in order; no rules are the same as `provided` without create."""
    node_order: NodeOrder = NodeOrder.FAIR
    node_weights: Mapping[str, float] = field(default_factory=lambda: {"memory": 1.0, "vcore": 1.0})
    """Weight of each resource in the score of a node; a resource without weight does not count."""
    preemption_enabled: bool = True
    quota_preemption_enabled: bool = False
    preemption_optout: OptOut = OptOut.NEVER
    topology: tuple[tuple[str, str], ...] = ()
    """The levels of the nodes' topology, largest domains first: their names, and the node attributes whose values are
    their domains."""
    topology_keys: tuple[str, ...] = ()
    """Further node attributes whose values a gang may name as domains."""

    def topology_attribute(self, level: str) -> str | None:
        """The node attribute of a level, which is given by its name or by the attribute; None if there is no such level
        and no such key."""
        known = next((attribute for name, attribute in self.topology if level in (name, attribute)), None)
        return level if known is None and level in self.topology_keys else known


@dataclass(frozen=True, slots=True)
class ConfigurationText:
    """The text from which the partitions of a resource manager were read. The core keeps it and does not read it."""

    text: str = field(default="", repr=False)
    source: str = ""
    """Where the text came from, for people: a path, or its sender."""
    checksum: str = ""
    """Equal for equal texts."""
    policy_group: str | None = None
    """The policy group whose file this is, which is read again when it changes. None for a text that was sent; only its
    sender changes it (SEMANTICS C1)."""
    os_group_partitions: frozenset[str] = frozenset()
    """Partitions in which a user without groups gets the groups that the operating system knows."""


NO_CONFIGURATION = ConfigurationText()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """All durations that the core uses, in nanoseconds."""

    completing_ns: int = 30 * SECOND_NS
    """How long an application without asks and allocations stays Completing before it is Completed (SEMANTICS G6)."""
    starting_ns: int = 5 * MINUTE_NS
    """How long an application with one allocation stays Starting before it is Running."""
    placeholder_ns: int = 15 * MINUTE_NS
    """How long a gang may take after its first placeholder is allocated, if the application does not say (SEMANTICS
    G5)."""
    gang_deadlock_timeout_ns: int = MINUTE_NS
    """How long a gang finds no node for its next placeholder before later gangs release theirs for it; at most half of
    the gang's own time. 0: never."""
    retention_ns: int = 3 * DAY_NS
    """How long a Completed, Failed or Rejected application is remembered before it is Expired and forgotten."""
    reservation_delay_ns: int = 2 * SECOND_NS
    """How old an ask without a node must be before it can get an aging reservation."""
    reservation_ns: int = 5 * MINUTE_NS
    """How long a reservation lasts at most, and how long its ask, and the node of an aging one, get none after that."""
    preemption_attempt_ns: int = 15 * SECOND_NS
    """Minimum interval between preemption attempts for an ask."""
    reconnect_ns: int = 5 * MINUTE_NS
    """How long a resource manager may be Paused before it is Stopped and its state dropped (SEMANTICS C3)."""
    cleanup_ns: int = 10 * SECOND_NS
    """How long a queue that is not needed (dynamic, or no longer in the file) stays after it became empty."""
    early_message_ns: int = 2 * SECOND_NS
    """How long an early item waits for its application: the streams of an RM have no order between them. 0 rejects it
    at once, which is right only where one ordered channel carries everything."""
    predicates_ns: int = 5 * SECOND_NS
    """How long the scheduler waits for a predicate result; no result in time is a refusal (SEMANTICS B4)."""
    predicate_retry_delay_ns: int = 30 * SECOND_NS
    """How long an ask that was refused on every node with room is not tried, unless a node changes before."""
