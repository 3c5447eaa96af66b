"""What the operator configured, as plain data: the core's own form of the queue file and of the daemon's timeouts.

`config` reads and validates YAML and builds these; the core never sees a file, a unit suffix or a default that was not
spelled out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from schedulerd.core.resources import Limits, Resources

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000 * MILLISECOND_NS
MINUTE_NS = 60 * SECOND_NS
DAY_NS = 24 * 60 * MINUTE_NS


class ApplicationOrder(StrEnum):
    """In which order the applications of a leaf queue get resources (`application.sort.policy`)."""

    FIFO = "fifo"
    FAIR = "fair"
    STATE_AWARE = "stateaware"
    """Like fifo, but only one application at a time may be starting."""


class PriorityPolicy(StrEnum):
    """What a queue shows its parent of the priorities inside it (`priority.policy`)."""

    DEFAULT = "default"
    """The highest priority pending inside, plus the queue's offset."""
    FENCE = "fence"
    """Only its offset, whatever is inside."""


class PreemptionPolicy(StrEnum):
    """Whose work a queue may have ended for its own, and whether its own may be ended (`preemption.policy`)."""

    DEFAULT = "default"
    FENCE = "fence"
    """What waits inside may end nothing outside; what runs inside may be ended by others all the same."""
    DISABLED = "disabled"
    """What runs inside is never a victim."""


class OptOut(StrEnum):
    """What `allowPreemptSelf: false` of an ask means for its allocations (`preemption.optout`)."""

    NEVER = "never"
    """They are never ended for others."""
    LAST = "last"
    """They are ended for others where nobody else is left but originators."""


class RuleKind(StrEnum):
    """The ways to find the queue of an application (`placementrules[].name`)."""

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
    """Who may do something: everybody, or the named users and the members of the named groups (default nobody)."""

    everybody: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def allows(self, user: str, groups: tuple[str, ...]) -> bool:
        return self.everybody or user in self.users or any(group in self.groups for group in groups)


@dataclass(frozen=True, slots=True)
class LimitSpec:
    """What each of the named users, and each of the named groups as a whole, may use in a queue and all below it.

    `*` among the users stands for every user that no limit of the same queue names, each on its own; `*` among the
    groups for all users together whose groups no limit on the way to the root names.
    """

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max: Limits | None = None
    """None: no limit on resources."""
    max_applications: int = 0
    """0: no limit on running applications."""


@dataclass(frozen=True, slots=True)
class QueueProperties:
    """How a queue treats what is in it; a child without own values takes over those marked as inherited."""

    application_order: ApplicationOrder = ApplicationOrder.FIFO
    """Inherited."""
    priority_sort: bool = True
    """`application.sort.priority`, inherited: whether priority is looked at before or after the order."""
    priority_policy: PriorityPolicy = PriorityPolicy.DEFAULT
    priority_offset: int = 0
    preemption_policy: PreemptionPolicy = PreemptionPolicy.DEFAULT
    """Only `DISABLED` is inherited."""
    preemption_delay_ns: int = 30 * SECOND_NS
    """Inherited: how old an ask of the leaf has to be before others are ended for it."""
    quota_preemption_delay_ns: int = 0
    """Inherited: how long what is above a lowered max may stay; 0: for as long as it wants."""
    gang_placeholder_idle_timeout_ns: int = 15 * MINUTE_NS
    """Inherited: how long the placeholders of a complete gang stay when no ask takes one of them; 0: for as long as
    their application runs."""

    def for_child(self) -> QueueProperties:
        """What a child starts with."""
        disabled = self.preemption_policy is PreemptionPolicy.DISABLED
        return QueueProperties(
            application_order=self.application_order,
            priority_sort=self.priority_sort,
            preemption_policy=PreemptionPolicy.DISABLED if disabled else PreemptionPolicy.DEFAULT,
            preemption_delay_ns=self.preemption_delay_ns,
            quota_preemption_delay_ns=self.quota_preemption_delay_ns,
            gang_placeholder_idle_timeout_ns=self.gang_placeholder_idle_timeout_ns,
        )


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """What a leaf starts with that a placement rule creates below the queue (`childtemplate`)."""

    max_applications: int = 0
    guaranteed: Resources = field(default_factory=Resources)
    max: Limits = field(default_factory=Limits)
    properties: QueueProperties | None = None
    """None: as a child without template."""


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue of the file, with its children."""

    name: str
    """A single path element as the file writes it; the top one is `root`."""
    parent: bool = False
    """True for a queue that may hold queues only. A queue with children is a parent whatever this says."""
    guaranteed: Resources = field(default_factory=Resources)
    max: Limits = field(default_factory=Limits)
    max_applications: int = 0
    """How many applications may run in it and below at a time; 0 is unlimited."""
    properties: QueueProperties = QueueProperties()
    """With what it inherits worked in."""
    submit_acl: Acl = Acl()
    admin_acl: Acl = Acl()
    limits: tuple[LimitSpec, ...] = ()
    template: TemplateSpec | None = None
    """None: that of the nearest parent that has one."""
    children: tuple[QueueSpec, ...] = ()

    @property
    def key(self) -> str:
        """The name in lower case: names of queues ignore case (SEMANTICS I15)."""
        return self.name.lower()

    @property
    def is_leaf(self) -> bool:
        return not self.parent and not self.children


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """For whom a placement rule is used. Without users and groups it is for everybody."""

    allow: bool = True
    """False: for everybody but those."""
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
    """The queue of a `fixed` rule as written, the tag's name of a `tag` rule in lower case."""
    filter: FilterSpec = FilterSpec()
    parent: RuleSpec | None = None

    @property
    def has_pattern(self) -> bool:
        """Whether its filter, or one of the rules that find its parent, has a regular expression."""
        return self.filter.has_pattern or (self.parent is not None and self.parent.has_pattern)


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One partition of the file: a set of nodes and the queue tree that shares them."""

    name: str
    root: QueueSpec
    rules: tuple[RuleSpec, ...] = ()
    """Placement rules in order; none is the same as `provided` without create."""
    node_order: NodeOrder = NodeOrder.FAIR
    node_weights: Mapping[str, float] = field(default_factory=lambda: {"memory": 1.0, "vcore": 1.0})
    """How much each resource counts in a node's score; a resource without weight does not count."""
    preemption_enabled: bool = True
    quota_preemption_enabled: bool = False
    preemption_optout: OptOut = OptOut.NEVER


