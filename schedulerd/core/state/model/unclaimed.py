"""Unclaimed allocations: existing allocations of applications that are not known.

They use room of their nodes, and count in no queue and for no user. No rule of scheduling sees them: they are no
victims, take part in no swap, and ask for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, TypeVar

from schedulerd.core.state.model.dismantle import clear_stepwise
from schedulerd.core.state.model.node import Unclaimed

KeyT = TypeVar("KeyT")


class UnclaimedAllocations:
    """All unclaimed allocations of a partition. They are found by UUID, by application, and by application and key."""

    __slots__ = ("_by_key", "_kept", "_waiting", "by_uuid")

    def __init__(self) -> None:
        self.by_uuid: dict[str, Unclaimed] = {}
        self._by_key: dict[tuple[str, str], dict[Unclaimed, None]] = {}
        self._waiting: dict[str, dict[Unclaimed, None]] = {}
        """By application: those that join it when it is there."""
        self._kept: dict[str, dict[Unclaimed, None]] = {}
        """By application: those that could not join it. They are tried again with the next application of this id."""

    def __len__(self) -> int:
        return len(self.by_uuid)

    def __iter__(self) -> Iterator[Unclaimed]:
        return iter(self.by_uuid.values())

    def add(self, one: Unclaimed) -> None:
        self.by_uuid[one.uuid] = one
        self._by_key.setdefault((one.application_id, one.key), {})[one] = None
        self._waiting.setdefault(one.application_id, {})[one] = None

    def remove(self, one: Unclaimed) -> None:
        del self.by_uuid[one.uuid]
        _leave(self._by_key, (one.application_id, one.key), one)
        _leave(self._kept if one.mistake else self._waiting, one.application_id, one)

    def keep(self, one: Unclaimed, mistake: str) -> None:
        """It cannot join the application that is there: it is not tried again before another one of this id comes."""
        _leave(self._waiting, one.application_id, one)
        one.mistake = mistake
        self._kept.setdefault(one.application_id, {})[one] = None

    def application_comes(self, application_id: str) -> None:
        """An application of this id was added: all of its unclaimed allocations are to join it."""
        kept = self._kept.pop(application_id, None)
        if kept:
            for one in kept:
                one.mistake = ""
            self._waiting.setdefault(application_id, {}).update(kept)

    def joining(self, application_id: str, count: int) -> list[Unclaimed]:
        """The first `count` that are to join the application."""
        return list(islice(self._waiting.get(application_id, ()), count))

    def of_key(self, application_id: str, allocation_key: str) -> list[Unclaimed]:
        return list(self._by_key.get((application_id, allocation_key), ()))

    def of_application(self, application_id: str) -> list[Unclaimed]:
        return list(chain(self._waiting.get(application_id, ()), self._kept.get(application_id, ())))

    def dismantle(self) -> Iterator[None]:
        indexes: tuple[dict[Any, dict[Unclaimed, None]], ...] = (self._waiting, self._kept, self._by_key)
        for index in indexes:
            for found in index.values():
                yield from clear_stepwise(found)
            yield from clear_stepwise(index)
        yield from clear_stepwise(self.by_uuid)


def _leave(index: dict[KeyT, dict[Unclaimed, None]], key: KeyT, one: Unclaimed) -> None:
    found = index[key]
    del found[one]
    if not found:
        del index[key]
