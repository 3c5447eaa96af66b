"""Retry timers: which asks are due for a reservation or for a preemption attempt.

An ask without a node gets a reservation after a delay; an entitled ask may preempt after a longer delay. When the alarm
rings, due asks and applications are collected once into lists, which the next cycles work off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.lifecycles import GangState
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import WithinQueue
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.due import Due
from schedulerd.core.state.model.predicate_check import VictimSearch
from schedulerd.core.state.model.work_budget import WorkBudget
from schedulerd.core.state.pending.request_class import PendingClass

if TYPE_CHECKING:
    from schedulerd.core.state.model.allocation import Ask
    from schedulerd.core.state.model.application import Application
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.model.queue import Queue


_DUE_NOW_NS = -(2**63)
"""A due time before all others."""


class Refused(NamedTuple):
    """A failed preemption attempt: no other is made for asks up to this priority before `until_ns`, nor while
    `Partition.moves` has not changed."""

    priority: int
    moves: int
    until_ns: int
    reason: str


class RetryTimers:
    __slots__ = (
        "alarm",
        "attempts_due",
        "budget",
        "changed",
        "changed_due_ns",
        "has_due",
        "not_helped_by_reservation",
        "overflow",
        "preemptors",
        "refused",
        "reservation_delay_ns",
        "reservations_due",
        "search",
        "to_reserve",
        "to_reserve_required",
        "unchanged_since_moves",
        "unreservable",
        "waiting_for_change",
    )

    def __init__(self, reservations_due: Due[PendingClass], reservation_delay_ns: int) -> None:
        self.reservation_delay_ns = reservation_delay_ns
        """The age at which an ask without a node is due for a reservation."""
        self.alarm: Alarm | None = None
        """Rings when the next ask is due."""
        self.has_due = False
        """Whether some are due: the next cycle collects them."""
        self.reservations_due = reservations_due
        """Unschedulable classes, by the time at which their first ask is due for a reservation."""
        self.to_reserve: deque[tuple[Application, Ask]] = deque()
        """Due asks that are to get a reservation, in order."""
        self.to_reserve_required: deque[tuple[Application, Ask]] = deque()
        """As `to_reserve`, for asks with a required node."""
        self.overflow: dict[PendingClass, None] = {}
        """Pending classes with more eligible asks than `to_reserve` holds."""
        self.unreservable: dict[PendingClass, None] = {}
        """Classes for which no reservable node was found; checked again when a suitable node changes."""
        self.not_helped_by_reservation: dict[Application, dict[PendingClass, None]] = {}
        """Applications, with classes of theirs for which a reservation does not help: their own allocations are in the
        way, or the gang cannot be complete on the nodes (`gangs.rules.own_room`). Checked again when either changes."""
        self.attempts_due: Due[Application] = Due()
        """Applications with asks that may preempt, by the time at which the first of these is due."""
        self.preemptors: deque[Application] = deque()
        """Applications that are due for a preemption attempt, in order."""
        self.search: VictimSearch | None = None
        """The search for victims for the first of `preemptors`, while it goes on."""
        self.refused: dict[tuple[Queue | Application, PendingClass], Refused] = {}
        """Failed preemption attempts by `attempts_of`."""
        self.changed: dict[Node, None] = {}
        """Nodes that changed in this step, while there are `unreservable` classes or applications not helped."""
        self.changed_due_ns = 0
        """When the classes that `changed` may help are due."""
        self.waiting_for_change: dict[Application, int] = {}
        """Applications that wait for any change, with the earliest time of their next preemption attempt."""
        self.unchanged_since_moves = 0
        """`Partition.moves` when changes were last checked."""
        self.budget = WorkBudget()
        """The visits of all searches so far; a cycle makes a limited number of them."""

    @property
    def may_go_on(self) -> bool:
        """Whether a preemption search can go on: an application is due, and its search awaits no predicate result."""
        return bool(self.preemptors) and (self.search is None or self.search.predicate_check is None)

    def set_search(self, search: VictimSearch | None) -> None:
        """Replaces the search in progress (None: there is none), and ends the old one."""
        if self.search is not None and self.search is not search:
            self.search.end()
        self.search = search

    def next_ns(self) -> int | None:
        """When the next ask will be due for a reservation or a preemption attempt; None if no ask waits for that."""
        reservation_ns, attempt_ns = self.reservations_due.next_ns(), self.attempts_due.next_ns()
        if reservation_ns is None or attempt_ns is None:
            return attempt_ns if reservation_ns is None else reservation_ns
        return min(reservation_ns, attempt_ns)

    def schedule_reservation(self, pending_class: PendingClass, asked_at_ns: int) -> None:
        """An ask of this class, made at `asked_at_ns`, has no node: schedules a reservation for it. A class with a
        required node is due at once."""
        is_required = bool(pending_class.request_class.required_node)
        due_ns = _DUE_NOW_NS if is_required else asked_at_ns + self.reservation_delay_ns
        self.reservations_due.set_earlier(pending_class, due_ns)

    def make_due_now(self, pending_class: PendingClass) -> None:
        """Asks of this class may newly wait for a node: makes the class due at once, if it is unschedulable."""
        if pending_class.unschedulable:
            self.reservations_due.set_earlier(pending_class, _DUE_NOW_NS)

    def retry_on_node(self, node: Node, due_ns: int) -> None:
        """A reservation on the node will be possible: classes that found no reservable node are due then."""
        self._retry_on_nodes([node], due_ns)

    def note_node_change(self, node: Node, due_ns: int) -> None:
        """As `retry_on_node`, but at the end of the step, once for all nodes that changed in it."""
        if self.unreservable or self.not_helped_by_reservation:
            self.changed[node] = None
            self.changed_due_ns = due_ns

    def retry_on_changed_nodes(self) -> None:
        """At the end of a step: does what `note_node_change` noted."""
        changed, self.changed = self.changed, {}
        self._retry_on_nodes(list(changed), self.changed_due_ns)

    def _retry_on_nodes(self, nodes: list[Node], due_ns: int) -> None:
        if not self.unreservable and not self.not_helped_by_reservation:
            return
        most, by_id = Resources(), {}
        for node in nodes:
            by_id[node.node_id] = node
            for name, amount in node.capacity.items():
                most[name] = max(most[name], amount - node.occupied[name])

        def may_fit(pending_class: PendingClass) -> bool:
            if most.lacks(pending_class.items) is not None:
                return False
            if pending_class.request_class.required_node:
                only = by_id.get(pending_class.request_class.required_node)
                return only is not None and only.can_ever_fit(pending_class.items)
            return any(node.can_ever_fit(pending_class.items) for node in nodes)

        for pending_class in list(self.unreservable):
            if not pending_class.unschedulable:
                del self.unreservable[pending_class]
            elif may_fit(pending_class):
                del self.unreservable[pending_class]
                self.reservations_due.set_earlier(pending_class, due_ns)
        for application, pending_classes in list(self.not_helped_by_reservation.items()):
            if any(map(may_fit, pending_classes)):
                self.retry_application(application, due_ns)

    def retry_application(self, application: Application, due_ns: int = _DUE_NOW_NS) -> None:
        """A reservation may help the application now; nothing to do if it was not in `not_helped_by_reservation`."""
        for pending_class in self.not_helped_by_reservation.pop(application, ()):
            if pending_class.unschedulable:
                self.reservations_due.set_earlier(pending_class, due_ns)

    def retry_class(self, pending_class: PendingClass) -> None:
        """Nodes may admit asks of this class now, because of what runs there: schedules it again if it found no
        reservable node, and the applications that a reservation did not help."""
        if self.unreservable.pop(pending_class, pending_class) is None:
            self.make_due_now(pending_class)
        for application in [
            one for one, pending_classes in self.not_helped_by_reservation.items() if pending_class in pending_classes
        ]:
            self.retry_application(application)

    def is_not_helped(self, application: Application, pending_class: PendingClass) -> bool:
        """Whether a reservation does not help the asks of this class in the application."""
        return bool(self.not_helped_by_reservation) and pending_class in self.not_helped_by_reservation.get(
            application, ()
        )

    def forget_application(self, application: Application) -> None:
        """The application has no pending asks."""
        self.attempts_due.discard(application)
        self.not_helped_by_reservation.pop(application, None)
        self.waiting_for_change.pop(application, None)

    def forget_class(self, pending_class: PendingClass) -> None:
        """A group less is of this class: forgets the class if that was the last one."""
        if not pending_class.uses:
            self.unreservable.pop(pending_class, None)

    def retry_waiting(self) -> None:
        """Something changed: schedules the applications that wait for any change."""
        for application, at_ns in self.waiting_for_change.items():
            self.attempts_due.set_earlier(application, at_ns)
        self.waiting_for_change.clear()

    def forget(self) -> None:
        """Forgets all lists and findings, because all asks are entered again."""
        self.set_search(None)
        self.preemptors.clear()
        self.attempts_due.clear()
        self.waiting_for_change.clear()
        self.to_reserve.clear()
        self.to_reserve_required.clear()
        self.overflow.clear()
        self.unreservable.clear()
        self.not_helped_by_reservation.clear()
        self.changed.clear()
        self.refused.clear()
        self.unchanged_since_moves = -1

    def dismantle(self) -> Iterator[None]:
        self.set_search(None)
        self.alarm = None
        yield from clear_stepwise(
            self.to_reserve, self.to_reserve_required, self.overflow, self.unreservable, self.changed
        )
        yield from clear_stepwise(
            self.preemptors, self.refused, self.waiting_for_change, self.not_helped_by_reservation
        )
        yield from self.attempts_due.dismantle()


def attempts_of(application: Application, pending_class: PendingClass) -> tuple[Queue | Application, PendingClass]:
    """Of which asks a failed preemption attempt speaks: of all asks of the class in the leaf queue. Where asks preempt
    others in their own leaf, of those of the application alone: its own allocations are no victims. So also if it has a
    gang that gathers, for which victims are chosen as a whole."""
    queue, gang = application.queue, application.gang
    is_own = queue.properties.preemption_within_queue is WithinQueue.PRIORITY or (
        gang is not None and gang.state is GangState.GATHERING
    )
    return application if is_own else queue, pending_class
