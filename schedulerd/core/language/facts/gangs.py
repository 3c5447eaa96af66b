"""Facts about gangs as a whole.

These facts are part of `Fact`. They have a module of their own because no ledger of asks, allocations or resources
depends on them; the facts about asks and allocations tell what happens to each placeholder.
"""

from __future__ import annotations

from dataclasses import dataclass

from schedulerd.core.language.lifecycles import ApplicationState, GangState


@dataclass(slots=True)
class GangCompleted:
    """The last missing placeholder was allocated, and the application holds the whole of its `placeholderAsk`.

    Sent at most once for each application. Not sent after the gang timed out, nor if a node was registered with some of
    the placeholders (the time of the first ask is unknown then), nor for placeholders that are asked for later.
    """

    rm_id: str
    partition: str
    queue: str
    application_id: str
    placeholders: int
    """Placeholders that the application holds."""
    waited_ns: int
    """Time since the first placeholder was asked for."""
    declared: bool = False
    """Whether the gang declares its task groups, and the placeholders are slots, of which no RM knows."""


@dataclass(slots=True)
class GangTimedOut:
    """The gang timed out: the RM is asked to release the placeholders that are left, and pending ones are withdrawn."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    state: ApplicationState
    """The state after the timeout: Failing or Resuming if the application waited for its gang; else it keeps its
    state."""
    wanted: int
    """Placeholders asked for and not withdrawn. All counts are sums over the task groups."""
    placed: int
    """Placeholders allocated so far, whether they still exist or not."""
    replaced: int
    timed_out: int
    """Placeholders not replaced and not being released for another reason: released now, or never allocated."""
    declared: bool = False
    """As in `GangCompleted`."""


@dataclass(slots=True)
class SwapRefused:
    """A real ask fits in no placeholder of its task group, and becomes an ordinary ask (SEMANTICS G4)."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    allocation_key: str
    task_group: str
    placeholders: int
    """Number of placeholders that the RM is asked to release because the ask cannot use them."""
    reason: str
    """The amount that the ask needs and that the placeholder has."""


@dataclass(slots=True)
class GangGaveWay:
    """An incomplete gang releases its placeholders so that an earlier gang can be completed. Its placeholder asks are
    pending again later."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    placeholders: int
    """Number of placeholders that the RM is asked to release."""
    in_favour_of: str
    """The application of the earlier gang."""
    declared: bool = False
    """As in `GangCompleted`."""


@dataclass(slots=True)
class GangStateChanged:
    """A gang that declares its task groups has another state."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    old_state: GangState | None
    """None: its application has just declared it."""
    state: GangState | None
    """None: its application ends, or the resource manager asks for placeholders after all."""
    cause: str
    """For people: the value of the `GangTrigger`, or why there is the gang or is none."""
    needed: int
    """Members that the gang needs."""
    members: int
    """Members that are allocated."""


@dataclass(slots=True)
class GangBelowMin:
    """A gang that was complete has had fewer members than a task group needs for `gang.below-min.timeout`."""

    rm_id: str
    partition: str
    queue: str
    application_id: str
    fails: bool
    """Whether its application fails for that (`gang.on-below-min`)."""
    reason: str
    """How many members are there, and whether the domain that its topology requires can hold the others."""
