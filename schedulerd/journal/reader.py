"""Reads a journal: its header, then every command with its time, and the digests that prove a replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

from schedulerd.core.language.commands import Command
from schedulerd.instant import Instant
from schedulerd.journal.decode import CommandReader
from schedulerd.journal.header import Header, HeaderUnreadable
from schedulerd.journal_files.reading import FileReader, JournalUnreadable, find_files, read_header


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the scheduler."""

    now: Instant
    """Its time; the scheduler knows the monotonic one only."""
    command: Command


@dataclass(frozen=True, slots=True)
class Digest:
    """`FactsDigest` of all facts of the first so many commands."""

    commands: int
    hexdigest: str


Record: TypeAlias = Entry | Digest


class Journal:
    """A journal that can be read, as often as is wanted."""

    def __init__(self, files: tuple[Path, ...], header: Header) -> None:
        self.files = files
        """In order."""
        self.header = header
        """Of the first file."""
        self.end = ""
        """How the journal ends, as a sentence; '' until it is read to its end."""
        self.cut_bytes = 0
        """How many bytes of a torn tail were left out when it was read."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """`path` is a journal, a file of it, or a directory with exactly one journal. Raises `JournalUnreadable`."""
        files = find_files(path)
        return cls(files, _parse_header(files[0], read_header(files[0])))

    def __iter__(self) -> Iterator[Record]:
        """From the beginning. Raises `JournalUnreadable` where it cannot be read on."""
        self.end, self.cut_bytes = "", 0
        reader, commands, end, files = CommandReader(self.header.names), 0, "", FileReader(self.files)
        for number, path in enumerate(self.files, start=1):
            for offset, values in files.lines(path, partial(self._check_header, path, number, commands)):
                if isinstance(values, dict):
                    end = values.get("end", "")
                    if not end:
                        yield _digest(path, offset, values)
                else:
                    commands += 1
                    yield _entry(path, offset, reader, values)
        self.end, self.cut_bytes = files.how_it_ends(end), files.cut_bytes

    def _check_header(self, path: Path, number: int, commands: int, content: bytes) -> None:
        expected = replace(self.header, file=number, commands_before=commands)
        if _parse_header(path, content) != expected:
            raise JournalUnreadable(f"{path} is not what follows on the file before it: of another journal, or damaged")


def _entry(path: Path, offset: int, reader: CommandReader, values: Any) -> Entry:
    try:
        monotonic_ns, wall_ns, name, fields = values
        return Entry(Instant(monotonic_ns, wall_ns), reader.command(name, fields))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise JournalUnreadable(f"{path}, block at offset {offset}: a command is not understood: {error}") from error


def _digest(path: Path, offset: int, values: dict[str, Any]) -> Digest:
    try:
        return Digest(values["commands"], values["digest"])
    except (KeyError, TypeError) as error:
        raise JournalUnreadable(f"{path}, block at offset {offset}: a record is not understood: {values}") from error


def _parse_header(path: Path, content: bytes) -> Header:
    try:
        return Header.from_values(json.loads(content))
    except (HeaderUnreadable, TypeError, ValueError, RecursionError) as error:
        raise JournalUnreadable(f"{path}: {error}") from error
