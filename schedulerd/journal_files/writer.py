"""The thread that writes a journal, so that neither a slow disk nor a hash holds the event loop.

Whatever takes time in here lets go of the interpreter's lock: checksums, the hash, and the disk. To take the lock again
costs as much as they do, so the thread rests between blocks, and items that have come meanwhile become the next one.
What waits is bounded: a disk that does not keep up ends the journal and not the process. A journal that has ended is
not begun again, as one that starts in the middle cannot be played.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from schedulerd.journal_files.files import JournalFiles, JournalFull

REST_SECONDS = 0.1
"""Pause between blocks, unless more than a block waits. A process that is killed may lose this much of the end."""

LOOK_SECONDS = 1.0
"""Interval of the check that the file still exists while there is nothing to write."""

CLOSE_SECONDS = 5.0
"""How long an orderly end may take."""

CONSEQUENCE = "scheduling goes on without a journal; the next one begins with the next start"
"""What the log says of a journal that has ended too early, or was not begun."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordingEnd:
    """How writing a journal ended."""

    reason: str
    is_orderly: bool
    entries: int
    """That can be read."""
    bytes: int
    mark_error: str = ""
    """Why there is no end mark; '' if there is one."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the items that the thread is given, in a unit of which `QueuedWriter.size` counts."""

    unit: str
    waiting_max: int
    block_max: int
    """Items are added to a block until they are so large."""


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: str
    is_orderly: bool


class QueuedWriter(ABC, Generic[T]):
    """Writes what is put, until it is stopped or fails, and tells `on_end` from its thread.

    `put`, `stop` and `join` are for one other thread, and never wait, but for `join`.
    """

    def __init__(self, files: JournalFiles[Any], on_end: Callable[[RecordingEnd], None], bounds: Bounds) -> None:
        """Starts the thread, so the state of a subclass has to be there before."""
        self._files = files
        self._on_end = on_end
        self._bounds = bounds
        self._queue: SimpleQueue[T | _Stop] = SimpleQueue()
        # Each of the two is changed by one thread only.
        self._put_size = 0
        self._taken_size = 0
        self._stopped = threading.Event()
        self.ending: RecordingEnd | None = None
        """Set once, by the thread."""
        self.is_open = True
        """Whether it takes more; read and set by both threads, and never set again once it is False."""
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    @abstractmethod
    def size(self, item: T) -> int:
        """Of an item while it waits."""

    @abstractmethod
    def content(self, items: Sequence[T]) -> bytes:
        """Of a block with these items. Called by the thread."""

    @abstractmethod
    def end_content(self, reason: str, entries: int) -> bytes:
        """Of the end mark, in a journal that has so many entries. Called by the thread."""

    @property
    def state(self) -> str:
        """Whether it records, and why not, for the operator."""
        if self.is_open:
            return "recording"
        return f"not recording: {'it is ending' if self.ending is None else self.ending.reason}"

    @property
    def waiting(self) -> int:
        """Size of what was put and is not written yet."""
        return self._put_size - self._taken_size if self._thread.is_alive() else 0

    @property
    def written_bytes(self) -> int:
        return self._files.bytes

    @property
    def written_entries(self) -> int:
        return self._files.entries

    def put(self, item: T) -> None:
        """Takes over one item. Beyond the bound this is the last one."""
        if not self.is_open:
            return
        self._put_size += self.size(item)
        self._queue.put(item)
        if self.waiting > self._bounds.waiting_max:
            waited = f"more than {self._bounds.waiting_max} {self._bounds.unit} waited to be written"
            self.stop(f"the disk is too slow for it: {waited}", is_orderly=False)

    def stop(self, reason: str, *, is_orderly: bool) -> None:
        """Accepts no more; waiting data and then the end mark are still written."""
        self.is_open = False
        self._queue.put(_Stop(reason, is_orderly))
        self._stopped.set()

    def join(self) -> bool:
        """Waits until all is written; False if that takes longer than it may."""
        self._thread.join(CLOSE_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.ending = self._end(self._write_until_stopped())
            self._on_end(self.ending)
        finally:
            self.is_open = False  # also after a bug, so that nothing piles up

    def _write_until_stopped(self) -> _Stop:
        try:
            return self._write_all()
        except JournalFull as full:
            return _Stop(str(full), is_orderly=False)
        except OSError as error:
            return _Stop(f"it cannot be written: {error}", is_orderly=False)
        except Exception as error:  # noqa: BLE001 - a bug ends the journal, which has to be told like any other end
            return _Stop(f"it cannot be written: {type(error).__name__}: {error}", is_orderly=False)

    def _write_all(self) -> _Stop:
        """Raises `JournalFull` or `OSError`, also if the file is gone."""
        while True:
            items: list[T] = []
            size = 0
            while size < self._bounds.block_max:
                item = self._next()
                if isinstance(item, _Stop):
                    self._write(items)
                    return item
                items.append(item)
                size += self.size(item)
                if self._queue.empty():
                    break
            self._write(items)
            self._taken_size += size
            if self.waiting < self._bounds.block_max:
                self._stopped.wait(REST_SECONDS)

    def _next(self) -> T | _Stop:
        while True:
            try:
                return self._queue.get(timeout=LOOK_SECONDS)
            except Empty:
                self._files.check()

    def _write(self, items: Sequence[T]) -> None:
        if items:
            self._files.append(self.content(items), len(items))

    def _end(self, stop: _Stop) -> RecordingEnd:
        self.is_open = False
        while not self._queue.empty():
            self._queue.get()
        files, error = self._files, ""
        try:
            files.end(self.end_content(stop.reason, files.entries))
        except OSError as failure:
            error = str(failure)
        return RecordingEnd(stop.reason, stop.is_orderly, files.entries, files.bytes, error)
