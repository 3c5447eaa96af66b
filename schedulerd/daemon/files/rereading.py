"""The base class of what is read from files at the start, and again on SIGHUP or when a file has changed."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod

READ_SECONDS_MAX = 10.0
"""How long reading the TLS files, or the file of HTTP tokens, may take."""


class Reread(ABC):
    """Reads files again when requested, one reload after the other."""

    def __init__(self) -> None:
        self._told = asyncio.Event()

    def request(self) -> None:
        """Makes `run` reload soon: once, however often this is called before that reload begins."""
        self._told.set()

    @property
    def is_requested(self) -> bool:
        """Whether a requested reload has not begun yet."""
        return self._told.is_set()

    async def run(self) -> None:
        """Reloads each time it is requested, forever."""
        while True:
            await self._told.wait()
            self._told.clear()
            await self.reload()

    async def _until_requested(self, seconds: float) -> None:
        """Returns when a reload is requested, which counts as begun then, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told.wait()
        self._told.clear()

    @abstractmethod
    async def reload(self) -> None:
        """Reads the files again. If they cannot be used, the reason is logged and nothing changes."""
