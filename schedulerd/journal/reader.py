"""Reads a journal of the daemon: its entries are commands with their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schedulerd.core.language.commands import Command
from schedulerd.instant import Instant
from schedulerd.journal.decode import CommandReader
from schedulerd.journal.header import KIND, Header
from schedulerd.journal_files.reader import JournalReader


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the scheduler."""

    now: Instant
    """Its time; the scheduler knows the monotonic one only."""
    command: Command


class Journal(JournalReader[Header, Entry]):
    """A journal of the daemon."""

    kind = KIND

    def parse_header(self, values: dict[str, Any]) -> Header:
        return Header.from_values(values)

    def entry_reader(self) -> Callable[[Any], Entry]:
        reader = CommandReader(self.header.names)

        def read(values: Any) -> Entry:
            monotonic_ns, wall_ns, name, fields = values
            return Entry(Instant(monotonic_ns, wall_ns), reader.command(name, fields))

        return read
