"""Texts that are read in a process of its own: the same answers, and an end to every text."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedulerd.config import Problem, QueueFile, QueueFileInvalid, load_queue_file
from schedulerd.daemon.files import reading_process
from schedulerd.daemon.files.reading_process import ReadingProcess

FILES = Path(__file__).parents[3] / "data" / "queue_files"
TEXTS = {file.stem: file.read_text(encoding="utf-8") for file in sorted(FILES.glob("*/*.yaml"))}


@pytest.fixture(scope="module")
def process() -> Iterator[ReadingProcess]:
    process = ReadingProcess()
    yield process
    process.close()


def outcome(load: Callable[[str, str], QueueFile], name: str) -> QueueFile | tuple[str, tuple[Problem, ...]]:
    try:
        return load(TEXTS[name], name)
    except QueueFileInvalid as error:
        return str(error), error.problems


@pytest.mark.parametrize("name", TEXTS)
def test_the_process_says_what_the_function_says(process: ReadingProcess, name: str) -> None:
    assert outcome(process.load, name) == outcome(load_queue_file, name)


@pytest.mark.smoke
def test_the_deepest_queues_come_through(process: ReadingProcess) -> None:
    text = "partitions: [{queues: [{name: root, queues: [" + "{name: q, queues: [" * 95 + "]}" * 95 + "]}]}]"
    assert process.load(text, "deep") == load_queue_file(text, "deep")


def test_a_process_that_was_lost_is_replaced() -> None:
    process = ReadingProcess()
    try:
        process.load("", "first")
        lost = process._process
        assert lost is not None
        lost.kill()
        lost.wait()
        assert process.load("", "second").partitions == ()
        assert process._process is not lost
    finally:
        process.close()


def test_a_process_that_cannot_be_started_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    process = ReadingProcess()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", "/nowhere/python")
            with pytest.raises(QueueFileInvalid, match="the process that reads texts cannot be started: No such file"):
                process.load("", "first")
        assert process.load("", "second").partitions == ()
    finally:
        process.close()


def test_a_text_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of the process is lowered by the environment of the test: a module that is found first."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal\n_set = signal.setitimer\n"
        "signal.setitimer = lambda which, seconds: _set(which, 0.3 if seconds else 0)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    process = ReadingProcess()
    try:
        assert process.load("", "short").partitions == ()
        with pytest.raises(QueueFileInvalid, match=r"^long: 1 problem\n  reading the text takes more than 30 s of pro"):
            process.load("- [a, b]\n" * 20_000, "long")
        assert process.load("", "short").partitions == ()
    finally:
        process.close()


def test_a_process_that_stands_still_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    process = ReadingProcess()
    try:
        process.load("", "first")
        assert process._process is not None
        os.kill(process._process.pid, signal.SIGSTOP)
        with monkeypatch.context() as patch:
            patch.setattr(reading_process, "SECONDS_MAX", 0.1)
            with pytest.raises(QueueFileInvalid, match=r"300 s of time"):
                process.load("", "second")
        assert process.load("", "third").partitions == ()
    finally:
        process.close()


def test_closing_ends_what_is_read() -> None:
    process = ReadingProcess()
    process.load("", "first")
    raised: list[BaseException] = []

    def load() -> None:
        try:
            process.load("- [a, b]\n" * 40_000, "long")
        except QueueFileInvalid as error:
            raised.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    process.close()
    thread.join(20)
    assert raised


@pytest.mark.parametrize("niceness", [0, 3])
def test_it_has_the_priority_that_it_is_told(niceness: int) -> None:
    process = ReadingProcess(niceness)
    try:
        process.start()
        process.load("", "first")
        assert process._process is not None
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, process._process.pid) == min(own + niceness, 19)
    finally:
        process.close()


def test_a_text_that_takes_too_much_memory_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import resource\n"
        "_set = resource.setrlimit\n"
        "def room(): return 4096 * int(open('/proc/self/statm').read().split()[0]) + 10 * 2**20\n"
        "resource.setrlimit = lambda which, most: _set(which, (room(), room()))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    process = ReadingProcess()
    try:
        assert process.load("", "short").partitions == ()
        with pytest.raises(QueueFileInvalid, match="reading the text takes"):
            process.load("- [a, b]\n" * 10_000, "large")
        assert process.load("", "short").partitions == ()
    finally:
        process.close()
