"""Reads a journal of the shim: its header, and then its lines. What a crash tore off is left out and said."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

from schedulerd.journal_files.reading import FileReader, JournalUnreadable, find_files, read_header
from schedulerd.kubernetes.journal.compression import Inflater
from schedulerd.kubernetes.journal.header import Header


class Journal:
    def __init__(self, files: tuple[Path, ...], header: Header) -> None:
        self.files = files
        """In order."""
        self.header = header
        """Of the first file."""
        self.end = ""
        """How the journal ends, as a sentence; '' until it is read to its end."""

    @classmethod
    def open(cls, path: Path) -> Self:
        """`path` is a journal, a file of it, or a directory with exactly one journal. Raises `JournalUnreadable`."""
        files = find_files(path)
        return cls(files, _parse_header(files[0], read_header(files[0])))

    def lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """All lines but end marks, each with its place for messages. Raises `JournalUnreadable`."""
        header, end = self.header, ""
        reader = FileReader(self.files, Inflater().decompress)
        entries = 0
        for path in self.files:
            for offset, values in reader.lines(path, partial(_check_header, path, header)):
                place = f"{path}, block at offset {offset}"
                if not isinstance(values, dict):
                    raise JournalUnreadable(f"{place}: a line is no object")
                if "end" in values:
                    end = str(values["end"])
                    continue
                entries += "digest" not in values
                yield place, values
            header = header.of_next_file(entries)
        self.end = reader.how_it_ends(end)


def _check_header(path: Path, expected: Header, content: bytes) -> None:
    if _parse_header(path, content) != expected:
        raise JournalUnreadable(f"{path} is not what follows on the file before it: of another journal, or damaged")


def _parse_header(path: Path, content: bytes) -> Header:
    try:
        return Header.from_content(content)
    except (ValueError, RecursionError) as error:
        raise JournalUnreadable(f"{path}: {error}") from error
