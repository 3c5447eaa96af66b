"""Reads a journal: its header, then every entry, and the digests that prove a replay.

A journal is a directory with numbered files, made by one start of a process. A tail that a crash tore off is cut and
said; everything else that is not as it was written stops the reading, because a history with a gap is none.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from schedulerd import __version__
from schedulerd.journal_files.blocks import Damaged, TornTail, blocks
from schedulerd.journal_files.digest import Digest
from schedulerd.journal_files.kind import Kind

SUFFIX = ".journal"

_SHOWN_MAX = 40
"""Characters of a value of an unreadable header that a message shows."""

HeaderT = TypeVar("HeaderT")
EntryT = TypeVar("EntryT")


class JournalUnreadable(ValueError):
    """There is no journal, or it cannot be read on; the message says where and why."""


def file_name(number: int) -> str:
    """Of the files of a journal, counted from 1; in order of name they are in order of time."""
    return f"{number:06}{SUFFIX}"


def find_files(path: Path) -> tuple[Path, ...]:
    """The files of the journal at `path`, which is a journal, a file of it, or a directory with exactly one journal.

    Raises `JournalUnreadable`.
    """
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


class JournalReader(ABC, Generic[HeaderT, EntryT]):
    """A journal that can be read, as often as is wanted."""

    kind: ClassVar[Kind]

    def __init__(self, files: tuple[Path, ...]) -> None:
        """Reads the header of the first file. Raises `JournalUnreadable`."""
        self.files = files
        """In order."""
        self.header: HeaderT
        self._values = self.kind.journal_header(self._read_header(files[0]))
        try:
            self.header = self.parse_header(self._values)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise JournalUnreadable(f"{files[0]}: its header is not understood: {error}") from error
        self.end = ""
        """How the journal ends, as a sentence; '' until it is read to its end."""
        self.cut_bytes = 0
        """How many bytes of a torn tail were left out when it was read."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """`path` is a journal, a file of it, or a directory with exactly one journal. Raises `JournalUnreadable`."""
        return cls(find_files(path))

    @abstractmethod
    def parse_header(self, values: dict[str, Any]) -> HeaderT:
        """From what `to_values` of a header gives. May raise what is raised for unexpected values."""

    @abstractmethod
    def entry_reader(self) -> Callable[[Any], EntryT]:
        """A function that makes an entry of each line in order. It may raise what is raised for unexpected values."""

    def text_reader(self) -> Callable[[bytes], bytes]:
        """A function that makes lines of each block in order. Raises `ValueError` if it is not as it was written."""
        return lambda content: content

    def __iter__(self) -> Iterator[EntryT | Digest]:
        """From the beginning. Raises `JournalUnreadable` where it cannot be read on."""
        self.end, self.cut_bytes = "", 0
        entry_of, text_of = self.entry_reader(), self.text_reader()
        entries, end = 0, ""
        for number, path in enumerate(self.files, start=1):
            header = self.kind.file_header(self._values, number, entries)
            for offset, values in self._lines(path, header, text_of):
                if isinstance(values, dict) and "end" in values:
                    end = str(values["end"])
                    continue
                record = self._record(f"{path}, block at offset {offset}", values, entry_of)
                entries += not isinstance(record, Digest)
                yield record
        self.end = self._how_it_ends(end)

    def _record(self, place: str, values: Any, entry_of: Callable[[Any], EntryT]) -> EntryT | Digest:
        try:
            if isinstance(values, dict) and "digest" in values:
                return Digest(values[self.kind.proved], values["digest"])
            return entry_of(values)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise JournalUnreadable(f"{place}: a record is not understood: {error!r}") from error

    def _read_header(self, path: Path) -> dict[str, Any]:
        try:
            with path.open("rb") as file:
                content = next(blocks(file), None)
        except TornTail:
            content = None
        except (OSError, Damaged) as error:
            raise JournalUnreadable(f"{path}: {error}") from error
        if content is None:
            raise JournalUnreadable(
                f"{path} ends within its header: the process was killed before it recorded anything"
            )
        return self._parse(path, content)

    def _parse(self, path: Path, content: bytes) -> dict[str, Any]:
        """The header of a file, if it is of this kind of journal."""
        try:
            values: dict[str, Any] = dict(json.loads(content))
        except (TypeError, ValueError, RecursionError) as error:
            raise JournalUnreadable(f"{path}: its header is not understood: {error}") from error
        if values.get("format") != self.kind.format:
            raise JournalUnreadable(f"{path}: {self._other_format(values)}")
        return values

    def _other_format(self, values: dict[str, Any]) -> str:
        """Why a journal with such a header, which comes from the file, cannot be read."""
        found, writer = (
            str(value)[:_SHOWN_MAX] for value in (values.get("format"), values.get("version", values.get("schedulerd")))
        )
        return (
            f"its format is {found}, written by schedulerd {writer}; "
            f"this is schedulerd {__version__}, which reads format {self.kind.format} only: "
            "read the journal with the version that wrote it"
        )

    def _lines(
        self, path: Path, header: dict[str, Any], text_of: Callable[[bytes], bytes]
    ) -> Iterator[tuple[int, Any]]:
        """The values of a file after this header, each with the offset of its block. Raises `JournalUnreadable`."""
        try:
            with path.open("rb") as file:
                contents = blocks(file)
                first = next(contents, None)
                if first is not None and self._parse(path, first) != header:
                    raise JournalUnreadable(
                        f"{path} is not what follows on the file before it: of another journal, or damaged"
                    )
                while (offset := file.tell()) and (content := next(contents, None)) is not None:
                    for line in text_of(content).splitlines():
                        yield offset, json.loads(line)
        except TornTail as torn:
            if path != self.files[-1]:
                raise JournalUnreadable(f"{path} ends within a block, although another file follows") from torn
            self.cut_bytes = path.stat().st_size - torn.offset
        except JournalUnreadable:
            raise
        except (OSError, Damaged, ValueError, RecursionError) as error:
            raise JournalUnreadable(f"{path}: {error}") from error

    def _how_it_ends(self, end: str) -> str:
        """How the journal ends, as a sentence; `end` is the reason in its end mark, '' without one."""
        said = end or "it ends without an end mark: the process was killed, or is still running"
        if self.cut_bytes:
            said += f"; the last {self.cut_bytes} bytes of {self.files[-1]} are no whole block, and were left out"
        return said


def _why_none(path: Path) -> str:
    """Explains a missing journal: a directory without read permission looks empty, and journals are private."""
    try:
        closed = sorted(one.name for one in path.iterdir() if one.is_dir() and not os.access(one, os.R_OK | os.X_OK))
    except OSError as error:
        return error.strerror or str(error)
    return f"no file *{SUFFIX}" + (f", and no permission to look into {', '.join(closed)}" if closed else "")
