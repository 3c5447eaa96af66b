"""The thread that writes the journal: neither JSON, nor compression, nor a slow disk is the loop's work.

Events and effects are never changed, so another thread may read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from schedulerd.ids import random_seed, uuid_source
from schedulerd.instant import read_clocks
from schedulerd.journal_files.files import JournalFiles, begin_files
from schedulerd.journal_files.writer import Bounds, QueuedWriter, RecordingEnd
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.journal.codec import DIGEST_STEPS, EffectsDigest, Entry, Step, to_text
from schedulerd.kubernetes.journal.compression import Deflater
from schedulerd.kubernetes.journal.header import Header

WAITING_EVENTS_MAX = 500_000
"""Events and effects that may wait to be written: a list of the largest cluster is one step."""
BLOCK_EVENTS = 1_000
"""Steps are added to a block until they have so many events and effects."""


class JournalWriter(QueuedWriter[Entry]):
    """`put` and `close` are for one other thread."""

    def __init__(self, directory: Path, files: JournalFiles[Header], on_end: Callable[[RecordingEnd], None]) -> None:
        self.directory = directory
        """Of this journal."""
        self._digest = EffectsDigest()
        self._raised = 0
        """Steps that raised; their effects are in no digest."""
        self._deflater = Deflater()
        super().__init__(files, on_end, Bounds("events", WAITING_EVENTS_MAX, BLOCK_EVENTS))

    @classmethod
    def begin(
        cls,
        parent: Path,
        settings: ClusterSettings,
        on_end: Callable[[RecordingEnd], None],
        *,
        file_max_bytes: int,
        max_bytes: int,
    ) -> Self:
        """A new journal in a directory of its own below `parent`; `on_end` is called from another thread.

        Raises `OSError`.
        """
        header = Header(settings, instance=uuid_source(random_seed())())
        wall_ns = read_clocks().wall_ns
        directory, files = begin_files(
            parent, header, wall_ns, header.instance, file_max_bytes=file_max_bytes, max_bytes=max_bytes
        )
        return cls(directory, files, on_end)

    def close(self, reason: str) -> bool:
        """Waits until all is written; False if that takes longer than it may."""
        if self.is_open:
            self.stop(reason, is_orderly=True)
        return self.join()

    def size(self, item: Entry) -> int:
        return 1 + (len(item.events) + len(item.effects or ()) if isinstance(item, Step) else 0)

    def content(self, items: Sequence[Entry]) -> bytes:
        lines: list[bytes] = []
        for entry in items:
            lines.append(to_text(entry))
            if isinstance(entry, Step) and entry.effects is None:
                self._raised += 1
                continue
            self._digest.add(entry)
            if self._digest.steps % DIGEST_STEPS == 0:
                lines.append(self._digest_line())
        return self._deflater.compress(b"\n".join(lines))

    def end_content(self, reason: str, entries: int) -> bytes:
        lines = [json.dumps({"end": reason}).encode()]
        # The digest covers what could not be written as well, and proves nothing then.
        if self._digest.steps + self._raised == entries and self._digest.steps % DIGEST_STEPS:
            lines.insert(0, self._digest_line())
        return self._deflater.compress_alone(b"\n".join(lines))

    def _digest_line(self) -> bytes:
        return json.dumps({"digest": self._digest.text(), "steps": self._digest.steps}).encode()
