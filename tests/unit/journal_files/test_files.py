"""Files that are appended to, follow each other, and find no room."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from schedulerd.journal import Journal, JournalUnreadable
from schedulerd.journal.header import KIND
from schedulerd.journal_files.blocks import block
from schedulerd.journal_files.files import (
    BEGIN_ROOM_BYTES,
    END_ROOM_BYTES,
    JournalFiles,
    JournalFull,
    begin_files,
    new_directory,
)
from tests.instants import at
from tests.unit.journal.build import GENEROUS_BYTES, Disk, a_header, a_story, entries, files_in, texts

END = b'{"end": "enough", "commands": 0}'
STORY = a_story(20)
LINES = [text.encode("ascii") for text in texts(STORY)]


def append(files: JournalFiles, lines: list[bytes]) -> None:
    """Each in a block of its own."""
    for line in lines:
        files.append(line, 1)


def sizes(directory: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(directory.iterdir())]


def header_bytes(parent: Path) -> int:
    """How long a file is in which nothing is but its header."""
    directory = parent.with_name(f"{parent.name}-header")
    directory.mkdir()
    files = files_in(directory)
    begun = files.bytes
    files.end(END)
    return begun


def test_a_file_that_is_full_is_followed_by_the_next(tmp_path: Path) -> None:
    file_max = header_bytes(tmp_path) + 1000
    files = files_in(tmp_path, file_max=file_max)
    append(files, LINES)
    assert files.bytes == sum(sizes(tmp_path))
    files.end(END)
    journal = Journal.open(tmp_path)
    assert [path.name for path in journal.files[:2]] == ["000001.journal", "000002.journal"]
    assert max(sizes(tmp_path)) <= file_max
    assert entries(journal) == STORY
    assert journal.end == "enough"


def test_a_block_that_is_larger_than_a_file_may_be_has_one_of_its_own(tmp_path: Path) -> None:
    files = files_in(tmp_path, file_max=1)
    append(files, LINES[:3])
    files.end(END)
    assert len(sizes(tmp_path)) == 3
    assert entries(Journal.open(tmp_path)) == STORY[:3]


def test_a_journal_ends_at_its_bound_and_keeps_room_for_the_end_mark(tmp_path: Path) -> None:
    all_max = header_bytes(tmp_path) + END_ROOM_BYTES + 1000
    files = files_in(tmp_path, all_max=all_max)
    with pytest.raises(JournalFull):
        append(files, LINES)
    assert 0 < files.entries < len(LINES)
    files.end(END)
    assert sum(sizes(tmp_path)) <= all_max
    journal = Journal.open(tmp_path)
    assert entries(journal) == STORY[: files.entries]
    assert journal.end == "enough"


@pytest.mark.parametrize("room", range(0, 600, 7))
def test_a_disk_that_fills_up_within_a_block_leaves_what_was_written_before(room: int, tmp_path: Path) -> None:
    disk = Disk(GENEROUS_BYTES)
    files = files_in(tmp_path, disk)
    disk.room_bytes = room
    with pytest.raises(OSError, match="No space left"):
        append(files, LINES)
    whole = sum(len(block(line)) for line in LINES[: files.entries])
    assert disk.room_bytes == 0
    assert whole <= room < whole + len(block(LINES[files.entries]))
    has_room_for_the_mark = room - whole >= len(block(END))
    with nullcontext() if has_room_for_the_mark else pytest.raises(OSError, match="No space left"):
        files.end(END)
    journal = Journal.open(tmp_path)
    assert entries(journal) == STORY[: files.entries]
    assert (journal.end == "enough") == has_room_for_the_mark


def test_a_disk_without_room_for_the_next_file_leaves_the_old_one_to_end_in(tmp_path: Path) -> None:
    disk = Disk(GENEROUS_BYTES)
    files = files_in(tmp_path, disk, file_max=1)
    append(files, LINES[:1])
    disk.room_bytes = 100
    with pytest.raises(OSError, match="No space left"):
        append(files, LINES[1:])
    disk.room_bytes = 100
    files.end(END)
    assert len(sizes(tmp_path)) == 1
    journal = Journal.open(tmp_path)
    assert (entries(journal), journal.end) == (STORY[:1], "enough")


def test_a_file_that_does_not_reach_the_disk_ends_the_journal_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    files = files_in(tmp_path, file_max=1)
    append(files, LINES[:1])
    full = files._file
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output error"):
            append(files, LINES[1:])
    assert full.closed
    files.end(END)
    journal = Journal.open(tmp_path)
    assert (entries(journal), journal.end) == (STORY[:1], "enough")


def test_what_the_system_takes_in_parts_is_whole(tmp_path: Path) -> None:
    files = files_in(tmp_path, Disk(GENEROUS_BYTES, takes_at_once_bytes=11))
    append(files, LINES)
    files.end(END)
    assert entries(Journal.open(tmp_path)) == STORY


def test_no_room_for_the_first_header_leaves_no_journal(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        files_in(tmp_path, Disk(100))
    with pytest.raises(JournalUnreadable, match="no journal"):
        Journal.open(tmp_path)


def test_every_start_has_a_directory_that_no_other_user_may_read(tmp_path: Path) -> None:
    directory = new_directory(tmp_path, at(0).wall_ns, "abc")
    assert directory.name == "20200913T122640Z-abc"
    files_in(directory).end(END)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.iterdir())]
    assert modes == [0o700, 0o600]


def begun(parent: Path, instance: str, all_max: int = GENEROUS_BYTES) -> JournalFiles:
    header = replace(a_header(), instance=instance)
    return begin_files(parent, KIND, header, at(0).wall_ns, file_max_bytes=GENEROUS_BYTES, max_bytes=all_max)


def test_journals_of_earlier_starts_count(tmp_path: Path) -> None:
    """However often a process starts, all its journals together keep to the bound."""
    for number in range(3):
        bound = BEGIN_ROOM_BYTES * (number + 1)
        files = begun(tmp_path, str(number), bound)
        with pytest.raises(JournalFull, match=r"with \d+ bytes of earlier journals" if number else "set for it$"):
            append(files, LINES * 20)
        files.end(END)
        assert bound - END_ROOM_BYTES - 1_000 < sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= bound


def test_no_journal_is_begun_without_room_beside_earlier_ones(tmp_path: Path) -> None:
    files = begun(tmp_path, "one")
    append(files, LINES)
    files.end(END)
    size = sum(sizes(files.directory))
    with pytest.raises(OSError, match=f"journals of earlier starts have {size} of the"):
        begun(tmp_path, "two", size + BEGIN_ROOM_BYTES - 1)
    assert list(tmp_path.iterdir()) == [files.directory]
    begun(tmp_path, "two", size + BEGIN_ROOM_BYTES).end(END)


def test_a_journal_that_cannot_be_begun_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedulerd.journal_files.files.JournalFiles", partial(JournalFiles, open_file=Disk(9).open))
    with pytest.raises(OSError, match="No space left"):
        begun(tmp_path, "one")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overfiles_in(tmp_path: Path) -> None:
    directory = new_directory(tmp_path, at(0).wall_ns, "abc")
    with pytest.raises(FileExistsError):
        new_directory(tmp_path, at(0).wall_ns, "abc")
    files_in(directory).end(END)
    before = sizes(directory)
    with pytest.raises(FileExistsError):
        files_in(directory)
    assert sizes(directory) == before
