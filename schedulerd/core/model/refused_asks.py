"""Asks that the resource manager refused on every node with room: set aside until that may be otherwise.

They wait under a request class of their own (`RequestClass.refused_asks`), which no node fits, so they cost a cycle
nothing. When a node changes, as many are called back as fit there, those of the highest priority first, and then those
who wait longest; each that is refused gives its room to the next. So the work is in proportion to the room, not to who
waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from schedulerd.core.alarms import Alarm
from schedulerd.core.model.apart import emptied
from schedulerd.core.model.due import Due

if TYPE_CHECKING:
    from schedulerd.core.model.allocation import Ask
    from schedulerd.core.model.application import Application
    from schedulerd.core.model.node import Node
    from schedulerd.core.model.request_class import RequestClass

REMEMBERED_MAX = 200_000
"""How many refusals of an ask on a node are remembered in a partition. Beyond that an ask that is refused rests at
once, and its refusals are forgotten."""

AWAITING_MAX = 64
"""At how many asks of a request class and priority that wait for the end of a predicate check it is looked when a node
has more room. The others hear of it when that predicate check ends."""


class _Level:
    """Asks of one request class and priority, in the order in which they were set aside."""

    __slots__ = ("awaiting", "resting")

    def __init__(self) -> None:
        self.resting: dict[Ask, Application] = {}
        """All nodes with room refused them: the later they were set aside, the more changes of nodes that covers."""
        self.awaiting: dict[Ask, Application] = {}
        """Not all did: they wait for the end of a predicate check on one that did not."""

    def of(self, ask: Ask) -> dict[Ask, Application]:
        """Those among which it is, or will be."""
        return (
            self.awaiting
            if ask.predicate_history is not None and ask.predicate_history.awaits is not None
            else self.resting
        )

    def __bool__(self) -> bool:
        return bool(self.resting or self.awaiting)

    def first(self, node: Node, count: int) -> Iterator[tuple[Application, Ask]]:
        """Up to `count` that the node, as it is, did not refuse; of those who wait for predicate checks, few are
        looked at."""
        for ask, application in islice(self.awaiting.items(), AWAITING_MAX):
            if count and ask.predicate_history is not None and not ask.predicate_history.bars_with_room(node):
                yield application, ask
                count -= 1
        for ask, application in islice(self.resting.items(), count):
            if ask.predicate_history is None or ask.predicate_history.since >= node.changed:
                break
            yield application, ask


class RefusedAsks:
    __slots__ = ("_levels", "alarm", "due", "nodes_to_retry", "remembered")

    def __init__(self) -> None:
        self._levels: dict[RequestClass, dict[int, _Level]] = {}
        """By request class and priority; nothing empty."""
        self.due: Due[Ask] = Due()
        """When they are asked for anew, whatever changed or did not."""
        self.alarm: Alarm | None = None
        """Rings when the first of them is due."""
        self.remembered = 0
        """Refusals that asks of the partition remember, set aside or not."""
        self.nodes_to_retry: dict[Node, None] = {}
        """Nodes that more of them may want than were called back for their room."""

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
        """It is called back, or wanted no longer."""
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
        """Up to `count` asks of the request class that the node, as it is, did not refuse."""
        levels = self._levels[request_class]
        found: list[tuple[Application, Ask]] = []
        for priority in sorted(levels, reverse=True):
            found += levels[priority].first(node, count - len(found))
        return found

    def take_apart(self) -> Iterator[None]:
        for levels in self._levels.values():
            for level in levels.values():
                yield from emptied(level.resting, level.awaiting)
        yield from emptied(self._levels, self.nodes_to_retry)
        yield from self.due.take_apart()

    def application_of(self, ask: Ask) -> Application:
        return self._levels[ask.request_class][ask.spec.priority].of(ask)[ask]
