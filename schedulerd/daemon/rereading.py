"""The base of what is read from files at the start and read again later: on SIGHUP, or because a file has changed."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod


class Reread(ABC):
    """Reads again each time that is requested, one time after the other."""

    def __init__(self) -> None:
        self._told = asyncio.Event()

    def request(self) -> None:
        """Lets `run` reload soon; once, however often this is called before it begins."""
        self._told.set()

    @property
    def is_requested(self) -> bool:
        """Whether a reload was requested that has not begun."""
        return self._told.is_set()

    async def run(self) -> None:
        """Reloads each time it is requested, for ever."""
        while True:
            await self._told.wait()
            self._told.clear()
            await self.reload()

    @abstractmethod
    async def reload(self) -> None:
        """Reads again, and keeps what there is if that cannot be used; the log says which."""
