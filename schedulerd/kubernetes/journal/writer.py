"""The thread that writes the journal: neither JSON, nor compression, nor a slow disk is the loop's work.

Events and effects are never changed, so another thread may read them. What waits is bounded, and so is the file: a
journal that cannot go on ends, and the shim does not. It is not begun again, as one that starts in the middle cannot be
played.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
import threading
import time
import zlib
from collections.abc import Callable
from io import BufferedWriter, FileIO
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from schedulerd import __version__
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal.codec import DIGEST_STEPS, FORMAT, EffectsDigest, Entry, Step, to_text

WAITING_EVENTS_MAX = 500_000
"""Events and effects that may wait to be written: a list of the largest cluster is one step."""
REST_SECONDS = 0.1
"""Pause after which what was written can be read. A shim that is killed may lose this much of the end."""
CLOSE_SECONDS = 5.0
"""How long an orderly end may take."""
_LEVEL = 1
"""Of compression: the fastest."""


class JournalWriter:
    """`put` and `close` are for one other thread. `on_end` is told once, by the journal's own thread, why it ends, and
    whether that is as it should be."""

    def __init__(
        self, directory: Path, settings: ClusterSettings, max_bytes: int, on_end: Callable[[str, bool], None]
    ) -> None:
        """Begins a file in the directory. Raises `OSError`."""
        started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.path = directory / f"{started}-{secrets.token_hex(4)}.jsonl.gz"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._raw = BufferedWriter(FileIO(os.open(self.path, flags, 0o600), "wb"))
        self._file = gzip.GzipFile("", "wb", _LEVEL, self._raw, mtime=0)
        self._max_bytes = max_bytes
        self._on_end = on_end
        self._queue: SimpleQueue[Entry | None] = SimpleQueue()
        self._digest = EffectsDigest()
        # Each of the two is changed by one thread only.
        self._put = self._taken = 0
        self.is_open = True
        header = {"format": FORMAT, "schedulerd": __version__, "settings": msgspec.to_builtins(settings)}
        self._line(msgspec.json.encode(header, order="deterministic"))
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Never waits."""
        if self.is_open:
            self._put += _size(entry)
            self._queue.put(entry)
            self.is_open = self._put - self._taken <= WAITING_EVENTS_MAX

    def close(self) -> bool:
        """Waits until all is written; False if that takes longer than it may."""
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        is_orderly = False
        try:
            reason, is_orderly = self._write_all()
        except Exception as error:  # noqa: BLE001 - whatever it is, the shim goes on
            reason = f"it cannot be written: {error}"
        self.is_open = False
        try:
            self._end(reason)
        except OSError as error:
            reason += f"; no end mark: {error}"
        self._on_end(reason, is_orderly)

    def _write_all(self) -> tuple[str, bool]:
        """Why it ends, and whether that is orderly."""
        is_flushed = True
        while True:
            try:
                entry = self._queue.get(timeout=None if is_flushed else REST_SECONDS)
            except Empty:
                self._flush()
                is_flushed = True
                continue
            if entry is None:
                return "the shim has ended", True
            self._write(entry)
            is_flushed = False
            if self._raw.tell() > self._max_bytes:
                return "it has reached the size that was set for it", False
            if not self.is_open and self._queue.empty():
                return f"the disk is too slow: more than {WAITING_EVENTS_MAX} events waited to be written", False

    def _write(self, entry: Entry) -> None:
        self._line(to_text(entry))
        self._taken += _size(entry)
        if isinstance(entry, Step) and entry.effects is None:
            return
        self._digest.add(entry)
        if self._digest.steps % DIGEST_STEPS == 0:
            self._line(self._digest_text())

    def _end(self, reason: str) -> None:
        with self._raw, self._file:
            self._line(self._digest_text())
            self._line(json.dumps({"end": reason}).encode())
            self._file.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())

    def _digest_text(self) -> bytes:
        return json.dumps({"digest": self._digest.text(), "steps": self._digest.steps}).encode()

    def _line(self, text: bytes) -> None:
        self._file.write(text + b"\n")

    def _flush(self) -> None:
        self._file.flush(zlib.Z_SYNC_FLUSH)
        self._raw.flush()


def _size(entry: Entry) -> int:
    return 1 + (len(entry.events) + len(entry.effects or ()) if isinstance(entry, Step) else 0)