@dataclass(frozen=True, slots=True)
class ConfigurationText:
    """The text that the partitions of a resource manager were read from. The core keeps it and never looks inside."""

    text: str = field(default="", repr=False)
    source: str = ""
    """Where it came from, in words: a path, or who sent it."""
    checksum: str = ""
    """Equal for two texts that are the same file."""
    policy_group: str | None = None
    """Whose file it is, to be read again when that changes; None for a text that was sent, which only its sender
    changes (SEMANTICS C1)."""
    os_group_partitions: frozenset[str] = frozenset()
    """The partitions in which a user without groups has those that the operating system knows."""


NO_CONFIGURATION = ConfigurationText()


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Every duration the core waits for, in nanoseconds."""

    completing_ns: int = 30 * SECOND_NS
    """How long an application without asks and allocations stays Completing before it is Completed (SEMANTICS G6)."""
    starting_ns: int = 5 * MINUTE_NS
    """How long an application with one allocation stays Starting before it counts as Running."""
    placeholder_ns: int = 15 * MINUTE_NS
    """How long a gang may take from its first placeholder placed, if the application does not say (SEMANTICS G5)."""
    gang_deadlock_timeout_ns: int = MINUTE_NS
    """How long a gang finds no node for its next placeholder before later gangs give theirs back for it; at most half
    of the gang's own time. 0: they never do."""
    retention_ns: int = 3 * DAY_NS
    """How long a Completed, Failed or Rejected application is remembered before it is Expired and forgotten."""
    reservation_delay_ns: int = 2 * SECOND_NS
    """How old an ask that finds no node has to be before room is kept for it."""
    reservation_ns: int = 5 * MINUTE_NS
    """How long room is kept for it at most, and how long it is left to others then."""
    preemption_attempt_ns: int = 15 * SECOND_NS
    """How long it takes before it is looked at again whether others have to end for an ask."""
    reconnect_ns: int = 5 * MINUTE_NS
    """How long a resource manager may be away (Paused) before it is Stopped and its state dropped (SEMANTICS C3)."""
    cleanup_ns: int = 10 * SECOND_NS
    """How long a queue that nobody needs any longer (dynamic, or no longer in the file) stays after it is empty."""
    early_message_ns: int = 2 * SECOND_NS
    """How long an item waits for the application it refers to: the streams of an RM have no order between them.
    0 rejects at once, which is right only where one ordered channel carries everything."""
    predicates_ns: int = 5 * SECOND_NS
    """How long a result of a resource manager is waited for before that counts as a refusal (SEMANTICS B4)."""
    refusal_ns: int = 30 * SECOND_NS
    """How long an ask that was refused on every node with room rests, unless a node changes before that."""
