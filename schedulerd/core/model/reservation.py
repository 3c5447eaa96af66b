"""Room of a node that is kept for one allocation of an ask until it fits there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulerd.core.alarms import Alarm
from schedulerd.core.model.predicate_check import NEVER
from schedulerd.core.resources import Items

if TYPE_CHECKING:
    from schedulerd.core.model.allocation import Allocation, Ask
    from schedulerd.core.model.application import Application
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.predicate_check import Agreement, PredicateCheck


class Reservation:
    """Others see the node without that room.

    A entitled one is of an ask that has a right to the node: others end for it, or it may run nowhere else. Such asks
    look past the other kind, and the quota for it is kept as well.
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
        "predicate_check",
        "refused",
        "victims",
    )

    def __init__(self, application: Application, ask: Ask, node: Node, *, is_entitled: bool, now_ns: int) -> None:
        self.application = application
        self.ask = ask
        self.node = node
        self.items: Items = ask.request_class.items
        """What is kept."""
        self.is_entitled = is_entitled
        self.made_at_ns = now_ns
        self.victims: dict[Allocation, None] = {}
        """Allocations that were asked to go for its sake and are still there; elsewhere too, if a quota lacks room."""
        self.asked_to_end_ns: int | None = None
        """When the first of these was asked to; None if nobody ever was."""
        self.refused = ""
        """Why nobody was asked to when that was looked at last, as a sentence; of asks for a required node only."""
        self.predicate_check: PredicateCheck | None = None
        """What the resource manager is asked before the ask is placed here, or others end for it."""
        self.agreed_at = NEVER
        """It agreed that the ask is placed here, after so many changes of nodes."""
        self.answer: Agreement | None = None
        """What it said of those who would have to end."""
        self.alarm: Alarm | None = None
        """When it has been kept for long enough."""
