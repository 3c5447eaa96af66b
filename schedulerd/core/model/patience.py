"""Whose patience is over in a partition, and what is being done about it.

An ask that finds no node has room kept for it after a while; one that has a right to room has others end for it, after
a longer while. Who that is, is looked at once when the time comes, and worked off by the cycles that follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from schedulerd.core.alarms import Alarm
from schedulerd.core.decide.victims import Effort
from schedulerd.core.model.apart import emptied
from schedulerd.core.model.due import Due
from schedulerd.core.model.shape import Shape
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


class Patience:
    __slots__ = (
        "alarm",
        "attempts_due",
        "changed",
        "changed_as_if_asked_ns",
        "claimants",
        "dormant",
        "dormant_since",
        "effort",
        "is_over",
        "nodeless",
        "refused",
        "requiring",
        "reservations_due",
        "reserving",
        "search",
        "unhelped",
        "unserved",
    )

    def __init__(self, reservations_due: Due[Shape]) -> None:
        self.alarm: Alarm | None = None
        """Rings when the next of these is due."""
        self.is_over = False
        """Whether some are due, and the next cycle has to look who."""
        self.reservations_due = reservations_due
        """Shapes that no node fits, by when the first ask of them was made for which no room is kept yet."""
        self.reserving: deque[tuple[Application, Ask]] = deque()
        """For whom room is to be kept, in order."""
        self.requiring: deque[tuple[Application, Ask]] = deque()
        """Those of them who may run on a single node."""
        self.unserved: dict[Shape, None] = {}
        """Of which more asks may be old enough than are lined up."""
        self.nodeless: dict[Shape, None] = {}
        """For which no node was found where room could be kept; looked at again when one may be."""
        self.unhelped: dict[Application, dict[Shape, None]] = {}
        """Applications for whose asks of these shapes no reservation helps: their own allocations are in the way, or
        their gang cannot be complete on the nodes (`decide.own_room`). Checked again when either changes."""
        self.attempts_due: Due[Application] = Due()
        """Applications with asks that may have others end for them, by when one of these may be old enough."""
        self.claimants: deque[Application] = deque()
        """Those of them that are due, in order."""
        self.search: Search | None = None
        """Whom to end for the first of them, while that is being found out."""
        self.refused: dict[tuple[Queue, Shape, Ask | None], Refused] = {}
        """Leaves and shapes for which nobody was found to end; an ask, if it was because of what it has claimed already
        and says nothing about others."""
        self.changed: dict[Node, None] = {}
        """Nodes that changed in this step, while some had no node where room could be kept."""
        self.changed_as_if_asked_ns = 0
        """As if asked for at that time these are looked at again."""
        self.dormant: dict[Application, int] = {}
        """Applications that wait until anything changes at all, and not before that time."""
        self.dormant_since = 0
        """How many moves the partition had made when it was last looked whether something changed."""
        self.effort = Effort()
        """What was done so far to find out who might end; a cycle ends after some of it."""

    @property
    def may_go_on(self) -> bool:
        """Whether it can be looked now who might end for whom: not while there is to be a verdict on what was found."""
        return bool(self.claimants) and (self.search is None or self.search.trial is None)

    def look_for(self, search: Search | None) -> None:
        """The search to go on with, in place of the one before; None if there is none."""
        if self.search is not None and self.search is not search:
            self.search.end()
        self.search = search

    def next_ns(self, reservation_delay_ns: int) -> int | None:
        """When somebody's patience will be over next."""
        asked_ns, attempt_ns = self.reservations_due.next_ns(), self.attempts_due.next_ns()
        if asked_ns is None:
            return attempt_ns
        reservation_ns = asked_ns + reservation_delay_ns
        return reservation_ns if attempt_ns is None else min(reservation_ns, attempt_ns)

    def expect(self, shape: Shape, asked_at_ns: int) -> None:
        """An ask of this shape waits since then, and no node fits it: in time, room is to be kept for it; at once, if
        there is a single node that would do."""
        self.reservations_due.hurry(shape, _LONG_AGO_NS if shape.required_node else asked_at_ns)

    def look_soon(self, shape: Shape) -> None:
        """Asks of this shape that were held up otherwise may wait for a node now."""
        if shape.parked:
            self.reservations_due.hurry(shape, _LONG_AGO_NS)

    def look_again(self, node: Node, as_if_asked_ns: int) -> None:
        """Room may be kept on the node: for whom no node was found is looked at again, as if asked for at that time."""
        self._look_again([node], as_if_asked_ns)

    def look_again_soon(self, node: Node, as_if_asked_ns: int) -> None:
        """The same when the step is over, once for all nodes that changed in it."""
        if self.nodeless or self.unhelped:
            self.changed[node] = None
            self.changed_as_if_asked_ns = as_if_asked_ns

    def look_again_at_changed(self) -> None:
        """The step is over."""
        if self.changed:
            changed, self.changed = self.changed, {}
            self._look_again(list(changed), self.changed_as_if_asked_ns)

    def _look_again(self, nodes: list[Node], as_if_asked_ns: int) -> None:
        if not self.nodeless and not self.unhelped:
            return
        most, by_id = Resources(), {}
        for node in nodes:
            by_id[node.node_id] = node
            for name, amount in node.capacity.items():
                most[name] = max(most[name], amount - node.occupied[name])

        def may_fit(shape: Shape) -> bool:
            if most.lacks(shape.items) is not None:
                return False
            if shape.required_node:
                only = by_id.get(shape.required_node)
                return only is not None and only.can_ever_fit(shape.items)
            return any(node.can_ever_fit(shape.items) for node in nodes)

        for shape in list(self.nodeless):
            if not shape.parked:
                del self.nodeless[shape]
            elif may_fit(shape):
                del self.nodeless[shape]
                self.reservations_due.hurry(shape, as_if_asked_ns)
        for application, shapes in list(self.unhelped.items()):
            if any(map(may_fit, shapes)):
                self.retry_application(application, as_if_asked_ns)

    def retry_application(self, application: Application, as_if_asked_ns: int = _LONG_AGO_NS) -> None:
        """A reservation may help the application now; nothing to do if none was refused to it for that reason."""
        for shape in self.unhelped.pop(application, ()):
            if shape.parked:
                self.reservations_due.hurry(shape, as_if_asked_ns)

    def retry_shape(self, shape: Shape) -> None:
        """Nodes may take asks of this shape now that did not before, by what runs there."""
        if self.nodeless.pop(shape, shape) is None:
            self.look_soon(shape)
        for application in [one for one, shapes in self.unhelped.items() if shape in shapes]:
            self.retry_application(application)

    def is_unhelped(self, application: Application, shape: Shape) -> bool:
        """Whether it was found that no reservation helps the asks of this shape."""
        return bool(self.unhelped) and shape in self.unhelped.get(application, ())

    def forget_application(self, application: Application) -> None:
        """It waits for nothing any longer."""
        self.attempts_due.discard(application)
        self.unhelped.pop(application, None)
        self.dormant.pop(application, None)

    def wake(self, moves: int) -> None:
        """Lets those be looked at again who wait for any change, if there was one."""
        if self.dormant and moves != self.dormant_since:
            for application, at_ns in self.dormant.items():
                self.attempts_due.hurry(application, at_ns)
            self.dormant.clear()
        self.dormant_since = moves

    def forget(self) -> None:
        """Everybody is lined up anew, and everything found out about shapes and queues is void."""
        self.look_for(None)
        self.claimants.clear()
        self.attempts_due.clear()
        self.dormant.clear()
        self.reserving.clear()
        self.requiring.clear()
        self.unserved.clear()
        self.nodeless.clear()
        self.unhelped.clear()
        self.changed.clear()
        self.refused.clear()
        self.dormant_since = -1

    def take_apart(self) -> Iterator[None]:
        self.look_for(None)
        self.alarm = None
        yield from emptied(self.reserving, self.requiring, self.unserved, self.nodeless, self.changed)
        yield from emptied(self.claimants, self.refused, self.dormant, self.unhelped)
        yield from self.attempts_due.take_apart()
