"""A request (`Ask`) and what it became (`Allocation`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedulerd.core.alarms import Alarm
from schedulerd.core.commands import NewAsk, TerminationType
from schedulerd.core.model.request_class import RequestClass
from schedulerd.core.resources import Resources

if TYPE_CHECKING:
    from schedulerd.core.model.application import Application
    from schedulerd.core.model.ask_group import AskGroup
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.predicate_check import PredicateCheck, PredicateHistory
    from schedulerd.core.model.reservation import Reservation


class Ask:
    """A request for one or more equal allocations. It is remembered while it has any pending or living one, so that a
    repeated key is an update (SI `AllocationAsk.allocationKey`)."""

    __slots__ = (
        "allocations",
        "asked_at_ns",
        "group",
        "key",
        "pending",
        "placed",
        "placeholder",
        "predicate_history",
        "preemption_retry_ns",
        "request_class",
        "reservations",
        "rests_until_ns",
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
        """Whether it only holds room for its task group; SI ignores the flag without a task group."""
        self.serial = serial
        """Order of arrival in the partition; an update keeps it, so nobody loses their place by correcting a size."""
        self.asked_at_ns = asked_at_ns
        self.pending = 0
        """Allocations still to be placed."""
        self.group: AskGroup | None = None
        """With which others it waits while any are."""
        self.predicate_history: PredicateHistory | None = None
        """What its resource manager was asked about it while any are, if that has a say."""
        self.swaps: dict[Allocation, None] = {}
        """The placeholders whose room it takes when they are gone; what waits for that is not pending."""
        self.reservations: dict[Node, Reservation] = {}
        """Where room is kept for it; each is of one of the pending ones."""
        self.rests_until_ns = 0
        """Before that no room is kept for it, as it was in vain for long."""
        self.preemption_retry_ns = 0
        """Before that nobody ends for it, as it was in vain for long."""
        self.task_group = spec.task_group
        """The task group whose placeholders it may take, '' if none, or if its placeholder was too small for it."""
        self.placed = 0
        """Allocations placed so far, whether they still live or not: they count towards maxAllocations."""
        self.allocations: dict[str, Allocation] = {}
        """Its living allocations by UUID."""

    @property
    def awaiting_placeholder(self) -> int:
        """How many of it wait for a placeholder to go."""
        return len(self.swaps)

    @property
    def unreserved(self) -> int:
        """How many of the pending ones no room is kept for."""
        return self.pending - len(self.reservations)

    @property
    def untried(self) -> int:
        """How many of the pending ones wait for no result."""
        return (
            self.pending - self.predicate_history.predicate_reserved
            if self.predicate_history is not None
            else self.pending
        )

    @property
    def band(self) -> tuple[RequestClass, str, bool]:
        """With which others of its application it is interchangeable."""
        return self.request_class, self.task_group, self.placeholder

    def renew(self, spec: NewAsk, request_class: RequestClass) -> None:
        """It is asked for otherwise from now on; nothing of it is pending."""
        self.spec = spec
        self.request_class = request_class
        self.placeholder = spec.placeholder and bool(spec.task_group)


class Allocation:
    """An ask placed on a node. It keeps spec and request class it was placed with: an update of the ask changes
    neither."""

    __slots__ = (
        "alarm",
        "application",
        "ask",
        "makes_room",
        "node",
        "placeholder",
        "predicate_check",
        "releasing",
        "request_class",
        "spec",
        "swap",
        "swap_node",
        "used",
        "uuid",
        "yields_to_gang",
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
        """Set while the core waits for the RM to confirm its release; it uses its resources until then."""
        self.yields_to_gang = False
        """A placeholder whose gang still waits for others: its ask is pending again when it is gone."""
        self.makes_room: Reservation | None = None
        """For whom it goes, as long as room is kept for that ask."""
        self.alarm: Alarm | None = None
        """When its execution time is over, if that is limited."""
        self.placeholder = spec.placeholder and bool(spec.task_group)
        self.swap: Ask | None = None
        """The awaiting its placeholder ask that takes its room when it is gone."""
        self.used: Resources | None = None
        """What it really uses, as it was reported last; None if it never was."""
        self.predicate_check: PredicateCheck | None = None
        """Which ask may take its room, if there is to be a result on that."""
        self.swap_node = node
        """Where that goes then: another one, if its resource manager did not want it here."""

    @property
    def key(self) -> str:
        return self.spec.allocation_key
