"""Small journals: what a scheduler was told, what it said, and files on a disk that has so much room."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from schedulerd.core.language.commands import (
    Command,
    ConnectResourceManager,
    NewApplication,
    NewAsk,
    NodeAction,
    NodeUpdate,
    RunCycle,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from schedulerd.core.language.resources import Resources
from schedulerd.core.language.specs import SECOND_NS, Timeouts
from schedulerd.journal import Entry, Header, Journal
from schedulerd.journal.encode import entry_text
from schedulerd.journal.header import KIND
from schedulerd.journal.recorder import JournalRecorder
from schedulerd.journal_files.files import JournalFiles, open_new
from schedulerd.journal_files.writer import RecordingEnd
from tests.instants import at
from tests.unit.daemon.recording import registration

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

GENEROUS_BYTES = 1024 * 1024


def a_header() -> Header:
    return Header(
        timeouts=Timeouts(completing_ns=SECOND_NS),
        placements_max=7,
        uuid_seed=2**127 + 1,
        instance="abc",
        started=at(0),
    )


def a_story(batches: int = 3) -> list[Entry]:
    """A resource manager with a node, and batches of two asks with a cycle after each."""
    commands: list[Command] = [
        registration(),
        ConnectResourceManager("rm"),
        UpdateApplications("rm", [NewApplication("app-1", "root.a", user="ü")]),
        UpdateNodes("rm", [NodeUpdate("node-1", NodeAction.CREATE, capacity=Resources(vcore=10_000))]),
    ]
    for batch in range(batches):
        asks = [NewAsk("app-1", f"pod-{batch}-{number}", Resources(vcore=1)) for number in range(2)]
        commands += [UpdateAllocations("rm", asks), RunCycle(7)]
    return [Entry(at(number * SECOND_NS), command) for number, command in enumerate(commands, start=1)]


def files_in(
    directory: Path, disk: Disk | None = None, *, file_max: int = GENEROUS_BYTES, all_max: int = GENEROUS_BYTES
) -> JournalFiles:
    """Files of a journal that is written there."""
    open_file = open_new if disk is None else disk.open
    return JournalFiles(directory, KIND, a_header(), file_max_bytes=file_max, max_bytes=all_max, open_file=open_file)


def begin(
    parent: Path, header: Header, on_end: Callable[[RecordingEnd], None] = lambda ending: None
) -> JournalRecorder:
    """A new journal in a directory of its own."""
    return JournalRecorder.begin(parent, header, header.started.wall_ns, on_end, file_max_bytes=2**30, max_bytes=2**30)


def texts(entries: list[Entry]) -> list[str]:
    return [entry_text(entry.now, entry.command) for entry in entries]


def entries(journal: Journal) -> list[Entry]:
    return [record for record in journal if isinstance(record, Entry)]


@dataclass
class Disk:
    """Has room for so many bytes more."""

    room_bytes: int
    takes_at_once_bytes: int = 1_000_000

    def open(self, path: Path) -> FileIO:
        return _FileOnDisk(self, path)


class _FileOnDisk(FileIO):
    """Takes a part of what is written if that is all there is room for, as the kernel does."""

    def __init__(self, disk: Disk, path: Path) -> None:
        open_new(path).close()
        super().__init__(path, "ab")
        self._disk = disk

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        part = view[: min(self._disk.room_bytes, self._disk.takes_at_once_bytes)]
        if view and not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._disk.room_bytes -= len(part)
        return super().write(part)

    def truncate(self, size: int | None = None, /) -> int:
        assert size is not None
        self._disk.room_bytes += self.seek(0, 2) - size
        return super().truncate(size)
