"""Asks that the RM refused on every node with room. They are set aside until a node changes or the retry time comes.

These asks get the `refused` variant of their request class, which no node fits, so they cost a cycle nothing. When a
node changes, as many are called back as fit there: highest priority first, then longest wait first. If one of them is
refused again, the next one follows. So the work grows with the room and not with the number of refused asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.due import Due

if TYPE_CHECKING:
    from schedulerd.core.state.model.allocation import Ask
    from schedulerd.core.state.model.application import Application
    from schedulerd.core.state.model.node import Node
    from schedulerd.core.state.pending.request_class import RequestClass

REMEMBERED_MAX = 200_000
"""Maximum number of refusals (of one ask on one node) that a partition remembers. Beyond that a refused ask rests at
once, and its refusals are forgotten."""

AWAITING_MAX = 64
"""Maximum number of awaiting asks of one request class and priority that are tried when a node has more room. The
others are tried when their predicate check ends."""


class _Level:
    """Refused asks of one request class and priority, in the order in which they were set aside."""

    __slots__ = ("awaiting", "resting")

    def __init__(self) -> None:
        self.resting: dict[Ask, Application] = {}
        """Asks that the RM refused on all nodes with room. `refused_everywhere_at_change` grows from first to
        last, so `first` may stop at the first ask that was refused before the node's last change."""
        self.awaiting: dict[Ask, Application] = {}
        """Asks that wait for the end of another ask's predicate check, on a node where the RM has not refused them."""

    def of(self, ask: Ask) -> dict[Ask, Application]:
        """The one of both dicts that has, or will have, the ask."""
        return (
            self.awaiting
            if ask.predicate_history is not None and ask.predicate_history.awaits is not None
            else self.resting
        )

    def __bool__(self) -> bool:
        return bool(self.resting or self.awaiting)

    def first(self, node: Node, count: int) -> Iterator[tuple[Application, Ask]]:
        """Up to `count` asks that the RM has not refused on the node as it is now. At most `AWAITING_MAX` awaiting asks
        are visited."""
        for ask, application in islice(self.awaiting.items(), AWAITING_MAX):
            if count and ask.predicate_history is not None and not ask.predicate_history.is_refused_with_room(node):
                yield application, ask
                count -= 1
        for ask, application in islice(self.resting.items(), count):
            if ask.predicate_history is None or ask.predicate_history.refused_everywhere_at_change >= node.changed:
                break
            yield application, ask


class RefusedAsks:
    __slots__ = ("_levels", "alarm", "due", "nodes_to_retry", "remembered")

    def __init__(self) -> None:
        self._levels: dict[RequestClass, dict[int, _Level]] = {}
        """By request class and priority; no empty entries."""
        self.due: Due[Ask] = Due()
        """When each ask is tried on every node again."""
        self.alarm: Alarm | None = None
        """Rings when the first of them is due."""
        self.remembered = 0
        """Number of refusals that asks of the partition remember, set aside or not."""
        self.nodes_to_retry: dict[Node, None] = {}
        """Nodes with room on which more refused asks may be tried than were called back so far."""

    def __bool__(self) -> bool:
        return bool(self._levels)

    def __iter__(self) -> Iterator[tuple[Application, Ask]]:
        for levels in self._levels.values():
            for level in levels.values():
                for asks in (level.awaiting, level.resting):
                    yield from ((application, ask) for ask, application in asks.items())

    def request_classes(self) -> list[RequestClass]:
        return list(self._levels)

    def add(self, application: Application, ask: Ask) -> None:
        level = self._levels.setdefault(ask.request_class, {}).setdefault(ask.spec.priority, _Level())
        level.of(ask)[ask] = application

    def discard(self, ask: Ask) -> None:
        """Removes an ask that is called back or withdrawn."""
        levels = self._levels[ask.request_class]
        level = levels[ask.spec.priority]
        del level.of(ask)[ask]
        if not level:
            del levels[ask.spec.priority]
        if not levels:
            del self._levels[ask.request_class]
        self.due.discard(ask)
        if ask.predicate_history is not None and ask.predicate_history.awaits is not None:
            del ask.predicate_history.awaits.awaited_by[ask]
            ask.predicate_history.awaits = None

    def first(self, request_class: RequestClass, node: Node, count: int) -> list[tuple[Application, Ask]]:
        """Up to `count` asks of the request class that the RM has not refused on the node as it is now, by priority."""
        levels = self._levels[request_class]
        found: list[tuple[Application, Ask]] = []
        for priority in sorted(levels, reverse=True):
            found += levels[priority].first(node, count - len(found))
        return found

    def dismantle(self) -> Iterator[None]:
        for levels in self._levels.values():
            for level in levels.values():
                yield from clear_stepwise(level.resting, level.awaiting)
        yield from clear_stepwise(self._levels, self.nodes_to_retry)
        yield from self.due.dismantle()

    def application_of(self, ask: Ask) -> Application:
        return self._levels[ask.request_class][ask.spec.priority].of(ask)[ask]
