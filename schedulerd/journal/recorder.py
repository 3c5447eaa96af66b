"""Records each step for the owner of the scheduler: makes the text, and gives it to the writer thread.

The text is made at once and in the owner's thread, because facts share mappings with state that the next step changes.
Whatever fails here ends the journal, and the daemon continues.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.instant import Instant
from schedulerd.journal.encode import entry_text, facts_bytes
from schedulerd.journal.header import KIND
from schedulerd.journal_files.writer import Bounds, JournalWriter

WAITING_BYTES_MAX = 64 * 1024 * 1024
"""How much may wait to be written: half a million asks and more."""

BLOCK_BYTES = 1024 * 1024
"""Steps are added to a block until their texts are so long."""

STEP_BYTES = 200
"""Memory of a step besides its texts, in bytes."""

_UNWRITABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)

Step: TypeAlias = tuple[bytes, bytes | None]
"""A command and the facts that it caused; None if the scheduler raised."""


class JournalRecorder(JournalWriter[Step]):
    """Records every step from the first one on: `command` before it, `facts` after it."""

    kind = KIND
    _entry: bytes | None = None

    def bounds(self) -> Bounds:
        return Bounds("bytes", WAITING_BYTES_MAX, BLOCK_BYTES)

    def size(self, item: Step) -> int:
        entry, facts = item
        return STEP_BYTES + len(entry) + (0 if facts is None else len(facts))

    def line(self, item: Step) -> bytes:
        return item[0]

    def result(self, item: Step) -> bytes | None:
        return item[1]

    def end_values(self, entries: int) -> dict[str, Any]:
        return {"commands": entries}

    def command(self, now: Instant, command: Command) -> None:
        """The step that is to come, and its time."""
        if self.is_open:
            try:
                self._entry = entry_text(now, command).encode("ascii")
            except _UNWRITABLE as error:
                self._give_up(command, error)

    def facts(self, facts: Sequence[Fact]) -> None:
        """Records the facts of the step."""
        if self._entry is not None:
            try:
                self.put((self._entry, facts_bytes(facts)))
            except _UNWRITABLE as error:
                self._give_up(facts, error)
            self._entry = None

    def close(self, reason: str) -> bool:
        """A step that was begun and has no facts, as the scheduler raised, is the last one."""
        if self._entry is not None:
            self.put((self._entry, None))
        return super().close(reason)

    def _give_up(self, what: object, error: Exception) -> None:
        reason = f"a {type(what).__name__} cannot be written down: {type(error).__name__}: {error}"
        self.stop(reason, is_orderly=False)
