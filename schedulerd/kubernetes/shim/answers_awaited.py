"""Waits until the daemon has answered all items of a report."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

IdT = TypeVar("IdT", bound=Hashable)


class AnswersAwaited(Generic[IdT]):
    def __init__(self) -> None:
        self._ids: set[IdT] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def expect(self, ids: Iterable[IdT]) -> None:
        self._ids.update(ids)
        if self._ids:
            self._is_empty.clear()

    def answered(self, ids: Iterable[IdT]) -> None:
        if self._ids:
            self._ids.difference_update(ids)
            if not self._ids:
                self._is_empty.set()

    async def wait(self) -> None:
        await self._is_empty.wait()
