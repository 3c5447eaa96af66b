"""Reads the files of a journal: which they are, their headers, and their lines of JSON.

A journal is a directory with numbered files, made by one start of a process. A tail that a crash tore off is cut and
said; everything else that is not as it was written stops the reading, because a history with a gap is none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from schedulerd.journal_files.blocks import Damaged, TornTail, blocks

SUFFIX = ".journal"


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


def read_header(path: Path) -> bytes:
    """The content of the first block of the first file. Raises `JournalUnreadable`."""
    try:
        with path.open("rb") as file:
            content = next(blocks(file), None)
    except TornTail:
        content = None
    except (OSError, Damaged) as error:
        raise JournalUnreadable(f"{path}: {error}") from error
    if content is None:
        raise JournalUnreadable(f"{path} ends within its header: the process was killed before it recorded anything")
    return content


class FileReader:
    """Reads the files of one journal in order."""

    def __init__(self, files: tuple[Path, ...], text_of: Callable[[bytes], bytes] = lambda content: content) -> None:
        """`text_of` makes lines of JSON of a block's content; raises `ValueError` if it is not as it was written."""
        self._files = files
        self._text_of = text_of
        self.cut_bytes = 0
        """How many bytes of a torn tail were left out, once the last file is read."""

    def lines(self, path: Path, check_header: Callable[[bytes], None]) -> Iterator[tuple[int, Any]]:
        """The values of a file after its header, each with the offset of its block. Raises `JournalUnreadable`."""
        try:
            with path.open("rb") as file:
                contents = blocks(file)
                header = next(contents, None)
                if header is not None:
                    check_header(header)
                while (offset := file.tell()) and (content := next(contents, None)) is not None:
                    for line in self._text_of(content).splitlines():
                        yield offset, json.loads(line)
        except TornTail as torn:
            if path != self._files[-1]:
                raise JournalUnreadable(f"{path} ends within a block, although another file follows") from torn
            self.cut_bytes = path.stat().st_size - torn.offset
        except JournalUnreadable:
            raise
        except (OSError, Damaged, ValueError, RecursionError) as error:
            raise JournalUnreadable(f"{path}: {error}") from error

    def how_it_ends(self, end: str) -> str:
        """How the journal ends, as a sentence; `end` is the reason in its end mark, '' without one."""
        said = end or "it ends without an end mark: the process was killed, or is still running"
        if self.cut_bytes:
            said += f"; the last {self.cut_bytes} bytes of {self._files[-1]} are no whole block, and were left out"
        return said


def _why_none(path: Path) -> str:
    """Explains a missing journal: a directory without read permission looks empty, and journals are private."""
    try:
        closed = sorted(one.name for one in path.iterdir() if one.is_dir() and not os.access(one, os.R_OK | os.X_OK))
    except OSError as error:
        return error.strerror or str(error)
    return f"no file *{SUFFIX}" + (f", and no permission to look into {', '.join(closed)}" if closed else "")
