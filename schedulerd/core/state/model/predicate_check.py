"""Predicate checks: open questions to a resource manager about an ask and a node, and its earlier answers (SEMANTICS
B4)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.resources import Items

if TYPE_CHECKING:
    from schedulerd.core.state.model.allocation import Allocation, Ask
    from schedulerd.core.state.model.application import Application
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.model.reservation import Reservation

REASONS_MAX = 8
"""Most reasons of refusals that are remembered for one ask."""
NEVER = -1
"""Value of the node change counter before any change."""


class Purpose(Enum):
    """What happens if the answer is yes."""

    ALLOCATE = auto()
    """The ask is allocated on the node."""
    SWAP = auto()
    """A placeholder is released for the ask, which then runs on the node (its own, or another)."""
    RESERVE = auto()
    """Room of the node is reserved for the ask."""
    PREEMPT = auto()
    """Allocations are preempted for the ask."""


class VictimsAnswer(NamedTuple):
    """The RM's answer about the victims on a node for an ask."""

    victims: tuple[Allocation, ...]
    """Allocations that the scheduler wants to preempt."""
    further: tuple[Allocation, ...]
    """Further allocations that were offered after the victims."""
    last: int
    """Index in both lists together of the last one that must be preempted; -1 if the ask could not run there even
    then."""
    changes: int
    """Value of the node change counter when the RM was asked."""

    def beyond(self) -> tuple[Allocation, ...]:
        """The further allocations that must be preempted too."""
        return self.further[: max(0, self.last + 1 - len(self.victims))]


class VictimSearch(Protocol):
    """A search for victims, as far as the state knows it (`preemption.rules.search`)."""

    application: Application
    ask: Ask
    predicate_check: PredicateCheck | None
    """The open check about what the search found, until it is answered."""
    agreed: tuple[Node, VictimsAnswer] | None
    """The node and the victims that the resource manager agreed to."""

    def end(self) -> None:
        """Frees what the search refers to."""


class PredicateCheck:
    """An open call: may one pending allocation of the ask run on the node?

    A check for an allocation (ALLOCATE) holds room on the node unless the room is reserved already: other asks do not
    get it, and quotas count it as used. Other checks hold nothing: their room is a placeholder's, or not free yet.
    """

    __slots__ = (
        "alarm",
        "application",
        "ask",
        "asked_at_ns",
        "awaited_by",
        "call_id",
        "changes",
        "further",
        "items",
        "node",
        "placeholder",
        "purpose",
        "reservation",
        "search",
        "victims",
    )

    def __init__(
        self, call_id: int, changes: int, now_ns: int, application: Application, ask: Ask, node: Node, purpose: Purpose
    ) -> None:
        self.call_id = call_id
        self.application = application
        self.ask = ask
        self.node = node
        self.purpose = purpose
        self.asked_at_ns = now_ns
        self.changes = changes
        """Value of the node change counter when the RM was asked; a refusal says nothing about later states of the
        node."""
        self.items: Items = ()
        """The amounts that the check holds; empty if it holds nothing."""
        self.alarm: Alarm | None = None
        """Rings when the time for the result is over."""
        self.awaited_by: dict[Ask, Application] = {}
        """Asks that wait for the end of this check, because its node is the only one left for them."""
        self.placeholder: Allocation | None = None
        """The placeholder to be released; for SWAP only."""
        self.reservation: Reservation | None = None
        """The reservation whose room the ask would get, or for which allocations would be preempted."""
        self.search: VictimSearch | None = None
        """The search that found the victims; used by preemption only."""
        self.victims: tuple[Allocation, ...] = ()
        self.further: tuple[Allocation, ...] = ()
        """Further allocations that may be preempted if the RM says that the ask needs it."""

    def answered(self, index: int) -> VictimsAnswer:
        """The answer about the victims; `index` is -1 if it was a refusal."""
        return VictimsAnswer(self.victims, self.further, index, self.changes)

    @property
    def uses_allocation(self) -> bool:
        """Whether the check uses up one pending allocation of the ask until the result."""
        return self.purpose in (Purpose.ALLOCATE, Purpose.SWAP)


class PredicateHistory:
    """Open predicate checks about one ask, and what the RM refused."""

    __slots__ = (
        "awaits",
        "no_preemption",
        "predicate_checks",
        "predicate_reserved",
        "reasons",
        "refused",
        "refused_everywhere_at_change",
    )

    def __init__(self) -> None:
        self.predicate_checks: dict[PredicateCheck, None] = {}
        self.predicate_reserved = 0
        """How many pending allocations of the ask the open checks use up."""
        self.refused: dict[Node, int] = {}
        """Nodes that the RM refused, with the value of the node change counter when it was asked."""
        self.refused_everywhere_at_change = NEVER
        """Value of the node change counter (`Partition.changes`) when the RM had refused every node with room. Then
        `refused` is no longer needed."""
        self.reasons: dict[str, tuple[int, str]] = {}
        """For each reason: how often the RM gave it, and the last node."""
        self.no_preemption = ""
        """Why the last preemption attempt for the ask was refused; '' if none was."""
        self.awaits: PredicateCheck | None = None
        """The open check that the ask waits for, because its node is the only one left."""

    def is_refused(self, node: Node) -> bool:
        """Whether the RM refused the ask there, and the node has not changed since."""
        asked = self.refused.get(node)
        return asked is not None and node.changed <= asked

    def is_refused_with_room(self, node: Node) -> bool:
        """Whether the RM refused the ask there and the node has not changed since; for a node that has room."""
        return node.changed <= self.refused_everywhere_at_change or self.is_refused(node)

    def remember(self, predicate_check: PredicateCheck, reason: str) -> None:
        # Answers can arrive in another order than the questions: the latest state of the node counts.
        self.refused[predicate_check.node] = max(
            predicate_check.changes, self.refused.get(predicate_check.node, predicate_check.changes)
        )
        if reason in self.reasons or len(self.reasons) < REASONS_MAX:
            count, _ = self.reasons.get(reason, (0, ""))
            self.reasons[reason] = count + 1, predicate_check.node.node_id
