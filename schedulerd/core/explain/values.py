"""Explanations: plain values without references into the state, as in `causes.py`."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from schedulerd.core.explain.causes import Cause, GangCause, RuleCause, Use
from schedulerd.core.views.gang_members import TaskGroupMembers
from schedulerd.core.views.node_causes import NodeCauseKind

Amounts: TypeAlias = dict[str, int]
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Some allocations of the ask that are in one pending state."""

    state: str
    """As in the metric `schedulerd_pending_asks`: ready, quota_blocked, unschedulable, ..."""
    allocations: int
    waits_for: str
    ends_when: str
    pod_reason: str
    """Reason of the Kubernetes condition PodScheduled."""
    cause: Cause


@dataclass(frozen=True, slots=True)
class QuotaLevel:
    """One resource in one queue on the way from the ask's leaf to the root."""

    queue: str
    resource: str
    guaranteed: int | None
    """None: no guarantee."""
    used: int
    reserved: int
    """Held by entitled reservations and open predicate checks; counts as used. Includes what is held for this ask."""
    asked: int
    max: int | None
    """None: unlimited."""


@dataclass(frozen=True, slots=True)
class Lack:
    """How much of a resource a node lacks for the ask."""

    resource: str
    asked: int
    free: int
    """What the ask may have there now; not what is reserved for others."""
    missing: int
    """At most what is asked for."""


@dataclass(frozen=True, slots=True)
class NodeCount:
    """How many nodes there are with one first cause."""

    cause: NodeCauseKind
    """`room`: the ask would fit now. `insufficient`: the node lacks the resource `detail`. `too_small`: it would lack
    `detail` even if nothing of ours ran there. `reserved`: its free room is kept for others. `state`: it takes no new
    allocations, being `detail`. `constraint`: the placement constraint rules it out, as `detail` says. `not_required`:
    another node is required. `refused`: the resource manager refused it. `unregistered`: the required node is not
    registered."""
    detail: str
    nodes: int


@dataclass(frozen=True, slots=True)
class NodeFit:
    """A node that is near to fitting the ask."""

    node_id: str
    cause: NodeCauseKind
    detail: str
    lacks: list[Lack]
    """All resources that it lacks; empty if the cause is another one."""
    leaving: Amounts
    """What is being released there, of the resources that the ask wants."""


@dataclass(frozen=True, slots=True)
class NodeSurvey:
    """What the nodes of the partition say to the ask. Found over several turns of the loop, so not of one moment."""

    considered: int
    counts: list[NodeCount]
    """Each node once, by one cause, which is one that does not go away by itself if there is such a one; most nodes
    first."""
    best: list[NodeFit]
    """The five nodes that are nearest to fitting the ask, best first; nodes that could take it only. Those that are
    large enough when they are empty come first."""
    large_enough: int
    """Schedulable nodes on which the ask would fit if nothing of ours ran there."""
    largest: Amounts
    """Of each resource asked for, the most that one empty node offers."""
    too_large: Amounts
    """Resources of which more is asked for than any empty node has, also one that takes nothing now: what the largest
    has."""


@dataclass(frozen=True, slots=True)
class Victim:
    """An allocation that is preempted for the ask and still there."""

    application_id: str
    allocation_key: str
    uuid: str
    node_id: str


@dataclass(frozen=True, slots=True)
class ReservationFinding:
    """Room of a node that is reserved for one allocation of the ask."""

    node_id: str
    entitled: bool
    """True if allocations are preempted for it, or if it requires this node."""
    since_ns: int
    expires_ns: int | None
    lacks: list[Lack]
    """What the node still lacks; empty if the room is there and something else is awaited."""
    victims: list[Victim]
    victims_left_out: int
    expected: Literal["now", "releases", "timeouts", "unknown"]
    """When the room is there: it is now; when what is being released has gone; when allocations have reached their
    execution timeouts; or nobody knows."""
    expected_ns: int | None
    """With `timeouts`: the time at which the last of them is due."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a queue of the ask is guaranteed of a resource, which decides whether others are preempted for it."""

    queue: str
    resource: str
    guaranteed: int
    used: int
    asked: int


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """An application with allocations that may be preempted for the ask, as far as guarantees and priorities go."""

    queue: str
    application_id: str
    used: Amounts
    """What it uses of the resources asked for."""


