"""The thread that writes a journal, so that neither a slow disk nor a hash holds the event loop.

Whatever takes time in here lets go of the interpreter's lock: checksums, the hash, and the disk. To take the lock again
costs as much as they do, so the thread rests between blocks, and items that have come meanwhile become the next one.
What waits is bounded: a disk that does not keep up ends the journal and not the process. A journal that has ended is
not begun again, as one that starts in the middle cannot be played.
"""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Generic, Self, TypeVar

from schedulerd.journal_files.digest import DIGEST_ENTRIES, Proof
from schedulerd.journal_files.files import JournalFiles, JournalFull, begin_files
from schedulerd.journal_files.kind import Header, Kind

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
    """Of the items that the thread is given, in a unit of which `JournalWriter.size` counts."""

    unit: str
    waiting_max: int
    block_max: int
    """Items are added to a block until they are so large."""


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: str
    is_orderly: bool


class JournalWriter(ABC, Generic[T]):
    """Writes what is put, until it is stopped or fails, and tells `on_end` from its thread.

    `put`, `stop`, `join` and `close` are for one other thread, and never wait, but for the last two.
    """

    kind: ClassVar[Kind]

    def __init__(self, files: JournalFiles, on_end: Callable[[RecordingEnd], None]) -> None:
        """Starts the thread, so the state of a subclass has to be there before."""
        self.directory = files.directory
        """Of this journal."""
        self._files = files
        self._on_end = on_end
        self._bounds = self.bounds()
        self._proof = Proof()
        self._failed = 0
        """Items without a result."""
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

    @classmethod
    def begin(
        cls,
        parent: Path,
        header: Header,
        wall_ns: int,
        on_end: Callable[[RecordingEnd], None],
        *,
        file_max_bytes: int,
        max_bytes: int,
    ) -> Self:
        """A new journal in a directory of its own below `parent`, begun at that time since the Unix epoch.

        `on_end` is called from another thread. Raises `OSError`.
        """
        files = begin_files(parent, cls.kind, header, wall_ns, file_max_bytes=file_max_bytes, max_bytes=max_bytes)
        return cls(files, on_end)

    @abstractmethod
    def bounds(self) -> Bounds:
        """Of what waits, and of blocks."""

    @abstractmethod
    def size(self, item: T) -> int:
        """Of an item while it waits."""

    # These are called by the thread.

    @abstractmethod
    def line(self, item: T) -> bytes:
        """The entry as a line of JSON."""

    @abstractmethod
    def result(self, item: T) -> bytes | None:
        """What came of the entry, with its end; None if it failed."""

    def end_values(self, entries: int) -> dict[str, Any]:
        """What the end mark has besides the reason, in a journal with so many entries."""
        return {}

    def pack(self, text: bytes) -> bytes:
        """The lines of a block as they are in the file."""
        return text

    def pack_end(self, text: bytes) -> bytes:
        """The lines of the last block, which are read even if a block before it could not be written."""
        return text

    def content(self, items: Sequence[T]) -> bytes:
        """Of a block with these items."""
        lines: list[bytes] = []
        results: list[bytes] = []
        for item in items:
            lines.append(self.line(item))
            result = self.result(item)
            if result is None:
                self._failed += 1
                continue
            results.append(result)
            if (self._proof.entries + len(results)) % DIGEST_ENTRIES == 0:
                self._proof.add(*results)
                results.clear()
                lines.append(self._digest_line())
        self._proof.add(*results)
        return self.pack(b"\n".join(lines))

    def end_content(self, reason: str, entries: int) -> bytes:
        """Of the last block, in a journal that has so many entries."""
        lines = [json.dumps({"end": reason, **self.end_values(entries)}).encode("ascii")]
        # The digest covers what could not be written as well, and proves nothing then.
        proved = self._proof.entries + (self._failed if self.kind.has_digest_after_failure else 0)
        if proved == entries and self._proof.entries % DIGEST_ENTRIES:
            lines.insert(0, self._digest_line())
        return self.pack_end(b"\n".join(lines))

    def _digest_line(self) -> bytes:
        digest = self._proof.digest()
        return json.dumps({"digest": digest.hexdigest, self.kind.proved: digest.entries}).encode("ascii")

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

    def close(self, reason: str) -> bool:
        """Ends the journal in order; waits for the disk, but not for ever: False if it did not end in time."""
        if self.is_open:
            self.stop(reason, is_orderly=True)
        return self.join()

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
