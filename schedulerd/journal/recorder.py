"""Records each step for the owner of the scheduler: makes the text, and gives it to the writer thread.

The text is made at once and in the owner's thread, because facts share mappings with state that the next step changes.
Whatever fails here ends the journal, and the daemon continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.instant import Instant
from schedulerd.journal.encode import entry_text, facts_text
from schedulerd.journal.header import Header
from schedulerd.journal.writer import JournalWriter
from schedulerd.journal_files.files import begin_files
from schedulerd.journal_files.writer import RecordingEnd

_UNWRITABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


class JournalRecorder:
    """Records every step from the first one on: `command` before it, `facts` after it."""

    def __init__(self, directory: Path, writer: JournalWriter) -> None:
        self.directory = directory
        """Of this journal."""
        self._writer = writer
        self._entry: str | None = None

    @classmethod
    def begin(
        cls,
        parent: Path,
        header: Header,
        on_end: Callable[[RecordingEnd], None],
        *,
        file_max_bytes: int,
        max_bytes: int,
    ) -> Self:
        """A new journal in a directory of its own below `parent`; `on_end` is called from another thread.

        Raises `OSError`.
        """
        directory, files = begin_files(
            parent,
            header,
            header.started.wall_ns,
            header.instance,
            file_max_bytes=file_max_bytes,
            max_bytes=max_bytes,
        )
        return cls(directory, JournalWriter(files, on_end))

    @property
    def is_recording(self) -> bool:
        """False once the journal has ended."""
        return self._writer.is_open

    @property
    def state(self) -> str:
        """Whether it records, and why not, for the operator."""
        return self._writer.state

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not written yet."""
        return self._writer.waiting

    @property
    def written_bytes(self) -> int:
        return self._writer.written_bytes

    def command(self, now: Instant, command: Command) -> None:
        """The step that is to come, and its time."""
        if self._writer.is_open:
            try:
                self._entry = entry_text(now, command)
            except _UNWRITABLE as error:
                self._give_up(command, error)

    def facts(self, facts: Sequence[Fact]) -> None:
        """Records the facts of the step."""
        if self._entry is not None:
            try:
                self._writer.put((self._entry, facts_text(facts)))
            except _UNWRITABLE as error:
                self._give_up(facts, error)
            self._entry = None

    def close(self, reason: str) -> bool:
        """Ends the journal in order; waits for the disk, but not for ever: False if it did not end in time.

        A step that was begun and has no facts, as the scheduler raised, is the last one.
        """
        if self._entry is not None:
            self._writer.put((self._entry, None))
        if self._writer.is_open:
            self._writer.stop(reason, is_orderly=True)
        return self._writer.join()

    def _give_up(self, what: object, error: Exception) -> None:
        reason = f"a {type(what).__name__} cannot be written down: {type(error).__name__}: {error}"
        self._writer.stop(reason, is_orderly=False)