@dataclass(frozen=True, slots=True)
class PreemptionFinding:
    """Whether allocations of others are preempted for the ask, and why not."""

    state: Literal["off", "not_allowed", "no_guarantee", "too_young", "refused", "due", "victims", "not_needed"]
    """`off`: in this partition. `not_allowed`: the ask has allowPreemptOther false. `no_guarantee`: no queue of the
    ask is guaranteed what it asks for, as `reason` says. `too_young`: the first attempt is
    at `next_attempt_ns`. `refused`: the last attempt found nothing, as `reason` says. `due`: the next attempt is due.
    `victims`: allocations are being preempted for it. `not_needed`: preemption makes no room for what it waits for."""
    reason: str
    next_attempt_ns: int | None
    guarantees: list[Guarantee]
    """Those on the way from its leaf to the root; it may preempt for what is within all of them."""
    may_take_from: list[str]
    """Queues with allocations that may be preempted for it, as far as guarantees go."""
    candidates: list[PreemptionCandidate]
    """The applications there that use most. With `off` and `not_allowed`: those that would be candidates otherwise."""


@dataclass(frozen=True, slots=True)
class QueueRank:
    """The place of a queue among its siblings that have something to place."""

    queue: str
    rank: int
    """1 is first."""
    of: int
    first_ahead: list[str]
    """The siblings that are served before it, in order: the first of them."""


@dataclass(frozen=True, slots=True)
class Position:
    """What is placed before the ask, as things are now."""

    applications_ahead: int
    """Applications of its leaf queue that come before its own."""
    first_ahead: list[str]
    """The first of them, in order."""
    asks_ahead: int
    """Asks of its own application that come before it."""
    at_least: bool
    """Whether there may be more ahead than was counted."""
    queues: list[QueueRank]
    """From the leaf to the root, without the root."""


