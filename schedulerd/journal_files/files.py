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
from io import FileIO
from pathlib import Path
from typing import TypeAlias

from schedulerd.journal_files.blocks import MAGIC, block
from schedulerd.journal_files.kind import Header, Kind
from schedulerd.journal_files.reader import SUFFIX, file_name

END_ROOM_BYTES = 4096
"""Of the bound of a journal, kept for its end mark."""
BEGIN_ROOM_BYTES = 4 * END_ROOM_BYTES
"""With less than this no journal is begun: it would have a header and an end mark."""

OpenFile: TypeAlias = Callable[[Path], FileIO]


class JournalFull(Exception):
    """The next block would take the journal beyond its bound; the message says so for the operator."""


def open_new(path: Path) -> FileIO:
    """Opens a new file for appending, readable by its owner only. Raises `OSError`, also if it exists."""
    return FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600), "wb")


def new_directory(parent: Path, wall_ns: int, instance: str) -> Path:
    """Makes the directory of a new journal in `parent`, named after its start. Raises `OSError`."""
    started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall_ns // 1_000_000_000))
    directory = parent / f"{started}-{instance[:8]}"
    directory.mkdir(mode=0o700)
    return directory


def begin_files(
    parent: Path, kind: Kind, header: Header, wall_ns: int, *, file_max_bytes: int, max_bytes: int
) -> JournalFiles:
    """A new journal in a directory of its own in `parent`, named after its start. Raises `OSError`.

    `max_bytes` is the bound of all journals there. A process that ends and starts often would fill the disk otherwise.
    """
    earlier = sum(_size(file) for file in parent.glob(f"*/*{SUFFIX}"))
    if max_bytes - earlier < BEGIN_ROOM_BYTES:
        reason = f"journals of earlier starts have {earlier} of the {max_bytes} bytes that journals may have here"
        raise OSError(errno.EDQUOT, f"{reason}: remove some", str(parent))
    directory = new_directory(parent, wall_ns, header.instance)
    try:
        return JournalFiles(
            directory, kind, header, file_max_bytes=file_max_bytes, max_bytes=max_bytes, earlier_bytes=earlier
        )
    except OSError:
        directory.rmdir()
        raise


class JournalFiles:
    """Belongs to one thread at a time."""

    def __init__(
        self,
        directory: Path,
        kind: Kind,
        header: Header,
        *,
        file_max_bytes: int,
        max_bytes: int,
        earlier_bytes: int = 0,
        open_file: OpenFile = open_new,
    ) -> None:
        """Begins the first file. `earlier_bytes`, of earlier journals, are part of `max_bytes`. Raises `OSError`."""
        self.directory = directory
        self._kind = kind
        self._header = header.to_values()
        self._file_max_bytes = file_max_bytes
        self._max_bytes = max_bytes
        self._earlier_bytes = earlier_bytes
        self._open_file = open_file
        self.entries = 0
        """That have been appended."""
        self._number = 1
        self._file_entries = 0
        self.bytes = 0
        """Of all files."""
        self._file, self._file_bytes = self._begin(1)

    def append(self, content: bytes, entries: int) -> None:
        """Writes a block with so many entries in it.

        Raises `JournalFull`, after which nothing has changed, or `OSError`, after which only `end` makes sense.
        """
        self.check()
        data = block(content)
        if self._earlier_bytes + self.bytes + len(data) + END_ROOM_BYTES > self._max_bytes:
            beside = f", with {self._earlier_bytes} bytes of earlier journals beside it" if self._earlier_bytes else ""
            raise JournalFull(f"it has reached the size that was set for it{beside}")
        if self._file_bytes + len(data) > self._file_max_bytes and self._file_entries:
            self._begin_next()
        _write(self._file, data)
        self._file_bytes += len(data)
        self.bytes += len(data)
        self._file_entries += entries
        self.entries += entries

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

    def _begin_next(self) -> None:
        # The old one stays what it is, and takes the end mark, if the new one cannot be begun.
        full = self._file
        self._file, self._file_bytes = self._begin(self._number + 1)
        self._number += 1
        self._file_entries = 0
        with full:
            os.fsync(full.fileno())

    @property
    def _path(self) -> Path:
        return self.directory / file_name(self._number)

    def _begin(self, number: int) -> tuple[FileIO, int]:
        path = self.directory / file_name(number)
        header = self._kind.file_header(self._header, number, self.entries)
        data = MAGIC + block(json.dumps(header).encode("ascii"))
        file = self._open_file(path)
        try:
            _write(file, data)
        except OSError:
            file.close()
            path.unlink()
            raise
        self.bytes += len(data)
        return file, len(data)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # somebody is cleaning up
        return 0


def _write(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
