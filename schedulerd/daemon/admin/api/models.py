"""What lists and single objects are made of. The schema is made from these classes, texts below fields included.

Amounts are in the units of the scheduler interface (`vcore` in thousandths of a core, `memory` in bytes), times in
nanoseconds since the Unix epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

ClassT = TypeVar("ClassT")
Amounts: TypeAlias = dict[str, int]
QueueState: TypeAlias = Literal["active", "draining", "stopped"]
EventType: TypeAlias = Literal["request", "app", "node", "queue", "resource_manager"]
"""Kind of the object of an event."""


DOCUMENTED: list[type] = []
"""Dataclasses whose texts below fields are part of the schema (`schema.py`)."""


def documented(cls: type[ClassT]) -> type[ClassT]:
    """Marks a dataclass of the schema."""
    DOCUMENTED.append(cls)
    return cls


@documented
@dataclass(frozen=True, slots=True)
class LimitItem:
    """What each of these users, and each of these groups, may use in a queue and below. `*` is any other."""

    rm: str
    partition: str
    queue: str
    users: tuple[str, ...]
    groups: tuple[str, ...]
    max: Amounts
    """A missing name is unlimited."""
    max_applications: int
    """0: unlimited."""


@documented
@dataclass(frozen=True, slots=True)
class QueueItem:
    """A queue of the tree; parents come before their children."""

    rm: str
    partition: str
    queue: str
    """Full path, as written in the queue file."""
    parent: str
    """Path of the parent; '' for the root."""
    is_leaf: bool
    managed: bool
    """False for a queue that a placement rule made."""
    state: QueueState
    """draining: the queue file no longer names it; stopped: an operator stopped it or a queue above it. Neither takes
    new applications."""
    guaranteed: Amounts
    max: Amounts
    """A missing name is unlimited."""
    capacity: Amounts
    """Of the root, which has no max: what all nodes have together. Empty for other queues."""
    used: Amounts
    reserved: Amounts
    """Held by entitled reservations and open predicate checks; counts as used."""
    leaving: Amounts
    """The part of `used` that is being released."""
    pending: Amounts
    running_applications: int
    max_applications: int
    """0: unlimited."""
    applications: int
    """Applications in the leaf itself."""
    children: int


@documented
@dataclass(frozen=True, slots=True)
class ApplicationItem:
    """An application that has a queue."""

    rm: str
    partition: str
    application: str
    queue: str
    user: str
    groups: tuple[str, ...]
    state: str
    state_since_ns: int | None
    submitted_ns: int
    used: Amounts
    """By real allocations."""
    placeholders: Amounts
    """By placeholders."""
    held: Amounts
    """By slots of its gang, for which room is held on nodes: the resource manager knows of none of them."""
    pending: Amounts
    allocations: int
    pending_allocations: int
    has_gang: bool
    execution_deadline_ns: int | None


@documented
@dataclass(frozen=True, slots=True)
class StateEntry:
    """A state that an application entered."""

    at_ns: int
    state: str
    cause: str


@documented
@dataclass(frozen=True, slots=True)
class ApplicationDetail:
    """An application with its state log and its gang; its asks are at `/asks?application=`."""

    application: ApplicationItem
    state_log: list[StateEntry]
    """Oldest first."""
    tags: dict[str, str]
    gang: GangItem | None


@documented
@dataclass(frozen=True, slots=True)
class StateCountItem:
    """Pending allocations of an ask in one state."""

    state: str
    allocations: int


@documented
@dataclass(frozen=True, slots=True)
class AskItem:
    """An ask with pending or existing allocations."""

    rm: str
    partition: str
    application: str
    ask: str
    """Its allocation key."""
    pod: str
    """NAMESPACE/NAME if it is of a Kubernetes pod."""
    queue: str
    user: str
    resources: Amounts
    priority: int
    placeholder: bool
    task_group: str
    required_node: str
    asked_ns: int
    pending: int
    """Allocations still to come, those that await a placeholder included."""
    nodes: list[str]
    """Nodes of its allocations; the first of them, if there are many."""
    allocations: int
    waiting: list[StateCountItem]
    """The pending allocations by state."""


@documented
@dataclass(frozen=True, slots=True)
class NodeItem:
    """A node."""

    rm: str
    partition: str
    node: str
    state: str
    ready: bool
    attributes: dict[str, str]
    capacity: Amounts
    occupied: Amounts
    """Used by workloads of others."""
    used: Amounts
    """By allocations of this scheduler."""
    available: Amounts
    reserved: Amounts
    """The part of `available` that reservations and open predicate checks hold."""
    allocations: int
    unclaimed: int
    """Existing allocations of applications that are not known; their amounts are a part of `used`."""
    reservations: int


@documented
@dataclass(frozen=True, slots=True)
class TaskGroupItem:
    """A task group of a gang, in placeholders."""

    name: str
    wanted: int
    placed: int
    idle: int
    """Placeholders that wait for their real asks."""
    replaced: int
    timed_out: int


@documented
@dataclass(frozen=True, slots=True)
class MembersItem:
    """A task group of a gang that declares its task groups. All counts are members."""

    name: str
    min: int
    """How many the gang needs before any of them is allocated."""
    max: int | None
    """How many may be allocated at a time; null: any number."""
    asked: int
    """Asked for and not allocated."""
    held: int
    """For which room is held on nodes, whether they are asked for or not."""
    allocated: int
    level: str
    """The level of the topology of which one domain has, or should have, all of them; '' for none."""
    required: bool
    """Whether they have to be in one domain of the level, and not only should be."""
    domain: str
    """The domain in which they have to be; '' if none is chosen yet."""


@documented
@dataclass(frozen=True, slots=True)
class GangItem:
    """The gang of an application."""

    rm: str
    partition: str
    application: str
    queue: str
    pending: int
    """Placeholders still to be allocated, or members that have no room yet; 0 for a complete gang."""
    deadline_ns: int | None
    """When it times out."""
    task_groups: list[TaskGroupItem]
    """Of a gang of placeholders; empty for others."""
    state: str
    """forming, gathering, complete, short or given up: of a gang that declares its task groups; '' for others."""
    needed: int
    """Members that it needs, if it declares its task groups."""
    with_room: int
    """Of these, members that have room, or that had it when all were tried together."""
    gathers_ns: int | None
    """When it gathers again, as its time was over."""
    members: list[MembersItem]
    """The task groups that it declares; empty for others."""


@documented
@dataclass(frozen=True, slots=True)
class ReservationItem:
    """Room of a node that is reserved for one allocation of an ask."""

    rm: str
    partition: str
    node: str
    application: str
    ask: str
    pod: str
    """NAMESPACE/NAME if the ask is of a Kubernetes pod."""
    queue: str
    resources: Amounts
    entitled: bool
    """True if allocations are preempted for it, or if it requires this node."""
    since_ns: int
    expires_ns: int | None
    victims: int
    """Allocations that have to end first."""


@documented
@dataclass(frozen=True, slots=True)
class PreemptionItem:
    """An allocation that is being preempted for an ask."""

    rm: str
    partition: str
    application: str
    """The application of the ask that gets the room."""
    ask: str
    pod: str
    """NAMESPACE/NAME if the ask is of a Kubernetes pod."""
    node: str
    """The node on which the ask will run."""
    victim_application: str
    victim_ask: str
    victim_pod: str
    victim_uuid: str
    victim_node: str
    victim_queue: str
    since_ns: int | None
    """When its release was asked for."""


@documented
@dataclass(frozen=True, slots=True)
class UserItem:
    """What a user, or a group that counts for limits, uses in one queue and below."""

    rm: str
    partition: str
    name: str
    kind: Literal["user", "group"]
    queue: str
    used: Amounts
    applications: int


@documented
@dataclass(frozen=True, slots=True)
class EventItem:
    """Something that happened."""

    id: str
    """For `after`, and the id of the server-sent event."""
    at_ns: int
    rm: str
    partition: str
    type: EventType
    object: str
    """Id of the object: an application, a node, a queue."""
    pod: str
    """NAMESPACE/NAME if the object is an ask of a Kubernetes pod, while the ask is there; else ''."""
    reference: str
    change: str
    """none, set, add or remove."""
    detail: str
    reason: str
    message: str
    resources: Amounts
