"""Facts about scheduling states, for an RM that asks to be told why its asks wait.

These facts are part of `Fact`. No ledger of asks, allocations or resources depends on them. An RM without a callback
stream is never told about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class SchedulingState(IntEnum):
    """How far an ask has come. The numbers are those of SI `UpdateContainerSchedulingStateRequest`."""

    SKIPPED = 1
    """The ask is not tried because of a quota, a limit or its order."""
    SCHEDULED = 2
    RESERVED = 3
    """Room of a node is reserved for the ask."""
    FAILED = 4
    """No node takes the ask now: no room, a constraint, or the RM refuses it."""


@dataclass(slots=True)
class SchedulingStateChanged:
    """The scheduling state of an ask differs from what the RM was told last (SI `UpdateContainerSchedulingState`)."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    state: SchedulingState
    reason: str


@dataclass(slots=True)
class PendingReasonChanged:
    """Why an ask waits differs from what the RM was told last: the text of `SchedulingStateChanged` as data, for RMs
    that make sentences of their own. Also said of asks that have no scheduling state, such as one that waits for its
    turn."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    state: str
    """A value of `PendingState`."""
    scheduling_state: SchedulingState | None
    """What the RM is told as the scheduling state; None if the pending state has none."""
    rule: str = ""
    """The rule that blocks, a value of `BlockedBy`; '' if none does. Then `resource` to `is_group` are empty too."""
    queue: str = ""
    """The queue that has the rule; for an ask that waits for its turn, its leaf queue."""
    resource: str = ""
    used: int = 0
    promised: int = 0
    asked: int = 0
    max: int = 0
    account: str = ""
    """User or group of a limit."""
    is_group: bool = False
    ahead: int = 0
    """Allocations that are pending before it in its queue, if it waits for its turn or for room that they get."""
    awaited_application: str = ""
    """The application whose gang it waits for, or that has to start first in its `stateaware` queue."""
    inactive: str = ""
    """The state of the application or resource manager that does not schedule."""
    node: str = ""
    """Where room is reserved for it."""
    victims: int = 0
    """How many allocations have to be released there first."""
    gang_state: str = ""
    """The state of its gang, a value of `GangState`, if that declares its task groups and its members wait for each
    other; '' else. Then the fields below are set, in members."""
    with_room: int = 0
    """Members of the gang that have room on nodes."""
    needed: int = 0
    """Members that it needs."""
    members_asked: int = 0
    """Of these, members that are asked for or allocated."""
    task_group: str = ""
    """The task group that lacks room, or of which too few members are asked for."""
