"""The texts of steps as blocks of a journal, with the digest of the facts after every so many of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from schedulerd.journal.digest import DIGEST_COMMANDS, FactsDigest
from schedulerd.journal.header import Header
from schedulerd.journal_files.files import JournalFiles
from schedulerd.journal_files.writer import Bounds, QueuedWriter, RecordingEnd

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""How much may wait to be written: half a million asks and more."""

BLOCK_BYTES = 1024 * 1024
"""Steps are added to a block until their texts are so long."""

_STEP_BYTES = 200
"""Memory of a step besides its texts, in bytes."""

Step: TypeAlias = tuple[str, str | None]
"""Texts of a command and of the facts that it caused; None if the scheduler raised."""


class JournalWriter(QueuedWriter[Step]):
    def __init__(self, files: JournalFiles[Header], on_end: Callable[[RecordingEnd], None]) -> None:
        self._digest = FactsDigest()
        self._proved = 0
        """Commands whose facts are in the digest."""
        super().__init__(files, on_end, Bounds("bytes", WAITING_BYTES_MAX, BLOCK_BYTES))

    def size(self, item: Step) -> int:
        return size(item)

    def content(self, items: Sequence[Step]) -> bytes:
        lines: list[str] = []
        said: list[str] = []
        for entry, facts in items:
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
        return "\n".join(lines).encode("ascii")

    def end_content(self, reason: str, entries: int) -> bytes:
        # The digest covers what could not be written as well, and proves nothing then.
        lines = [json.dumps({"end": reason, "commands": entries})]
        if self._proved == entries and self._proved % DIGEST_COMMANDS:
            lines.insert(0, self._digest_line())
        return "\n".join(lines).encode("ascii")

    def _digest_line(self) -> str:
        return json.dumps({"digest": self._digest.hexdigest(), "commands": self._proved})


def size(step: Step) -> int:
    """Bytes of memory that a step takes."""
    entry, facts = step
    return _STEP_BYTES + len(entry) + (0 if facts is None else len(facts))
