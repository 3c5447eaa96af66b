"""The thread that writes a journal, so that neither a slow disk nor a hash holds the event loop.

Whatever takes time in here lets go of the interpreter's lock: checksums, the hash, and the disk. To take the lock again
costs as much as they do, so the thread rests between blocks, and steps that have come meanwhile become the next one.
What waits is bounded: a disk that does not keep up ends the journal and not the daemon. A journal that has ended is not
begun again, as one that starts in the middle cannot be played.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeAlias

from schedulerd.journal.digest import DIGEST_COMMANDS, FactsDigest
from schedulerd.journal.files import JournalFiles, JournalFull

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""How much may wait to be written: half a million asks and more."""

BLOCK_BYTES = 1024 * 1024
"""Steps are added to a block until their texts are so long."""

REST_SECONDS = 0.1
"""Pause between blocks, unless more than a block waits. A daemon that is killed may lose this much of the end."""

LOOK_SECONDS = 1.0
"""Interval of the check that the file still exists while there is nothing to write."""

CLOSE_SECONDS = 5.0
"""How long an orderly end may take."""

_STEP_BYTES = 200
"""Memory of a step besides its texts, in bytes."""


@dataclass(frozen=True, slots=True)
class RecordingEnd:
    """How writing a journal ended."""

    reason: str
    is_orderly: bool
    commands: int
    """That can be read."""
    bytes: int
    mark_error: str = ""
    """Why there is no end mark; '' if there is one."""


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: str
    is_orderly: bool


_Step: TypeAlias = tuple[str, str | None]
"""Texts of a command and of the facts that it caused; None if the scheduler raised."""


class JournalWriter:
    """Writes what is put, until it is stopped or fails, and tells `on_end` from its thread.

    `put`, `stop` and `join` are for one other thread, and never wait, but for `join`.
    """

    def __init__(self, files: JournalFiles, on_end: Callable[[RecordingEnd], None]) -> None:
        self._files = files
        self._on_end = on_end
        self._queue: SimpleQueue[_Step | _Stop] = SimpleQueue()
        self._digest = FactsDigest()
        self._proved = 0
        """Commands whose facts are in the digest."""
        # Each of the two is changed by one thread only.
        self._put_bytes = 0
        self._taken_bytes = 0
        self._stopped = threading.Event()
        self.ending: RecordingEnd | None = None
        """Set once, by the thread."""
        self.is_open = True
        """Whether it takes more; read and set by both threads, and never set again once it is False."""
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were put and are not written yet."""
        return self._put_bytes - self._taken_bytes if self._thread.is_alive() else 0

    @property
    def written_bytes(self) -> int:
        return self._files.bytes

    def put(self, entry: str, facts: str | None) -> None:
        """Takes over one step. Beyond the bound this is the last one."""
        if not self.is_open:
            return
        self._put_bytes += _size(entry, facts)
        self._queue.put((entry, facts))
        if self.waiting_bytes > WAITING_BYTES_MAX:
            reason = f"the disk is too slow for it: more than {WAITING_BYTES_MAX} bytes waited to be written"
            self.stop(reason, is_orderly=False)

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
        except JournalFull:
            return _Stop("it has reached the size that was set for it", is_orderly=False)
        except OSError as error:
            return _Stop(f"it cannot be written: {error}", is_orderly=False)

    def _write_all(self) -> _Stop:
        """Raises `JournalFull` or `OSError`, also if the file is gone."""
        while True:
            steps: list[_Step] = []
            size = 0
            while size < BLOCK_BYTES:
                item = self._next()
                if isinstance(item, _Stop):
                    self._write(steps)
                    return item
                steps.append(item)
                size += _size(*item)
                if self._queue.empty():
                    break
            self._write(steps)
            self._taken_bytes += size
            if self.waiting_bytes < BLOCK_BYTES:
                self._stopped.wait(REST_SECONDS)

    def _next(self) -> _Step | _Stop:
        while True:
            try:
                return self._queue.get(timeout=LOOK_SECONDS)
            except Empty:
                self._files.check()

    def _write(self, steps: list[_Step]) -> None:
        if not steps:
            return
        lines: list[str] = []
        said: list[str] = []
        for entry, facts in steps:
            lines.append(entry)
            if facts is None:
                continue
            said.append(facts)
            self._proved += 1
            if self._proved % DIGEST_COMMANDS == 0:
                self._digest.update_texts(said)
                said.clear()
                lines.append(self._digest_line())
        self._digest.update_texts(said)
        self._files.append("\n".join(lines).encode("ascii"), len(steps))

    def _end(self, stop: _Stop) -> RecordingEnd:
        self.is_open = False
        while not self._queue.empty():
            self._queue.get()
        # The digest covers what could not be written as well, and proves nothing then.
        lines = [json.dumps({"end": stop.reason, "commands": self._files.commands})]
        if self._proved == self._files.commands and self._proved % DIGEST_COMMANDS:
            lines.insert(0, self._digest_line())
        error = ""
        try:
            self._files.end("\n".join(lines).encode("ascii"))
        except OSError as failure:
            error = str(failure)
        return RecordingEnd(stop.reason, stop.is_orderly, self._files.commands, self._files.bytes, error)

    def _digest_line(self) -> str:
        return json.dumps({"digest": self._digest.hexdigest(), "commands": self._proved})


def _size(entry: str, facts: str | None) -> int:
    return _STEP_BYTES + len(entry) + (0 if facts is None else len(facts))
