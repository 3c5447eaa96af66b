"""Notices that a queue file or a certificate has changed, by reading the files again and again and comparing contents.

Polling, and the contents and not a notification or a time stamp, because it is right wherever a file may come from.
Kubernetes swaps a mounted ConfigMap by renaming the symbolic link `..data` above it, so that no event ever happens at
the path that is watched, and the time stamps are those of another file; network and overlay file systems send no events
for what others write, and some keep time stamps too coarse to tell two writes apart. Such a file is at most a megabyte,
so reading a handful of them every few seconds in a thread costs next to nothing.

A change counts once two looks in a row have seen the same, so that a file is not taken while it is being written.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from schedulerd.config import FileUnusable, read_file
from schedulerd.daemon.workers import Busy, TooSlow, Workers

LOOK_SECONDS_MAX = 10.0
"""How long a look at all files may take."""

Contents: TypeAlias = tuple[tuple[str, str], ...]
"""Path and digest of each file; instead of a digest the error, if it cannot be read."""


def contents(paths: Iterable[Path]) -> Contents:
    """What is at these paths now, symbolic links followed."""
    return tuple((str(path), _digest(path)) for path in paths)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except FileUnusable as error:
        return str(error)


class Settling:
    """Tells a change that has come to rest from one that is under way."""

    def __init__(self, now: Contents) -> None:
        self._told = self._last = now

    def look(self, seen: Contents) -> bool:
        """True if this differs from what was told last, and is the same as at the look before."""
        has_settled = seen == self._last and seen != self._told
        self._last = seen
        if has_settled:
            self._told = seen
        return has_settled


class FileWatch:
    """Looks at the files that `paths` gives, every `poll_s` seconds. What they hold at construction is
    known."""

    def __init__(self, paths: Callable[[], Iterable[Path]], poll_s: float) -> None:
        self._paths = paths
        self._poll_s = poll_s
        self._settling = Settling(self._contents())
        self._workers = Workers("looks at files", threads=1, waiting_max=0, seconds_max=LOOK_SECONDS_MAX)

    async def run(self, changed: Callable[[], None]) -> None:
        """Calls `changed` each time something has changed and come to rest, for ever."""
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                seen = await self._workers.run(self._contents)
            except (
                Busy,
                TooSlow,
                OSError,
            ):  # the disk does not answer, or not well; the next look is made when it does
                continue
            if self._settling.look(seen):
                changed()

    def _contents(self) -> Contents:
        return contents(self._paths())