@dataclass(frozen=True, slots=True)
class AskExplanation:
    """Why an ask waits. All of one moment, but for `nodes`."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    pod: str
    """NAMESPACE/NAME if the ask is of a Kubernetes pod; else ''."""
    queue: str
    user: str
    resources: Amounts
    priority: int
    placeholder: bool
    task_group: str
    required_node: str
    asked_at_ns: int
    now_ns: int
    """The moment of the explanation."""
    allocated: int
    """Allocations of the ask that exist."""
    pending: int
    """Allocations still to come, those that await a placeholder included."""
    waiting: list[Waiting]
    """The pending allocations by what they wait for, nearest to allocation first."""
    also_blocked_by: list[RuleCause]
    """Quotas and limits that do not let the ask in either, beside the first one, which is a cause in `waiting`; those
    nearest to the root first."""
    quotas: list[QuotaLevel]
    """Quotas and guarantees on the way to the root, for the resources asked for; queues without either are left out."""
    nodes: NodeSurvey | None
    """None if the ask has no pending allocations that need a node."""
    reservations: list[ReservationFinding]
    preemption: PreemptionFinding | None
    position: Position | None


@dataclass(frozen=True, slots=True)
class Reason:
    """Pending allocations that wait for the same thing."""

    state: str
    allocations: int
    applications: int
    """How many applications they belong to."""
    waits_for: str
    ends_when: str
    pod_reason: str
    cause: Cause
    """Of a ready ask None; of a refused or unschedulable one that of the example."""
    application_id: str
    """The application of the example."""
    allocation_key: str
    """An example: the ask of them that was found first."""
    pod: str
    """NAMESPACE/NAME if the example is of a Kubernetes pod; else ''."""
    resources: Amounts
    """What the example asks for."""


@dataclass(frozen=True, slots=True)
class TaskGroupProgress:
    """A task group of a gang, in placeholders."""

    name: str
    wanted: int
    placed: int
    replaced: int
    waiting: int
    """Real asks of the group that are pending."""


@dataclass(frozen=True, slots=True)
class ApplicationExplanation:
    """What an application waits for. The reasons are found over several turns of the loop."""

    rm_id: str
    partition: str
    application_id: str
    queue: str
    user: str
    state: str
    state_since_ns: int
    state_cause: str
    """What led to the state."""
    submitted_at_ns: int
    now_ns: int
    allocations: int
    pending: int
    """Pending allocations."""
    at_least: bool
    """Whether there may be more than `pending`: it waits for more different things than are looked at."""
    unexplained: int
    """The part of `pending` of which it was not found out what it waits for, because there are too many kinds."""
    task_groups: list[TaskGroupProgress]
    """Of its gang of placeholders; empty without one."""
    gang_deadline_ns: int | None
    execution_deadline_ns: int | None
    reasons: list[Reason]
    """Most allocations first."""
    reasons_left_out: int
    next_ask: AskExplanation | None
    """Its ask that would be placed first; None if nothing is pending. Without a survey of the nodes."""
    gang: GangCause | None
    """How far its gang is, if that declares its task groups."""
    members: list[TaskGroupMembers]
    """These task groups; empty for other applications."""


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """One resource of a queue."""

    resource: str
    used: int
    reserved: int
    leaving: int
    """The part of `used` that is being released."""
    pending: int
    guaranteed: int | None
    max: int | None
    uses: list[Use]
    """Whose usage it is, the largest first."""
    uses_left_out: int


@dataclass(frozen=True, slots=True)
class QueueExplanation:
    """What waits in a queue and below, and what uses it. The reasons are found over several turns of the loop."""

    rm_id: str
    partition: str
    queue: str
    is_leaf: bool
    draining: bool
    stopped_by: str
    """The queue at or above it that an operator stopped, so that it takes no new applications; '' if none is."""
    now_ns: int
    resources: list[ResourceUse]
    running_applications: int
    max_applications: int
    """0: unlimited."""
    pending: int
    """Pending allocations."""
    at_least: bool
    """Whether there may be more than `pending`: there are more applications than are looked at."""
    unexplained: int
    """The part of `pending` of which it was not found out what it waits for, because there are too many kinds."""
    reasons: list[Reason]
    reasons_left_out: int


@dataclass(frozen=True, slots=True)
class FitsFinding:
    """Whether an ask would be placed if it came now and were the next one. Nothing is placed for it."""

    rm_id: str
    partition: str
    queue: str
    resources: Amounts
    now_ns: int
    fits: bool
    node_id: str
    """Where; '' if it would not be placed."""
    refusal: str
    """Why nothing would be placed there for a new application of this user, whatever it asks for; '' if something
    would."""
    rule: RuleCause | None
    """The first quota or limit that would not let it in; None if all do."""
    also_blocked_by: list[RuleCause]
    """The others that would not let it in."""
    quotas: list[QuotaLevel]
    nodes: NodeSurvey


def with_wall_times(value: ValueT, epoch_ns: int) -> ValueT:
    """The explanation with times since the Unix epoch: every field that ends with `_ns` is a time."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed: dict[str, Any] = {}
    for field in fields(value):
        old = getattr(value, field.name)
        if field.name.endswith("_ns"):
            changed[field.name] = None if old is None else epoch_ns + old
        elif is_dataclass(old):
            changed[field.name] = with_wall_times(old, epoch_ns)
        elif isinstance(old, list) and old and is_dataclass(old[0]):
            changed[field.name] = [with_wall_times(one, epoch_ns) for one in old]
    return replace(value, **changed) if changed else value
