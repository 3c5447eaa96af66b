"""Which asks of a partition are old enough for a reservation or for preemption, and what is being done about it.

An ask that finds no node has room kept for it after a while; one that has a right to room has others end for it, after
a longer while. Who that is, is looked at once when the time comes, and worked off by the cycles that follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.alarms import Alarm
from schedulerd.core.decide.victims import WorkBudget
from schedulerd.core.model.apart import emptied
from schedulerd.core.model.due import Due
from schedulerd.core.model.request_class import PendingClass
from schedulerd.core.resources import Resources

if TYPE_CHECKING:
    from schedulerd.core.decide.preemption import Search
    from schedulerd.core.model.allocation import Ask
    from schedulerd.core.model.application import Application
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.queue import Queue


_LONG_AGO_NS = -(2**63)


class Refused(NamedTuple):
    """Nobody ends for asks up to this priority, unless something has changed, and not before that time."""

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
        "changed_as_if_asked_ns",
        "has_due",
        "not_helped_by_reservation",
        "overflow",
        "preemptors",
        "refused",
        "reservations_due",
        "search",
        "to_reserve",
        "to_reserve_required",
        "unchanged_since_moves",
        "unreservable",
        "waiting_for_change",
    )

    def __init__(self, reservations_due: Due[PendingClass]) -> None:
        self.alarm: Alarm | None = None
        """Rings when the next of these is due."""
        self.has_due = False
        """Whether some are due, and the next cycle has to look who."""
        self.reservations_due = reservations_due
        """pending classes that no node fits, by when the first ask of them was made for which no room is kept yet."""
        self.to_reserve: deque[tuple[Application, Ask]] = deque()
        """For whom room is to be kept, in order."""
        self.to_reserve_required: deque[tuple[Application, Ask]] = deque()
        """Those of them who may run on a single node."""
        self.overflow: dict[PendingClass, None] = {}
        """Of which more asks may be old enough than are lined up."""
        self.unreservable: dict[PendingClass, None] = {}
        """For which no node was found where room could be kept; looked at again when one may be."""
        self.not_helped_by_reservation: dict[Application, dict[PendingClass, None]] = {}
        """Applications for whose asks of these pending classes no reservation helps: their own allocations are in the
        way, or their gang cannot be complete on the nodes (`decide.own_room`). Checked again when either changes."""
        self.attempts_due: Due[Application] = Due()
        """Applications with asks that may have others end for them, by when one of these may be old enough."""
        self.preemptors: deque[Application] = deque()
        """Those of them that are due, in order."""
        self.search: Search | None = None
        """Whom to end for the first of them, while that is being found out."""
        self.refused: dict[tuple[Queue, PendingClass, Ask | None], Refused] = {}
        """Leaves and pending classes for which nobody was found to end; an ask, if it was because of what it has
        claimed already and says nothing about others."""
        self.changed: dict[Node, None] = {}
        """Nodes that changed in this step, while some had no node where room could be kept."""
        self.changed_as_if_asked_ns = 0
        """As if asked for at that time these are looked at again."""
        self.waiting_for_change: dict[Application, int] = {}
        """Applications that wait until anything changes at all, and not before that time."""
        self.unchanged_since_moves = 0
        """How many moves the partition had made when it was last looked whether something changed."""
        self.budget = WorkBudget()
        """What was done so far to find out who might end; a cycle ends after some of it."""

    @property
    def may_go_on(self) -> bool:
        """Whether it can be looked now who might end for whom: not while there is to be a result on what was found."""
        return bool(self.preemptors) and (self.search is None or self.search.predicate_check is None)

    def set_search(self, search: Search | None) -> None:
        """The search to go on with, in place of the one before; None if there is none."""
        if self.search is not None and self.search is not search:
            self.search.end()
        self.search = search

    def next_ns(self, reservation_delay_ns: int) -> int | None:
        """When somebody's retry timers will be over next."""
        asked_ns, attempt_ns = self.reservations_due.next_ns(), self.attempts_due.next_ns()
        if asked_ns is None:
            return attempt_ns
        reservation_ns = asked_ns + reservation_delay_ns
        return reservation_ns if attempt_ns is None else min(reservation_ns, attempt_ns)

    def expect_reservation(self, pending_class: PendingClass, asked_at_ns: int) -> None:
        """An ask of this pending class waits since then, and no node fits it: in time, room is to be kept for it; at
        once, if there is a single node that would do."""
        self.reservations_due.hurry(
            pending_class, _LONG_AGO_NS if pending_class.request_class.required_node else asked_at_ns
        )

    def look_soon(self, pending_class: PendingClass) -> None:
        """Asks of this pending class that were held up otherwise may wait for a node now."""
        if pending_class.unschedulable:
            self.reservations_due.hurry(pending_class, _LONG_AGO_NS)

    def look_again(self, node: Node, as_if_asked_ns: int) -> None:
        """Room may be kept on the node: for whom no node was found is looked at again, as if asked for at that time."""
        self._look_again([node], as_if_asked_ns)

    def look_again_soon(self, node: Node, as_if_asked_ns: int) -> None:
        """The same when the step is over, once for all nodes that changed in it."""
        if self.unreservable or self.not_helped_by_reservation:
            self.changed[node] = None
            self.changed_as_if_asked_ns = as_if_asked_ns

    def look_again_at_changed(self) -> None:
        """The step is over."""
        if self.changed:
            changed, self.changed = self.changed, {}
            self._look_again(list(changed), self.changed_as_if_asked_ns)

    def _look_again(self, nodes: list[Node], as_if_asked_ns: int) -> None:
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
                self.reservations_due.hurry(pending_class, as_if_asked_ns)
        for application, pending_classes in list(self.not_helped_by_reservation.items()):
            if any(map(may_fit, pending_classes)):
                self.retry_application(application, as_if_asked_ns)

    def retry_application(self, application: Application, as_if_asked_ns: int = _LONG_AGO_NS) -> None:
        """A reservation may help the application now; nothing to do if none was refused to it for that reason."""
        for pending_class in self.not_helped_by_reservation.pop(application, ()):
            if pending_class.unschedulable:
                self.reservations_due.hurry(pending_class, as_if_asked_ns)

    def retry_class(self, pending_class: PendingClass) -> None:
        """Nodes may take asks of this pending class now that did not before, by what runs there."""
        if self.unreservable.pop(pending_class, pending_class) is None:
            self.look_soon(pending_class)
        for application in [
            one for one, pending_classes in self.not_helped_by_reservation.items() if pending_class in pending_classes
        ]:
            self.retry_application(application)

    def is_unhelped(self, application: Application, pending_class: PendingClass) -> bool:
        """Whether it was found that no reservation helps the asks of this pending class."""
        return bool(self.not_helped_by_reservation) and pending_class in self.not_helped_by_reservation.get(
            application, ()
        )

    def forget_application(self, application: Application) -> None:
        """It waits for nothing any longer."""
        self.attempts_due.discard(application)
        self.not_helped_by_reservation.pop(application, None)
        self.waiting_for_change.pop(application, None)

    def wake(self, moves: int) -> None:
        """Lets those be looked at again who wait for any change, if there was one."""
        if self.waiting_for_change and moves != self.unchanged_since_moves:
            for application, at_ns in self.waiting_for_change.items():
                self.attempts_due.hurry(application, at_ns)
            self.waiting_for_change.clear()
        self.unchanged_since_moves = moves

    def forget(self) -> None:
        """Everybody is lined up anew, and everything found out about pending classes and queues is void."""
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

    def take_apart(self) -> Iterator[None]:
        self.set_search(None)
        self.alarm = None
        yield from emptied(self.to_reserve, self.to_reserve_required, self.overflow, self.unreservable, self.changed)
        yield from emptied(self.preemptors, self.refused, self.waiting_for_change, self.not_helped_by_reservation)
        yield from self.attempts_due.take_apart()
