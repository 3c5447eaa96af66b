"""Facts about predicate calls (SI `ResourceManagerCallback`).

These facts are part of `Fact`. They have a module of their own because no ledger of asks, allocations or resources
depends on them. An RM without a callback stream is never told about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(slots=True)
class PredicateWanted:
    """The RM must say whether an ask may run on a node (SI `Predicates`)."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    call_id: int
    """The id for `GivePredicateResults`, unique while the RM is registered."""
    allocate: bool
    """False if the call is only about a reservation."""
    slot_of: str = ""
    """The task group, if the ask is that of slots (`NewAsk.slot`)."""


@dataclass(slots=True)
class PreemptionPredicateWanted:
    """Victims on a node may be preempted for an ask, if the RM says that the ask can run there without them (SI
    `PreemptionPredicates`)."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    call_id: int
    victim_keys: tuple[str, ...]
    """Allocation keys of the victims and further candidates, of slots their UUIDs, in the order in which the RM removes
    them."""
    start_index: int
    """The RM first tries the node without the victims from 0 to this index, inclusive."""
    slot_of: str = ""
    """The task group, if the ask is that of slots (`NewAsk.slot`)."""


@dataclass(slots=True)
class PredicateNotWanted:
    """The answer to this call is no longer needed: it timed out, or its ask, node or callback stream is gone."""

    rm_id: str
    call_id: int


@dataclass(slots=True)
class SlotHeld:
    """A slot has room on a node: one of those that are there when an RM that is told of holds connects. Later ones are
    `Allocated` facts, and end with a `Released` one."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    """Of the slot (`MEMBER_SLOT`, `GROUP_SLOT`)."""
    uuid: str
    node_id: str
    task_group: str


class PredicateOutcome(StrEnum):
    """How a call ended."""

    AGREED = "agreed"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    """No result arrived in time; counts as a refusal."""
    VOID = "void"
    """The call was no longer needed: its ask, node, reservation or callback stream was gone."""


@dataclass(slots=True)
class PredicateAnswered:
    """A call ended, whatever its outcome."""

    rm_id: str
    partition: str
    application_id: str
    allocation_key: str
    node_id: str
    call_id: int
    outcome: PredicateOutcome
    reason: str
    """The reason of a refusal, else ''."""
    waited_ns: int
    """Time since the call was made."""
