"""Items of one resource manager that wait for an application they refer to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from schedulerd.core.alarms import Alarm
from schedulerd.core.commands import AllocationRelease, NewAsk, NodeUpdate
from schedulerd.core.model.apart import emptied

Item: TypeAlias = NewAsk | NodeUpdate | AllocationRelease


class EarlyItem:
    """One such item, what it waits for, and the alarm that ends its wait."""

    __slots__ = ("alarm", "application_id", "item", "partition", "rm_id")

    def __init__(self, rm_id: str, item: Item, partition: str, application_id: str) -> None:
        self.rm_id = rm_id
        self.item = item
        self.partition = partition
        self.application_id = application_id
        self.alarm: Alarm | None = None


class EarlyItems:
    """All of them, found by the application they wait for, by node, and by the allocations that a node comes with."""

    __slots__ = ("_by_application", "_by_node", "_by_uuid", "_count")

    def __init__(self) -> None:
        self._by_application: dict[tuple[str, str], dict[EarlyItem, None]] = {}
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
        if isinstance(held.item, NodeUpdate):
            self._by_node[(held.partition, held.item.node_id)] = held
            for existing in held.item.existing:
                self._by_uuid[(held.partition, existing.uuid)] = held

    def remove(self, held: EarlyItem) -> None:
        waiting = self._by_application[(held.partition, held.application_id)]
        del waiting[held]
        if not waiting:
            del self._by_application[(held.partition, held.application_id)]
        self._count -= 1
        if isinstance(held.item, NodeUpdate):
            _forget(self._by_node, (held.partition, held.item.node_id), held)
            for existing in held.item.existing:
                _forget(self._by_uuid, (held.partition, existing.uuid), held)

    def waiting_for(self, partition: str, application_id: str) -> list[EarlyItem]:
        """In order of arrival."""
        return list(self._by_application.get((partition, application_id), ()))

    def of_node(self, partition: str, node_id: str) -> EarlyItem | None:
        """The last item that waits for this node's sake: what comes for the node now has to wait behind it."""
        return self._by_node.get((partition, node_id))

    def of_allocation(self, partition: str, uuid: str) -> EarlyItem | None:
        """The node registration that brings this existing allocation."""
        return self._by_uuid.get((partition, uuid))

    def take_apart(self) -> Iterator[None]:
        for waiting in self._by_application.values():
            yield from emptied(waiting)
        yield from emptied(self._by_application, self._by_node, self._by_uuid)


def _forget(index: dict[tuple[str, str], EarlyItem], key: tuple[str, str], held: EarlyItem) -> None:
    if index.get(key) is held:
        del index[key]
