"""The thread that writes: what it proves, and how it ends when the disk is full, slow or has had enough."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from schedulerd.config import matches
from schedulerd.journal import Digest, Entry, Journal, Proof
from schedulerd.journal import recorder as module
from schedulerd.journal.encode import entry_text, facts_bytes
from schedulerd.journal.header import KIND
from schedulerd.journal.recorder import JournalRecorder
from schedulerd.journal_files import writer as queued
from schedulerd.journal_files.digest import DIGEST_ENTRIES
from schedulerd.journal_files.files import JournalFiles
from schedulerd.journal_files.writer import RecordingEnd
from tests.unit.journal.build import GENEROUS_BYTES, Disk, a_header, a_story, entries, files_in, texts

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LIMIT_SECONDS = 20.0

STORY = a_story(DIGEST_ENTRIES)


class World:
    """A writer with its files, and how it ended."""

    def __init__(self, directory: Path, disk: Disk | None = None, all_max: int = GENEROUS_BYTES) -> None:
        self.directory = directory
        self.endings: list[RecordingEnd] = []
        self.writer = JournalRecorder(files_in(directory, disk, all_max=all_max), self.endings.append)

    def put(self, story: list[Entry]) -> None:
        for text in texts(story):
            self.writer.put((text.encode(), b"[]"))

    def end(self) -> Journal:
        assert self.writer.close("told to")
        return Journal.open(self.directory)


def size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.iterdir())


def test_digests_stand_where_they_prove_what_is_before_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    scheduler, expected = a_header().scheduler(matches), Proof()
    digests = []
    for number, entry in enumerate(STORY, start=1):
        facts = scheduler.step(entry.now.monotonic_ns, entry.command)
        world.writer.put((entry_text(entry.now, entry.command).encode(), facts_bytes(facts)))
        expected.add(facts_bytes(facts))
        if number % DIGEST_ENTRIES == 0 or number == len(STORY):
            digests.append(expected.digest())
    records = list(world.end())
    assert [record for record in records if isinstance(record, Digest)] == digests
    assert len({digest.hexdigest for digest in digests}) == len(digests) == 3
    for digest in digests:
        before = records[: records.index(digest)]
        assert sum(isinstance(record, Entry) for record in before) == digest.entries
    assert world.endings == [RecordingEnd("told to", True, len(STORY), size(tmp_path))]


def test_a_step_that_raised_is_the_last_one_and_proves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(STORY[:2])
    world.writer.put((texts(STORY)[2].encode(), None))
    assert list(world.end()) == STORY[:3]


def test_what_comes_after_the_end_is_not_taken(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(STORY[:2])
    journal = world.end()
    world.put(STORY[2:])
    assert not world.writer.is_open
    assert world.writer.waiting == 0
    assert world.writer._queue.empty(), "nothing is kept that nobody will write"
    assert entries(journal) == STORY[:2]


def test_a_full_disk_ends_the_journal_with_all_that_had_room(tmp_path: Path) -> None:
    disk = Disk(GENEROUS_BYTES)
    world = World(tmp_path, disk)
    disk.room_bytes = 2000
    world.put(STORY)
    assert world.writer.join()
    (ending,) = world.endings
    assert not ending.is_orderly
    assert "No space left" in ending.reason
    assert not world.writer.is_open
    journal = Journal.open(tmp_path)
    assert entries(journal) == STORY[: ending.entries]
    assert ending.mark_error or "No space left" in journal.end


def test_a_full_disk_without_room_for_the_mark_is_said_too(tmp_path: Path) -> None:
    disk = Disk(GENEROUS_BYTES)
    world = World(tmp_path, disk)
    disk.room_bytes = 20
    world.put(STORY)
    assert world.writer.join()
    assert "No space left" in world.endings[0].mark_error
    journal = Journal.open(tmp_path)
    assert list(journal) == []
    assert "without an end mark" in journal.end


def test_a_journal_that_reaches_its_bound_ends(tmp_path: Path) -> None:
    world = World(tmp_path, all_max=4096 + 8192)
    for _ in range(10):
        world.put(STORY)
    assert world.writer.join()
    (ending,) = world.endings
    assert size(tmp_path) == ending.bytes == world.writer.written_bytes
    assert ending.reason == "it has reached the size that was set for it"
    assert ending.bytes <= 4096 + 8192
    journal = Journal.open(tmp_path)
    assert len(entries(journal)) == ending.entries < 10 * len(STORY)
    assert journal.end == ending.reason


class Blocks:
    """What is written, block by block, when it may be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, expected: int) -> None:
        self.commands: list[int] = []
        """Of each block."""
        self.may_write, self.begun, self.done = threading.Event(), threading.Event(), threading.Event()
        append = JournalFiles.append

        def appended(files: JournalFiles, content: bytes, commands: int) -> None:
            self.begun.set()
            assert self.may_write.wait(20)
            append(files, content, commands)
            self.commands.append(commands)
            if sum(self.commands) >= expected:
                self.done.set()

        monkeypatch.setattr(JournalFiles, "append", appended)
        monkeypatch.setattr(queued, "REST_SECONDS", 3600)


