"""Early items of one RM: they arrived before the application that they refer to, and wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from schedulerd.core.language.alarms import Alarm
from schedulerd.core.language.commands import AllocationRelease, NewAsk
from schedulerd.core.state.model.dismantle import clear_stepwise

Item: TypeAlias = NewAsk | AllocationRelease


class EarlyItem:
    """An early item, what it waits for, and the alarm that ends its wait."""

    __slots__ = ("alarm", "application_id", "item", "partition", "rm_id", "serial")

    def __init__(self, rm_id: str, item: Item, partition: str, application_id: str) -> None:
        self.rm_id = rm_id
        self.item = item
        self.partition = partition
        self.application_id = application_id
        self.alarm: Alarm | None = None
        self.serial = 0
        """Increases with each item, in order of arrival."""


class Backlog:
    """What waited for an application and is left after it arrived: unclaimed allocations, which come first, and early
    items. Later steps handle them."""

    __slots__ = ("alarm", "application_id", "partition", "refused_serial", "rm_id")

    def __init__(self, rm_id: str, partition: str, application_id: str, refused_serial: int | None) -> None:
        self.rm_id = rm_id
        self.partition = partition
        self.application_id = application_id
        self.refused_serial = refused_serial
        """None if the application was accepted. If it was rejected: items up to this serial are rejected too; later
        ones wait for another application with this id."""
        self.alarm: Alarm | None = None


class EarlyItems:
    """All early items of an RM. They are found by application, and by the key of an ask."""

    __slots__ = ("_by_application", "_by_key", "_count", "backlogs", "last_serial")

    def __init__(self) -> None:
        self.backlogs: dict[tuple[str, str], Backlog] = {}
        """By partition and application."""
        self.last_serial = 0
        self._by_application: dict[tuple[str, str], dict[EarlyItem, None]] = {}
        self._by_key: dict[tuple[str, str], dict[EarlyItem, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[EarlyItem]:
        for waiting in self._by_application.values():
            yield from waiting

    def add(self, held: EarlyItem) -> None:
        self._by_application.setdefault((held.partition, held.application_id), {})[held] = None
        self._count += 1
        held.serial = self.last_serial = self.last_serial + 1
        if isinstance(held.item, NewAsk):
            self._by_key.setdefault((held.partition, held.item.allocation_key), {})[held] = None

    def remove(self, held: EarlyItem) -> None:
        _leave(self._by_application, (held.partition, held.application_id), held)
        self._count -= 1
        if isinstance(held.item, NewAsk):
            _leave(self._by_key, (held.partition, held.item.allocation_key), held)

    def waiting_for(self, partition: str, application_id: str, count: int | None = None) -> list[EarlyItem]:
        """The items in order of arrival, at most `count`; None for all."""
        return list(islice(self._by_application.get((partition, application_id), ()), count))

    def has_backlog(self, partition: str, application_id: str) -> bool:
        """Whether the application was accepted and has a backlog, so that new items for it must wait behind that."""
        backlog = self.backlogs.get((partition, application_id))
        return backlog is not None and backlog.refused_serial is None

    def asks_of(self, partition: str, allocation_key: str) -> list[EarlyItem]:
        """Asks with this key, of any application, in order of arrival."""
        return list(self._by_key.get((partition, allocation_key), ()))

    def dismantle(self) -> Iterator[None]:
        for waiting in self._by_application.values():
            yield from clear_stepwise(waiting)
        for waiting in self._by_key.values():
            yield from clear_stepwise(waiting)
        yield from clear_stepwise(self._by_application, self._by_key)


def _leave(index: dict[tuple[str, str], dict[EarlyItem, None]], key: tuple[str, str], held: EarlyItem) -> None:
    waiting = index[key]
    del waiting[held]
    if not waiting:
        del index[key]
