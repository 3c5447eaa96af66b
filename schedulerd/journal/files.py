"""The files of a journal that is being written: blocks are appended, files follow each other, and all have a bound.

What was appended is with the operating system, so it outlives the process; a file that is full, and the last one, are
on the disk as well. Nothing here waits for anything but the disk.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import TypeAlias

from schedulerd.journal.blocks import MAGIC, block
from schedulerd.journal.header import Header
from schedulerd.journal.reader import file_name

END_ROOM_BYTES = 4096
"""Of the bound of a journal, kept for its end mark."""

OpenFile: TypeAlias = Callable[[Path], FileIO]


class JournalFull(Exception):
    """The next block would take the journal beyond its bound."""


def open_new(path: Path) -> FileIO:
    """Opens a new file for appending, readable by its owner only. Raises `OSError`, also if it exists."""
    return FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600), "wb")


def new_directory(parent: Path, header: Header) -> Path:
    """Makes the directory of a new journal in `parent`, named after its start. Raises `OSError`."""
    started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(header.started.wall_ns // 1_000_000_000))
    directory = parent / f"{started}-{header.instance[:8]}"
    directory.mkdir(mode=0o700)
    return directory


class JournalFiles:
    """Belongs to one thread at a time."""

    def __init__(
        self, directory: Path, header: Header, *, file_max_bytes: int, max_bytes: int, open_file: OpenFile = open_new
    ) -> None:
        """Begins the first file. Raises `OSError`."""
        self._directory = directory
        self._header = header
        self._file_max_bytes = file_max_bytes
        self._max_bytes = max_bytes
        self._open_file = open_file
        self.commands = 0
        """That have been appended."""
        self.bytes = 0
        """Of all files."""
        self._file, self._file_bytes = self._begin(header)

    def append(self, content: bytes, commands: int) -> None:
        """Writes a block with so many commands in it.

        Raises `JournalFull`, after which nothing has changed, or `OSError`, after which only `end` makes sense.
        """
        self.check()
        data = block(content)
        if self.bytes + len(data) + END_ROOM_BYTES > self._max_bytes:
            raise JournalFull
        if self._file_bytes + len(data) > self._file_max_bytes and self._file_commands:
            self._begin_next()
        _write(self._file, data)
        self._file_bytes += len(data)
        self.bytes += len(data)
        self.commands += commands

    def check(self) -> None:
        """Raises `FileNotFoundError` if the file is no longer where it was begun.

        The system would take every byte for a file that has no name, and none of them could ever be read.
        """
        try:
            found = self._path.stat()
        except FileNotFoundError:
            is_there = False
        else:
            is_there = os.path.samestat(found, os.fstat(self._file.fileno()))
        if not is_there:
            raise FileNotFoundError(errno.ENOENT, "it was removed, moved or replaced", str(self._path))

    def end(self, mark: bytes) -> None:
        """Writes the mark as the last block and closes the file, without what a failed `append` left of a block.

        Raises `OSError`; then there is no mark, and the file is closed all the same.
        """
        with self._file:
            self._file.truncate(self._file_bytes)
            data = block(mark)
            _write(self._file, data)
            self.bytes += len(data)
            os.fsync(self._file.fileno())

    @property
    def _file_commands(self) -> int:
        return self.commands - self._header.commands_before

    def _begin_next(self) -> None:
        # The old one stays what it is, and takes the end mark, if the new one cannot be begun.
        header = replace(self._header, file=self._header.file + 1, commands_before=self.commands)
        full = self._file
        self._file, self._file_bytes = self._begin(header)
        self._header = header
        with full:
            os.fsync(full.fileno())

    @property
    def _path(self) -> Path:
        return self._directory / file_name(self._header.file)

    def _begin(self, header: Header) -> tuple[FileIO, int]:
        path = self._directory / file_name(header.file)
        data = MAGIC + block(json.dumps(header.to_values()).encode("ascii"))
        file = self._open_file(path)
        try:
            _write(file, data)
        except OSError:
            file.close()
            path.unlink()
            raise
        self.bytes += len(data)
        return file, len(data)


def _write(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
