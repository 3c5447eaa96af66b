"""Room of a node that is reserved for one allocation of an ask until it fits there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.resources import Items
from schedulerd.core.state.model.predicate_check import NEVER

if TYPE_CHECKING:
    from schedulerd.core.state.model.allocation import Allocation, Ask
    from schedulerd.core.state.model.application import Application
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.model.predicate_check import PredicateCheck, VictimsAnswer


class Reservation:
    """Room of one node for one allocation of an ask; other asks see the node without that room.

    An entitled reservation is for an ask for which allocations are preempted, or that has a required node. It ignores
    aging reservations, and quotas count its amounts as used. An ask for several allocations can have several of them on
    one node.
    """

    __slots__ = (
        "agreed_at",
        "alarm",
        "answer",
        "application",
        "ask",
        "asked_to_end_ns",
        "is_entitled",
        "items",
        "made_at_ns",
        "node",
        "number",
        "predicate_check",
        "refused",
        "victims",
    )

    def __init__(self, application: Application, ask: Ask, node: Node, *, is_entitled: bool, now_ns: int) -> None:
        self.application = application
        self.ask = ask
        self.node = node
        self.number: int = next(reversed(ask.reservations)).number + 1 if ask.reservations else 1
        """Tells it apart from the other reservations of the ask; the later one has the higher number."""
        self.items: Items = ask.request_class.items
        """The amounts that are reserved."""
        self.is_entitled = is_entitled
        self.made_at_ns = now_ns
        self.victims: dict[Allocation, None] = {}
        """Allocations being preempted for it that are not gone yet. They can be on other nodes, if a quota lacks
        room."""
        self.asked_to_end_ns: int | None = None
        """When the first victim was asked to be released; None if there was none."""
        self.refused = ""
        """Why the last attempt to preempt for it was refused, as a sentence; for asks with a required node only."""
        self.predicate_check: PredicateCheck | None = None
        """The open check before the ask is allocated here, or before allocations are preempted for it."""
        self.agreed_at = NEVER
        """Value of the node change counter when the RM was asked, if it agreed that the ask may be allocated here."""
        self.answer: VictimsAnswer | None = None
        """The RM's last answer about victims for this reservation."""
        self.alarm: Alarm | None = None
        """Rings when the reservation expires."""
