"""Reads a journal: its header, then every command with its time, and the digests that prove a replay.

A journal is a directory with numbered files, made by one start of a daemon. A tail that a crash tore off is cut and
said; everything else that is not as it was written stops the reading, because a history with a gap is none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

from schedulerd.core.commands import Command
from schedulerd.instant import Instant
from schedulerd.journal.blocks import Damaged, TornTail, blocks
from schedulerd.journal.decode import CommandReader
from schedulerd.journal.header import Header, HeaderUnreadable

SUFFIX = ".journal"


def file_name(number: int) -> str:
    """Of the files of a journal, counted from 1; in order of name they are in order of time."""
    return f"{number:06}{SUFFIX}"


class JournalUnreadable(ValueError):
    """There is no journal, or it cannot be read on; the message says where and why."""


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
        files = _files(path)
        return cls(files, _header(files[0]))

    def __iter__(self) -> Iterator[Record]:
        """From the beginning. Raises `JournalUnreadable` where it cannot be read on."""
        self.end, self.cut_bytes = "", 0
        reader, commands, end = CommandReader(self.header.names), 0, ""
        for number, path in enumerate(self.files, start=1):
            for offset, values in self._lines(path, number, commands):
                if isinstance(values, dict):
                    end = values.get("end", "")
                    if not end:
                        yield _digest(path, offset, values)
                else:
                    commands += 1
                    yield _entry(path, offset, reader, values)
        self.end = end or "it ends without an end mark: the daemon was killed, or is still running"
        if self.cut_bytes:
            self.end += f"; the last {self.cut_bytes} bytes of {self.files[-1]} are no whole block, and were left out"

    def _lines(self, path: Path, number: int, commands: int) -> Iterator[tuple[int, Any]]:
        """The lines of a file after its header, each with the offset of its block."""
        try:
            with path.open("rb") as file:
                contents = blocks(file)
                header = next(contents, None)
                if header is not None:
                    self._check_header(path, number, commands, header)
                while (offset := file.tell()) and (content := next(contents, None)) is not None:
                    for line in content.splitlines():
                        yield offset, json.loads(line)
        except TornTail as torn:
            if path != self.files[-1]:
                raise JournalUnreadable(f"{path} ends within a block, although another file follows") from torn
            self.cut_bytes = path.stat().st_size - torn.offset
        except (OSError, Damaged, ValueError, RecursionError) as error:
            raise JournalUnreadable(f"{path}: {error}") from error

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


def _files(path: Path) -> tuple[Path, ...]:
    if path.is_file():
        path = path.parent
    files = sorted(path.glob(f"*{SUFFIX}"))
    if not files:
        journals = sorted({file.parent for file in path.glob(f"*/*{SUFFIX}")})
        if len(journals) > 1:
            names = ", ".join(journal.name for journal in journals)
            raise JournalUnreadable(f"there are several journals in {path}, say which: {names}")
        if not journals:
            raise JournalUnreadable(f"there is no journal in {path}: {_why_none(path)}")
        files = sorted(journals[0].glob(f"*{SUFFIX}"))
    for number, file in enumerate(files, start=1):
        if file.name != file_name(number):
            raise JournalUnreadable(f"{file.parent / file_name(number)} is missing: it comes before {file.name}")
    return tuple(files)


def _why_none(path: Path) -> str:
    """Explains a missing journal: a directory without read permission looks empty, and journals are private."""
    try:
        closed = sorted(one.name for one in path.iterdir() if one.is_dir() and not os.access(one, os.R_OK | os.X_OK))
    except OSError as error:
        return error.strerror or str(error)
    return f"no file *{SUFFIX}" + (f", and no permission to look into {', '.join(closed)}" if closed else "")


def _header(path: Path) -> Header:
    """Of the first file."""
    try:
        with path.open("rb") as file:
            content = next(blocks(file), None)
    except TornTail:
        content = None
    except (OSError, Damaged) as error:
        raise JournalUnreadable(f"{path}: {error}") from error
    if content is None:
        raise JournalUnreadable(f"{path} ends within its header: the daemon was killed before it recorded anything")
    return _parse_header(path, content)


def _parse_header(path: Path, content: bytes) -> Header:
    try:
        return Header.from_values(json.loads(content))
    except (HeaderUnreadable, TypeError, ValueError, RecursionError) as error:
        raise JournalUnreadable(f"{path}: {error}") from error
