"""Why allocations of an ask are in their pending state, with everything about it: plain values without references into
the state.

Amounts are in the units of the interface: thousandths of a core, bytes. Times are in nanoseconds of the scheduler's
clock. Lists that name examples are short; the count beside them says how many there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Use:
    """What one child queue, or one application, uses of a quota or limit."""

    queue: str
    """Path of the child queue; '' for an application."""
    application_id: str
    """Id of the application; '' for a queue."""
    amount: int
    """What it uses of the resource; running applications where those are counted."""


@dataclass(frozen=True, slots=True)
class RuleCause:
    """A quota or a limit that does not let the ask in."""

    kind: Literal["rule"]
    rule: Literal["quota", "gang quota", "max applications", "limit", "gang limit", "limit max applications"]
    """`quota` and `gang quota`: `resources.max` of the queue, for the ask alone or for its whole gang. `max
    applications`: `maxapplications` of the queue. `limit`, `gang limit`, `limit max applications`: of a user or group
    there; `gang limit` for the whole gang."""
    queue: str
    """The queue that has the quota or limit."""
    resource: str
    """'' where applications are counted."""
    used: int
    promised: int
    """Reserved for others, or promised to gangs that have started. Counts as used."""
    asked: int
    max: int
    account: str
    """The user or group of a limit; '' for a quota."""
    is_group: bool
    missing: int
    """How much less has to be used until the ask is let in."""
    leaving: int
    """The part of `used` that is being released already."""
    fits_alone: bool
    """Whether the ask would be let in if nothing else were used."""
    uses: list[Use]
    """Whose usage it is, the largest first."""
    uses_left_out: int
    """How many more there are."""


@dataclass(frozen=True, slots=True)
class GangCause:
    """The placeholders of a gang are awaited, or its members wait for each other."""

    kind: Literal["gang"]
    application_id: str
    own: bool
    """Whether it is the gang of the ask's own application; otherwise an earlier gang that is placed first."""
    placed: int
    """Placeholders allocated so far; of a gang that declares its task groups, members that have room, or that had room
    when all of them were tried together."""
    wanted: int
    """Placeholders, or members that the gang needs."""
    deadline_ns: int | None
    """When the gang times out; None while no room is held for it."""
    needs: dict[str, int]
    """What the next placeholder or member asks for; empty if none is pending."""
    needs_state: str
    """What that one waits for, apart from its gang: its pending state; '' if none is pending."""
    needs_rule: RuleCause | None
    """The quota or limit that blocks it."""
    is_restricted: bool
    """Whether it may not run on every node."""
    gang_state: str
    """forming, gathering, complete, short or given up. This and the rest are of a gang that declares its task groups;
    empty for others."""
    asked: int
    """Members that are asked for or allocated, of those that it needs."""
    task_group: str
    """The task group that lacks room, of which too few members are asked for, or that is short; '' if there is none."""
    lacks: int
    """How many members of that task group lack room, are not asked for, or are not allocated."""
    level: str
    """The topology level that the task group requires; '' for none."""
    domain: str
    """The domain of that level where its room is held; '' if none is chosen."""
    gathers_ns: int | None
    """When it gathers again, as its time was over."""

    @property
    def is_requeued(self) -> bool:
        """Whether its time was over, and it gathers again later."""
        return self.gathers_ns is not None


@dataclass(frozen=True, slots=True)
class PlaceholderCause:
    """A placeholder is being released, and the ask gets its room."""

    kind: Literal["placeholder"]
    uuid: str
    node_id: str
    """The node on which the ask will run."""


@dataclass(frozen=True, slots=True)
class PredicateCause:
    """The resource manager was asked about a node and has not answered."""

    kind: Literal["predicate"]
    node_id: str
    since_ns: int
    until_ns: int | None
    """When no answer counts as a refusal."""


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason with which the resource manager refused nodes."""

    reason: str
    times: int
    last_node_id: str


@dataclass(frozen=True, slots=True)
class RefusedCause:
    """The resource manager refused every node that has room."""

    kind: Literal["refused"]
    objections: list[Objection]


@dataclass(frozen=True, slots=True)
class InactiveCause:
    """Nothing is placed for the application in this state."""

    kind: Literal["inactive"]
    what: Literal["application", "resource manager"]
    state: str
    """State of the application or the resource manager."""


@dataclass(frozen=True, slots=True)
class StartOrderCause:
    """Another application of the `stateaware` queue has to start first."""

    kind: Literal["start order"]
    application_id: str
    """The application that is starting, or has to start first."""
    state: str
    """Its state: `Starting`, or `Accepted`."""
    until_ns: int | None
    """When the next application may start at the latest: Starting is over then, or `stateaware.timeout` is, as the
    application is blocked. None if that is not known."""


@dataclass(frozen=True, slots=True)
class ReservedCause:
    """Room of a node is reserved for the ask; details are in `AskExplanation.reservations`."""

    kind: Literal["reserved"]
    node_id: str


NoRoomWhy: TypeAlias = Literal["insufficient", "too large", "constraint", "required node", "no nodes"]


@dataclass(frozen=True, slots=True)
class NoRoomCause:
    """No node has room. Counted for many asks at once, from what the nodes have free; an explanation of one ask has a
    survey of the nodes instead."""

    kind: Literal["no room"]
    why: NoRoomWhy
    """`insufficient`: nodes would be large enough if they were empty, as far as each resource goes; the placement
    constraint, if there is one, allows some of them. `too large`: more of `resource` is asked for than any node has.
    `constraint`: no node both has room and is allowed by the placement constraint. `required node`: `node_id` has no
    room."""
    resource: str
    """The resource that most nodes lack, or that is too large; '' for the other reasons."""
    asked: int
    largest: int
    """The most of `resource` that an empty node has."""
    insufficient: dict[str, int]
    """How many nodes lack each resource, most nodes first; a node that lacks several is counted for each."""
    nodes: int
    """Nodes that take new allocations."""
    closed: int
    """Nodes that take none: draining, or not ready."""
    node_id: str


Cause: TypeAlias = (
    RuleCause
    | GangCause
    | PlaceholderCause
    | PredicateCause
    | RefusedCause
    | InactiveCause
    | StartOrderCause
    | ReservedCause
    | NoRoomCause
    | None
)
