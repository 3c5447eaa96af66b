"""An open question to a resource manager about an ask and a node, and what it said of the ask so far (SEMANTICS B4)."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.alarms import Alarm
from schedulerd.core.resources import Items

if TYPE_CHECKING:
    from schedulerd.core.decide.preemption import Search
    from schedulerd.core.model.allocation import Allocation, Ask
    from schedulerd.core.model.application import Application
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.reservation import Reservation

REASONS_MAX = 8
"""How many different reasons of refusals are remembered of one ask."""
NEVER = -1
"""Before any node changed."""


class Purpose(Enum):
    """What happens if the answer is yes."""

    PLACE = auto()
    """One allocation of the ask is placed on the node."""
    SWAP = auto()
    """A placeholder goes, there or elsewhere, and the ask runs on the node then."""
    KEEP = auto()
    """Room of the node is kept for the ask."""
    PREEMPT = auto()
    """Others are asked to end there for it."""


class Agreement(NamedTuple):
    """What the resource manager said of ending others on a node for an ask."""

    victims: tuple[Allocation, ...]
    """Those that the scheduler needs to end."""
    further: tuple[Allocation, ...]
    """Who else was offered, after them."""
    last: int
    """Index of the last of both that has to go, -1 if the ask could not run there even then."""
    changes: int
    """How often nodes had changed when it was asked."""

    def beyond(self) -> tuple[Allocation, ...]:
        """Those of the others that have to go."""
        return self.further[: max(0, self.last + 1 - len(self.victims))]


class PredicateCheck:
    """One pending allocation of an ask waits for the result on a node.

    To be placed it holds the room tentatively: others do not get it, and quotas count it as claimed. The other kinds
    hold nothing, as the room is a placeholder's, or not there yet, or kept by a reservation already.
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

    def __init__(self, now_ns: int, application: Application, ask: Ask, node: Node, purpose: Purpose) -> None:
        self.call_id = application.partition.callbacks.next_call_id()
        self.application = application
        self.ask = ask
        self.node = node
        self.purpose = purpose
        self.asked_at_ns = now_ns
        self.changes = application.partition.changes
        """How often nodes had changed when it was asked: a refusal says nothing about what the node is like later."""
        self.items: Items = ()
        """What it holds."""
        self.alarm: Alarm | None = None
        """When the time for the result is over."""
        self.awaited_by: dict[Ask, Application] = {}
        """Asks for which no other node is left than this one, if it comes free."""
        self.placeholder: Allocation | None = None
        """Of a swap: which one goes."""
        self.reservation: Reservation | None = None
        """By which the room is kept that the ask is to be placed in, or for which others would end."""
        self.search: Search | None = None
        """What found those that would end."""
        self.victims: tuple[Allocation, ...] = ()
        self.further: tuple[Allocation, ...] = ()
        """Who else might end if the resource manager says that the ask needs that."""

    def answered(self, index: int) -> Agreement:
        """What was said of the victims; -1 if it was a refusal."""
        return Agreement(self.victims, self.further, index, self.changes)

    @property
    def takes_one(self) -> bool:
        """Whether one of what is pending of the ask is spoken for meanwhile."""
        return self.purpose in (Purpose.PLACE, Purpose.SWAP)


class PredicateHistory:
    """What a resource manager is asked about one ask, and what it refused."""

    __slots__ = ("awaits", "no_preemption", "predicate_checks", "predicate_reserved", "reasons", "refused", "since")

    def __init__(self) -> None:
        self.predicate_checks: dict[PredicateCheck, None] = {}
        self.predicate_reserved = 0
        """How many pending allocations of the ask these speak for."""
        self.refused: dict[Node, int] = {}
        """Nodes that were refused, with how often nodes had changed when it was asked."""
        self.since = NEVER
        """After so many changes of nodes every node that had room was refused; which ones is forgotten then."""
        self.reasons: dict[str, tuple[int, str]] = {}
        """How often it was refused for which reason, and on which node last."""
        self.no_preemption = ""
        """Why nobody was asked to end for it when that was refused last."""
        self.awaits: PredicateCheck | None = None
        """The predicate check whose end the ask waits for, as its node is the only one left."""

    def bars(self, node: Node) -> bool:
        """Whether it was refused there, and the node is still as it was."""
        asked = self.refused.get(node)
        return asked is not None and node.changed <= asked

    def bars_with_room(self, node: Node) -> bool:
        """Likewise, for a node that has room."""
        return node.changed <= self.since or self.bars(node)

    def remember(self, predicate_check: PredicateCheck, reason: str) -> None:
        # What was asked first may be answered last: the refusal of the node as it is now holds.
        self.refused[predicate_check.node] = max(
            predicate_check.changes, self.refused.get(predicate_check.node, predicate_check.changes)
        )
        if reason in self.reasons or len(self.reasons) < REASONS_MAX:
            count, _ = self.reasons.get(reason, (0, ""))
            self.reasons[reason] = count + 1, predicate_check.node.node_id
