"""Early items of one RM: they arrived before the application that they refer to, and wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from schedulerd.core.alarms import Alarm
from schedulerd.core.commands import AllocationRelease, NewAsk, NodeUpdate
from schedulerd.core.model.dismantle import clear_stepwise

Item: TypeAlias = NewAsk | NodeUpdate | AllocationRelease


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
    """Early items that are left after their application arrived. Later steps handle them."""

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
    """All early items of an RM. They are found by application, by the key of an ask, by node, and by existing
    allocation."""

    __slots__ = ("_by_application", "_by_key", "_by_node", "_by_uuid", "_count", "backlogs", "last_serial")

    def __init__(self) -> None:
        self.backlogs: dict[tuple[str, str], Backlog] = {}
        """By partition and application."""
        self.last_serial = 0
        self._by_application: dict[tuple[str, str], dict[EarlyItem, None]] = {}
        self._by_key: dict[tuple[str, str], dict[EarlyItem, None]] = {}
        self._by_node: dict[tuple[str, str], EarlyItem] = {}
        self._by_uuid: dict[tuple[str, str], EarlyItem] = {}
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
        elif isinstance(held.item, NodeUpdate):
            self._by_node[(held.partition, held.item.node_id)] = held
            for existing in held.item.existing:
                self._by_uuid[(held.partition, existing.uuid)] = held

    def remove(self, held: EarlyItem) -> None:
        _leave(self._by_application, (held.partition, held.application_id), held)
        self._count -= 1
        if isinstance(held.item, NewAsk):
            _leave(self._by_key, (held.partition, held.item.allocation_key), held)
        elif isinstance(held.item, NodeUpdate):
            _forget(self._by_node, (held.partition, held.item.node_id), held)
            for existing in held.item.existing:
                _forget(self._by_uuid, (held.partition, existing.uuid), held)

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

    def of_node(self, partition: str, node_id: str) -> EarlyItem | None:
        """The last early item for this node. New items for the node must wait behind it."""
        return self._by_node.get((partition, node_id))

    def of_allocation(self, partition: str, uuid: str) -> EarlyItem | None:
        """The node registration that contains this existing allocation."""
        return self._by_uuid.get((partition, uuid))

    def dismantle(self) -> Iterator[None]:
        for waiting in self._by_application.values():
            yield from clear_stepwise(waiting)
        for waiting in self._by_key.values():
            yield from clear_stepwise(waiting)
        yield from clear_stepwise(self._by_application, self._by_key, self._by_node, self._by_uuid)


def _leave(index: dict[tuple[str, str], dict[EarlyItem, None]], key: tuple[str, str], held: EarlyItem) -> None:
    waiting = index[key]
    del waiting[held]
    if not waiting:
        del index[key]


def _forget(index: dict[tuple[str, str], EarlyItem], key: tuple[str, str], held: EarlyItem) -> None:
    if index.get(key) is held:
        del index[key]
