"""Records what a cluster is told and what came of it: JSON, compression and a slow disk are not the work of the loop.

Events and effects are never changed, so the thread that writes may read them.
"""

from __future__ import annotations

from collections.abc import Callable

from schedulerd.journal_files.files import JournalFiles
from schedulerd.journal_files.writer import Bounds, JournalWriter, RecordingEnd
from schedulerd.kubernetes.journal.codec import Entry, Step, result_text, to_text
from schedulerd.kubernetes.journal.compression import Deflater
from schedulerd.kubernetes.journal.header import KIND

WAITING_EVENTS_MAX = 500_000
"""Events and effects that may wait to be written: a list of the largest cluster is one step."""
BLOCK_EVENTS = 1_000
"""Steps are added to a block until they have so many events and effects."""


class EventRecorder(JournalWriter[Entry]):
    """Writes a journal of the shim."""

    kind = KIND

    def __init__(self, files: JournalFiles, on_end: Callable[[RecordingEnd], None]) -> None:
        self._deflater = Deflater()
        super().__init__(files, on_end)

    def bounds(self) -> Bounds:
        return Bounds("events", WAITING_EVENTS_MAX, BLOCK_EVENTS)

    def size(self, item: Entry) -> int:
        return 1 + (len(item.events) + len(item.effects or ()) if isinstance(item, Step) else 0)

    def line(self, item: Entry) -> bytes:
        return to_text(item)

    def result(self, item: Entry) -> bytes | None:
        return None if isinstance(item, Step) and item.effects is None else result_text(item)

    def pack(self, text: bytes) -> bytes:
        return self._deflater.compress(text)

    def pack_end(self, text: bytes) -> bytes:
        return self._deflater.compress_alone(text)
