"""The files of both kinds of journals are, byte for byte, what the versions before have written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from schedulerd.core.language.commands import Command, ConnectResourceManager, RingAlarms, RunCycle
from schedulerd.journal.encode import entry_text
from schedulerd.journal.header import KIND as COMMANDS
from schedulerd.journal.recorder import JournalRecorder
from schedulerd.journal_files.blocks import blocks
from schedulerd.journal_files.files import JournalFiles
from schedulerd.journal_files.reader import find_files
from schedulerd.journal_files.writer import JournalWriter
from schedulerd.kubernetes.cluster.events import Started, Tick
from schedulerd.kubernetes.journal.codec import PreemptionQuestion, Question, Step
from schedulerd.kubernetes.journal.compression import Inflater
from schedulerd.kubernetes.journal.header import KIND as EVENTS
from schedulerd.kubernetes.journal.header import Header
from schedulerd.kubernetes.journal.recorder import EventRecorder
from tests.instants import at
from tests.unit.journal.build import a_header

ENTRIES = 250
BLOCK = 37

NO_SETTINGS: Any = {"a": ["b"]}


@pytest.fixture(autouse=True)
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which entries become one block is said by the test."""
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)


def write(files: JournalFiles, writer: JournalWriter[Any], items: Sequence[Any]) -> None:
    for start in range(0, len(items), BLOCK):
        part = items[start : start + BLOCK]
        files.append(writer.content(part), len(part))
    files.end(writer.end_content("it was enough", files.entries))


def hashed(directory: Path, text_of: Callable[[bytes], bytes]) -> str:
    """Of what is in all files. The bytes of what was compressed depend on the library."""
    found = sha256()
    files = find_files(directory)
    assert len(files) == 7
    for path in files:
        with path.open("rb") as file:
            header, *rest = blocks(file)
        found.update(b"\0".join([header, *map(text_of, rest)]))
    return found.hexdigest()[:16]


class FixedHeader:
    """Fields that are added to timeouts or to commands are not seen."""

    instance = "abc"

    def to_values(self) -> dict[str, Any]:
        header = replace(a_header(), version="1.2.3", python="3.11.2", names={"RunCycle": ["allocations_max"]})
        return {**header.to_values(), "timeouts": {"completing_ns": 1}}


@pytest.mark.parametrize(("failed", "expected"), [(False, "dd1380bd7f699a48"), (True, "ed29edfc8f5baea3")])
def test_a_journal_of_commands(failed: bool, expected: str, tmp_path: Path) -> None:
    files = JournalFiles(tmp_path, COMMANDS, FixedHeader(), file_max_bytes=1, max_bytes=2**20)
    commands: list[Command] = [ConnectResourceManager("rm"), RunCycle(7), RingAlarms()]
    items: list[Any] = [
        (entry_text(at(number), commands[number % 3]).encode(), b"CycleRan 1\n\xc3\xbc\n\n")
        for number in range(ENTRIES)
    ]
    if failed:
        items[-1] = (items[-1][0], None)
    write(files, JournalRecorder(files, lambda ending: None), items)
    assert hashed(tmp_path, lambda content: content) == expected


@pytest.mark.parametrize(("failed", "expected"), [(False, "da13341ded4276b5"), (True, "b732750028e8bcd2")])
def test_a_journal_of_events(failed: bool, expected: str, tmp_path: Path) -> None:
    header = Header(NO_SETTINGS, "abc", "1.2.3")
    files = JournalFiles(tmp_path, EVENTS, header, file_max_bytes=1, max_bytes=2**20)
    entries: list[Callable[[int], Any]] = [
        lambda number: Step(number, [Tick(), Started(number)], []),
        lambda number: Question("ns/p", "n", True, f"no {number}"),
        lambda number: PreemptionQuestion("ns/p", "n", ["ns/q"], number, None),
    ]
    items: list[Any] = [entries[number % 3](number) for number in range(ENTRIES)]
    if failed:
        items[-1] = items[-1]._replace(effects=None)
    write(files, EventRecorder(files, lambda ending: None), items)
    assert hashed(tmp_path, Inflater().decompress) == expected
