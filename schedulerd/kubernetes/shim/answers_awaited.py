"""Waits until the daemon has answered all items of a report."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class AnswersAwaited:
    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def expect(self, ids: Iterable[str]) -> None:
        self._ids.update(ids)
        if self._ids:
            self._is_empty.clear()

    def answered(self, ids: Iterable[str]) -> None:
        if self._ids:
            self._ids.difference_update(ids)
            if not self._ids:
                self._is_empty.set()

    async def wait(self) -> None:
        await self._is_empty.wait()