def test_what_comes_while_it_rests_is_one_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks(monkeypatch, 1)
    blocks.may_write.set()
    world = World(tmp_path)
    world.put(STORY[:1])
    assert blocks.done.wait(20), "the first one is written at once"
    for entry in STORY[1:20]:
        world.put([entry])
    assert entries(world.end()) == STORY[:20], "and the end does not wait for the rest"
    assert blocks.commands == [1, 19]


def test_it_does_not_rest_while_more_than_a_block_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 1000)
    blocks = Blocks(monkeypatch, 90)
    world = World(tmp_path)
    world.put(STORY[:1])
    assert blocks.begun.wait(20)
    world.put(STORY[1:100])
    blocks.may_write.set()
    assert blocks.done.wait(20)
    assert entries(world.end()) == STORY[:100]
    assert len(blocks.commands) > 10


def test_a_bug_in_its_thread_ends_it_and_lets_nothing_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: JournalFiles, content: bytes, commands: int) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(JournalFiles, "append", broken)
    world = World(tmp_path)
    world.put(STORY[:1])
    assert world.writer.join()
    world.put(STORY)
    assert world.writer._queue.empty()
    assert [one.reason for one in world.endings] == ["it cannot be written: RuntimeError: a bug"]


class StuckFile(FileIO):
    """Blocks until it is let go, but not for its first write."""

    stuck = threading.Event()
    let_go = threading.Event()

    def write(self, data: ReadableBuffer, /) -> int:
        if self.tell():
            self.stuck.set()
            assert self.let_go.wait(20)
        return super().write(data)


def test_a_disk_that_is_too_slow_ends_the_journal_and_blocks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [module.STEP_BYTES + len(text) + 2 for text in texts(STORY)]
    bound = sum(sizes[:20])
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", bound)
    endings: list[RecordingEnd] = []
    files = JournalFiles(
        tmp_path,
        KIND,
        a_header(),
        file_max_bytes=GENEROUS_BYTES,
        max_bytes=GENEROUS_BYTES,
        open_file=lambda path: StuckFile(path, "xb"),
    )
    writer = JournalRecorder(files, endings.append)
    taken = 0
    for text in texts(STORY):
        if writer.is_open:
            writer.put((text.encode(), b"[]"))
            taken += 1
    assert StuckFile.stuck.wait(20)
    assert taken == 21
    assert writer.waiting == sum(sizes[:21])
    monkeypatch.setattr(queued, "CLOSE_SECONDS", 0.0)
    assert not writer.join()
    StuckFile.let_go.set()
    monkeypatch.setattr(queued, "CLOSE_SECONDS", 20.0)
    assert writer.join()
    assert [ending.reason for ending in endings] == [
        f"the disk is too slow for it: more than {bound} bytes waited to be written"
    ]
    journal = Journal.open(tmp_path)
    assert entries(journal) == STORY[:taken]
    assert journal.end == endings[0].reason


def moved(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def replaced(directory: Path) -> None:
    file = directory / "000001.journal"
    file.rename(file.with_suffix(".old"))
    file.touch()


@pytest.mark.parametrize("harm", [shutil.rmtree, moved, replaced])
@pytest.mark.parametrize("idle", [True, False])
def test_a_file_that_is_removed_moved_or_replaced_ends_the_journal(
    tmp_path: Path, harm: Callable[[Path], None], idle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the next block, or when it has had nothing to write for a while."""
    monkeypatch.setattr(queued, "LOOK_SECONDS", 0.001 if idle else 1_000.0)
    directory = tmp_path / "journal"
    directory.mkdir()
    ended = threading.Event()
    world = World(directory)

    def on_end(ending: RecordingEnd) -> None:
        world.endings.append(ending)
        ended.set()

    world.writer._on_end = on_end
    world.put(STORY[:2])
    while world.writer.waiting:
        pass
    harm(directory)
    if not idle:
        world.put(STORY[2:4])
    assert ended.wait(LIMIT_SECONDS)
    (ending,) = world.endings
    assert not ending.is_orderly
    assert "was removed, moved or replaced" in ending.reason
    assert str(directory / "000001.journal") in ending.reason
    assert world.writer.join()
    assert not world.writer.is_open
    assert world.writer.ending == ending
