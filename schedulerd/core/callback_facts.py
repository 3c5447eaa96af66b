"""What is asked of, or told to, a resource manager beside its update streams (SI `ResourceManagerCallback`).

These are part of `Fact` too, and have a module of their own because no count of asks, allocations or resources depends
on them: an RM that opened no callback stream never hears of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from schedulerd.core.resources import Resources


class SchedulingState(IntEnum):
    """How far an ask has come; numbers as in SI `UpdateContainerSchedulingStateRequest`."""

    SKIPPED = 1
    """It is not tried, for a reason of quota, limit or order."""
    SCHEDULED = 2
    RESERVED = 3
    """Room is kept for it on a node."""
    FAILED = 4
    """It lacks room on nodes, and nothing else."""


@dataclass(slots=True)
class PredicateWanted:
    """An ask holds room on a node, and the RM has to say whether it may run there (SI `Predicates`)."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    call_id: int
    """What `GivePredicateResults` answers by; unique for the RM as long as it is registered."""
    allocate: bool
    """False if room is to be kept for it only."""


@dataclass(slots=True)
class PreemptionPredicateWanted:
    """Others may be asked to end on a node for an ask, if the RM says that it can run there then (SI
    `PreemptionPredicates`)."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    call_id: int
    victim_keys: tuple[str, ...]
    """Allocation keys of those that would end, in the order in which they are to be removed."""
    start_index: int
    """The first look is without the victims from 0 up to and including this one."""


@dataclass(slots=True)
class PredicateNotWanted:
    """An answer to this call does not matter any longer: its time is over, or ask, node or callback stream are gone."""

    rm_id: str
    call_id: int


class PredicateOutcome(StrEnum):
    """What came of a call."""

    AGREED = "agreed"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    """There was no result in time, which counts as a refusal."""
    VOID = "void"
    """It did not matter any longer: ask, node, reservation or callback stream were gone before."""


@dataclass(slots=True)
class PredicateAnswered:
    """A call is over, whatever it was."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    call_id: int
    outcome: PredicateOutcome
    reason: str
    """Of a refusal; '' if it was none."""
    waited_ns: int
    """Since it was asked."""


@dataclass(slots=True)
class SchedulingStateChanged:
    """How far an ask has come is not what the RM was told last (SI `UpdateContainerSchedulingState`)."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    state: SchedulingState
    reason: str


@dataclass(slots=True)
class NodeRecommended:
    """Somebody else uses a node: it had better offer no more than this (SI 2021-02 `NodeRecommendation`)."""

    rm_id: str
    partition: str
    node_id: str
    schedulable: Resources
    message: str
