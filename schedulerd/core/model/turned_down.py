"""Asks that the resource manager refused on every node with room: set aside until that may be otherwise.

They wait under a shape of their own (`Shape.turned_down`), which no node fits, so they cost a cycle nothing. When a
node changes, as many are called back as fit there, those of the highest priority first, and then those who wait
longest; each that is refused gives its room to the next. So the work is in proportion to the room, not to who waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from schedulerd.core.alarms import Alarm
from schedulerd.core.model.due import Due

if TYPE_CHECKING:
    from schedulerd.core.model.allocation import Ask
    from schedulerd.core.model.application import Application
    from schedulerd.core.model.shape import Shape

REMEMBERED_MAX = 200_000
"""How many refusals of an ask on a node are remembered in a partition. Beyond that an ask that is refused rests at
once, and its refusals are forgotten."""


class TurnedDown:
    __slots__ = ("_asks", "alarm", "due", "remembered")

    def __init__(self) -> None:
        self._asks: dict[Shape, dict[int, dict[Ask, Application]]] = {}
        """By shape and priority, in the order in which they were set aside; nothing empty."""
        self.due: Due[Ask] = Due()
        """When they are asked for anew, whatever changed or did not."""
        self.alarm: Alarm | None = None
        """Rings when the first of them is due."""
        self.remembered = 0
        """Refusals that asks of the partition remember, set aside or not."""

    def __bool__(self) -> bool:
        return bool(self._asks)

    def __iter__(self) -> Iterator[tuple[Application, Ask]]:
        for levels in self._asks.values():
            for asks in levels.values():
                yield from ((application, ask) for ask, application in asks.items())

    def shapes(self) -> list[Shape]:
        return list(self._asks)

    def add(self, application: Application, ask: Ask) -> None:
        self._asks.setdefault(ask.shape, {}).setdefault(ask.spec.priority, {})[ask] = application

    def discard(self, ask: Ask) -> None:
        """It is called back, or wanted no longer."""
        levels = self._asks[ask.shape]
        asks = levels[ask.spec.priority]
        del asks[ask]
        if not asks:
            del levels[ask.spec.priority]
        if not levels:
            del self._asks[ask.shape]
        self.due.discard(ask)
        if ask.hearing is not None and ask.hearing.awaits is not None:
            del ask.hearing.awaits.awaited_by[ask]
            ask.hearing.awaits = None

    def first(self, shape: Shape, changed: int, count: int) -> list[tuple[Application, Ask]]:
        """Up to `count` asks of the shape that were set aside before the node changed for the last time."""
        levels = self._asks[shape]
        found: list[tuple[Application, Ask]] = []
        for priority in sorted(levels, reverse=True):
            for ask, application in levels[priority].items():
                if len(found) == count or ask.hearing is None or ask.hearing.since >= changed:
                    break
                found.append((application, ask))
        return found

    def application_of(self, ask: Ask) -> Application:
        return self._asks[ask.shape][ask.spec.priority][ask]
