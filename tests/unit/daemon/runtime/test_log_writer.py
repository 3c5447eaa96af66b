"""Nobody waits for whoever reads the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from schedulerd.daemon.runtime import log_writer
from schedulerd.daemon.runtime.log_writer import LogWriter


@dataclass
class Pipe:
    reading: int
    writing: int

    def read(self) -> list[str]:
        """What has been written; waits for the first bytes."""
        return os.read(self.reading, 2**20).decode().splitlines()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe(*os.pipe())
    yield pipe
    os.close(pipe.reading)  # the thread that writes, if it still does, then fails


@pytest.fixture
def writer(pipe: Pipe) -> Iterator[LogWriter]:
    """Writes to the pipe, also what it has to say itself."""
    writer = LogWriter(pipe.writing)
    own = logging.getLogger(log_writer.__name__)
    own.addHandler(writer)
    yield writer
    own.removeHandler(writer)


def write(writer: LogWriter, text: str, *arguments: object) -> None:
    writer.handle(logging.LogRecord("test", logging.WARNING, __file__, 1, text, arguments, None))


def test_lines_are_written_in_order_and_all_of_them_when_they_are_flushed(pipe: Pipe, writer: LogWriter) -> None:
    for number in range(100):
        write(writer, "line %d \udce9", number)
    writer.flush()
    assert pipe.read() == [f"line {number} \\udce9" for number in range(100)]


def test_a_reader_that_stops_blocks_nothing_and_learns_what_it_has_missed(
    pipe: Pipe, writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "WAITING_BYTES_MAX", 2**18)
    monkeypatch.setattr(log_writer, "FLUSH_SECONDS_MAX", 0.05)
    line = "x" * 999
    for _ in range(1000):
        write(writer, line)
    writer.flush()  # comes back
    received: list[str] = []
    text = ""
    while "lost" not in text:
        text += os.read(pipe.reading, 2**20).decode()
        received = text.splitlines()
    assert received[-1] == "log lines lost: they were not read in time"
    assert set(received[:-1]) == {line}
    assert len(received[:-1]) < 1000
    write(writer, "goes on")
    assert pipe.read() == ["goes on"]


def test_a_line_that_cannot_be_formatted_is_reported_as_by_any_handler(
    pipe: Pipe, writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[logging.LogRecord] = []
    monkeypatch.setattr(writer, "handleError", reported.append)
    write(writer, "%d", "no number")
    write(writer, "a number")
    assert [record.args for record in reported] == [("no number",)]
    assert pipe.read() == ["a number"]


def test_a_pipe_that_does_not_block_gets_everything(pipe: Pipe, writer: LogWriter) -> None:
    os.set_blocking(pipe.writing, False)
    lines = ["x" * 99_999] * 5
    for line in lines:
        write(writer, line)
    text = ""
    while text.count("\n") < len(lines):
        text += os.read(pipe.reading, 2**20).decode()
    assert text.splitlines() == lines


def test_a_pipe_without_a_reader_loses_lines_and_nothing_else(pipe: Pipe, writer: LogWriter) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), pipe.reading)  # the pipe has no end to be read from any longer
    write(writer, "nobody")
    writer.flush()
