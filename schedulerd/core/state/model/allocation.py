"""A request (`Ask`), and what it gets (`Allocation`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.commands import NewAsk, TerminationType
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import OptOut, PartitionSpec
from schedulerd.core.state.pending.request_class import RequestClass

if TYPE_CHECKING:
    from schedulerd.core.state.model.application import Application
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.model.predicate_check import PredicateCheck, PredicateHistory
    from schedulerd.core.state.model.reservation import Reservation
    from schedulerd.core.state.pending.ask_group import AskGroup


class Ask:
    """A request for one or more equal allocations. It is remembered while it has pending allocations or allocations
    that exist, so a repeated key is an update (SI `AllocationAsk.allocationKey`)."""

    __slots__ = (
        "allocations",
        "asked_at_ns",
        "entitled",
        "group",
        "key",
        "no_reservation_before_ns",
        "pending",
        "placed",
        "placeholder",
        "predicate_history",
        "preemption_retry_ns",
        "request_class",
        "reservations",
        "serial",
        "spec",
        "swaps",
        "task_group",
    )

    def __init__(self, spec: NewAsk, request_class: RequestClass, serial: int, asked_at_ns: int) -> None:
        self.key = spec.allocation_key
        self.spec = spec
        self.request_class = request_class
        self.placeholder = spec.placeholder and bool(spec.task_group)
        """Whether its allocations only hold room for a task group; SI ignores the flag without a task group."""
        self.serial = serial
        """Order of arrival in the partition; an update keeps it, so correcting a size does not cost the ask its
        position."""
        self.asked_at_ns = asked_at_ns
        """When it was made first, which is its age and, among asks of one priority, its place in line; an update keeps
        it unless it says another time (SEMANTICS I27)."""
        self.pending = 0
        """Allocations still to be allocated."""
        self.group: AskGroup | None = None
        """The group of asks that it waits in; None while nothing is pending."""
        self.predicate_history: PredicateHistory | None = None
        """Predicate checks of its pending allocations, and refusals; None if the RM was never asked about it."""
        self.swaps: dict[Allocation, None] = {}
        """The placeholders whose room it gets when they are gone. Allocations that await a placeholder are not
        pending."""
        self.reservations: dict[Reservation, None] = {}
        """Its reservations in the order in which they were made; each is for one pending allocation."""
        self.entitled = 0
        """How many of them are entitled."""
        self.no_reservation_before_ns = 0
        """Until this time it gets no reservation, because one expired or the RM refused it."""
        self.preemption_retry_ns = 0
        """Until this time no preemption attempt is made for it, because one failed or its reservation ended."""
        self.task_group = spec.task_group
        """The task group whose placeholders it may replace; '' if none, or if a placeholder was too small for it."""
        self.placed = 0
        """Allocations made so far, including those that are gone: they count towards maxAllocations."""
        self.allocations: dict[str, Allocation] = {}
        """Its present allocations by UUID."""

    @property
    def awaiting_placeholder(self) -> int:
        """How many of its allocations await a placeholder."""
        return len(self.swaps)

    @property
    def unreserved(self) -> int:
        """How many of its pending allocations have no reservation."""
        return self.pending - len(self.reservations)

    def aging_on(self, node: Node) -> Reservation | None:
        """Its aging reservation on the node, which has no other one then."""
        return next((one for one in node.reservations if one.ask is self and not one.is_entitled), None)

    @property
    def unchecked(self) -> int:
        """How many of its pending allocations await no predicate result."""
        return (
            self.pending - self.predicate_history.predicate_reserved
            if self.predicate_history is not None
            else self.pending
        )

    @property
    def group_key(self) -> tuple[RequestClass, str, bool]:
        """What it shares with the other asks of its group: interchangeable asks of one application."""
        return self.request_class, self.task_group, self.placeholder

    def renew(self, spec: NewAsk, request_class: RequestClass) -> None:
        """An update changed the ask; nothing of it may be pending."""
        self.spec = spec
        self.request_class = request_class
        self.placeholder = spec.placeholder and bool(spec.task_group)


class Allocation:
    """An ask that was allocated on a node. It keeps the spec and the request class with which it was allocated; an
    update of the ask changes neither."""

    __slots__ = (
        "alarm",
        "application",
        "ask",
        "ask_again_when_gone",
        "makes_room",
        "node",
        "placeholder",
        "placeholder_asked_at_ns",
        "predicate_check",
        "releasing",
        "request_class",
        "spec",
        "swap",
        "swap_node",
        "used",
        "uuid",
    )

    def __init__(
        self, uuid: str, application: Application, ask: Ask, node: Node, spec: NewAsk, request_class: RequestClass
    ) -> None:
        self.uuid = uuid
        self.application = application
        self.ask = ask
        self.spec = spec
        self.request_class = request_class
        self.node = node
        self.releasing: TerminationType | None = None
        """Set while the RM has been asked for its release and has not confirmed; it uses its resources until then."""
        self.ask_again_when_gone = False
        """For a placeholder that is released for another gang, or preempted before its own gang ran: its ask becomes
        pending again."""
        self.makes_room: Reservation | None = None
        """The reservation whose victim it is; None if it is no victim, or the reservation ended."""
        self.alarm: Alarm | None = None
        """Rings at its execution timeout, if it has one."""
        self.placeholder = spec.placeholder and bool(spec.task_group)
        self.placeholder_asked_at_ns: int | None = None
        """When the placeholder was asked for whose room it took; None if it took no placeholder's."""
        self.swap: Ask | None = None
        """The ask that awaits this placeholder and gets its room."""
        self.used: Resources | None = None
        """Its real use as last reported; None if never reported."""
        self.predicate_check: PredicateCheck | None = None
        """The open check whether an ask may take its room (swap)."""
        self.swap_node = node
        """The node for the ask that replaces this placeholder; another node if the RM refused this one."""

    @property
    def key(self) -> str:
        return self.spec.allocation_key

    def resize(self, request_class: RequestClass) -> None:
        """It is of other amounts from now on, and so is its ask, of which nothing else is there or pending."""
        self.request_class = request_class
        self.spec = replace(self.spec, resources=request_class.resources)
        if not self.ask.pending:
            self.ask.renew(replace(self.ask.spec, resources=request_class.resources), request_class)

    def move(self, node: Node, uuid: str) -> None:
        """It is on this node, and has this UUID, from now on."""
        if self.swap_node is self.node:
            self.swap_node = node
        self.node = node
        self.uuid = uuid


def may_be_preempted(spec: PartitionSpec, allocation: Allocation) -> bool:
    """Whether an allocation may be preempted at all: not if it is being released, has a required node, or is opted out
    (SI `allowPreemptSelf`; SEMANTICS I1), unless the partition allows to preempt opted-out allocations last."""
    if allocation.releasing is not None or allocation.request_class.required_node:
        return False
    return allocation.spec.allow_preempt_self or spec.preemption_optout is OptOut.LAST
