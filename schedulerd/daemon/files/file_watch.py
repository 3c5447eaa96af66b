"""Notices changes of files by reading them periodically and comparing their contents.

Polling contents works wherever a file comes from; notifications and time stamps do not. Kubernetes replaces a mounted
ConfigMap by renaming the symbolic link `..data` above it, so there is never an event at the watched path, and the time
stamps are those of another file. Network and overlay file systems send no events for changes that others write, and
some have time stamps too coarse to tell two writes apart. Each file has at most a megabyte, so reading a few of them
every few seconds in a thread costs next to nothing.

A change counts when two checks in a row have seen the same contents, so that a file is not taken while it is written.
That the disk does not answer counts as contents, so that the files are read again then, and named as unreadable.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

from schedulerd.config import FileUnusable, read_file
from schedulerd.daemon.runtime.workers import Busy, TooSlow, Workers

LOOK_SECONDS_MAX = 10.0
"""How long a check of all files may take."""

Contents: TypeAlias = tuple[tuple[str, str], ...]
"""Path and digest of each file; the error instead of the digest, if the file cannot be read."""

NO_ANSWER: Contents = (("", "no answer in time"),)
"""Contents of any files while the disk does not answer, or cannot list them."""


def contents(paths: Iterable[Path]) -> Contents:
    """The present contents of these paths; symbolic links are followed."""
    return tuple((str(path), _digest(path)) for path in paths)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except FileUnusable as error:
        return str(error)


class Settling:
    """Tells a change that is complete from one that is in progress."""

    def __init__(self, now: Contents) -> None:
        self._told = self._last = now

    def look(self, seen: Contents) -> bool:
        """Whether `seen` differs from the contents reported last, and equals those of the previous check."""
        has_settled = seen == self._last and seen != self._told
        self._last = seen
        if has_settled:
            self._told = seen
        return has_settled


class FileWatch:
    """Checks the files that `paths` returns, every `poll_s` seconds. Their contents at construction count as known."""

    def __init__(self, paths: Callable[[], Iterable[Path]], poll_s: float, known: Contents | None = None) -> None:
        """Reads the files now, on the caller's thread, unless their contents are `known`."""
        self._paths = paths
        self._poll_s = poll_s
        self._settling = Settling(contents(paths()) if known is None else known)
        self._workers = _workers()

    @classmethod
    async def begin(cls, paths: Callable[[], Iterable[Path]], poll_s: float) -> FileWatch:
        """A watch of files that the daemon may start without: it also begins if the disk does not answer."""
        return cls(paths, poll_s, await _seen(_workers(), paths))

    async def run(self, changed: Callable[[], None]) -> None:
        """Calls `changed` after each complete change, forever."""
        while True:
            await asyncio.sleep(self._poll_s)
            if self._settling.look(await _seen(self._workers, self._paths)):
                changed()


def _workers() -> Workers:
    return Workers("checks of files", threads=1, waiting_max=0, seconds_max=LOOK_SECONDS_MAX)


async def _seen(workers: Workers, paths: Callable[[], Iterable[Path]]) -> Contents:
    try:
        return await workers.run(lambda: contents(paths()))
    except (Busy, TooSlow, OSError):  # Busy: the check before still waits for the disk
        return NO_ANSWER
