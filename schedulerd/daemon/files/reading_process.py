"""A separate process that parses the texts of queue files.

The YAML parser is Python: a text of a megabyte takes ten seconds. In a thread of any kind, it would make the loop wait
for the interpreter's lock, up to a second in one go. A process has its own lock, has bounds on its processor time and
memory, and can be killed when the daemon ends.

`python -m schedulerd.daemon.files.reading_process` is the other end. It reads texts from its standard input and writes
answers to its standard output: a length (8 bytes, most significant first), followed by a pickled value. It ends when
its input ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from enum import Enum
from typing import IO, Any, TypeAlias

from schedulerd.config import (
    Problem,
    QueueFile,
    QueueFileInvalid,
    ShownConfiguration,
    load_queue_file,
    show_queue_file,
)

CPU_SECONDS_MAX = 30.0
"""Maximum processor time for one text; the slowest text of a megabyte takes ten seconds."""
SECONDS_MAX = 300.0
"""Maximum time for one text. Where processors are few, a text takes longer than its processor time, and a process that
is stopped takes no processor time."""
MEMORY_BYTES_MAX = 2**30
"""Maximum address space; a text of a megabyte takes a quarter of it."""

_LENGTH_BYTES = 8
_RECURSION_MAX = 10_000
"""Recursion limit: specs of nested queues are pickled by recursion."""

_TOO_COSTLY = (
    f"reading the text takes more than {CPU_SECONDS_MAX:g} s of processor time, {SECONDS_MAX:g} s of time or "
    f"{MEMORY_BYTES_MAX} bytes of memory; make it smaller"
)

_Answer: TypeAlias = "QueueFile | ShownConfiguration | tuple[Problem, ...]"


class Task(Enum):
    """What the process does with a text."""

    LOAD = "load"
    SHOW = "show"


class ReadingProcess:
    """Parses one text at a time. The process starts with `start` or the first text, and again after it was lost.

    All methods block, so they are for threads. `close` may be called from any thread at any time.
    """

    def __init__(self, niceness: int = 0) -> None:
        """`niceness` is added to that of the daemon, so that the process yields where processors are few."""
        self._niceness = niceness
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._turn = threading.Lock()

    def start(self) -> None:
        """Starts the process and does not wait for it. If that fails, the first `load` reports it."""
        with self._turn, contextlib.suppress(OSError):
            self._running()

    def load(self, text: str, source: str) -> QueueFile:
        """Same as `load_queue_file`, but a text that kills the process is invalid too. Raises `QueueFileInvalid`."""
        answer = self._answer(Task.LOAD, text, source)
        if isinstance(answer, QueueFile):
            return answer
        assert isinstance(answer, tuple)
        raise QueueFileInvalid(source, answer)

    def show(self, text: str, source: str) -> ShownConfiguration:
        """Same as `show_queue_file`. Raises `QueueFileInvalid` for a text that kills the process."""
        answer = self._answer(Task.SHOW, text, source)
        assert isinstance(answer, ShownConfiguration)
        return answer

    def _answer(self, task: Task, text: str, source: str) -> _Answer:
        with self._turn:
            try:
                process = self._running()
            except OSError as error:
                raise _unread(source, f"the process that reads texts cannot be started: {error.strerror}") from error
            patience = threading.Timer(SECONDS_MAX, process.kill)
            patience.daemon = True
            try:
                patience.start()
                return _ask(process, (task.value, text, source))
            except RuntimeError as error:  # the system cannot start another thread
                raise _unread(source, f"the process that reads texts cannot be watched: {error}") from error
            except (OSError, EOFError) as error:
                _end(process)
                raise _unread(source, _TOO_COSTLY) from error
            finally:
                patience.cancel()

    def close(self) -> None:
        """Ends the process, even while it parses a text; that `load` and every later one raise."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()
        with self._turn:
            if self._process is not None:
                _end(self._process)

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, started if there is none. Raises OSError if it cannot be started."""
        process = self._process
        if process is not None and process.poll() is None:
            return process
        if process is not None:
            _end(process)
        process = self._process = _start(self._niceness)
        if self._is_closed:
            process.kill()
        return process


def _unread(source: str, message: str) -> QueueFileInvalid:
    return QueueFileInvalid(source, (Problem("", None, None, message),))


def _start(niceness: int) -> subprocess.Popen[bytes]:
    # The process finds modules where this one finds them. Its own session keeps Ctrl-C of a terminal away from it.
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "schedulerd.daemon.files.reading_process", str(niceness)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # the rest of the text cannot be written any more
            assert pipe is not None
            pipe.close()


def _ask(process: subprocess.Popen[bytes], request: tuple[str, str, str]) -> _Answer:
    """Sends a request and returns its answer. Raises OSError or EOFError if the process is gone."""
    assert process.stdin is not None
    assert process.stdout is not None
    _write(process.stdin, request)
    answer: _Answer = _read(process.stdout)
    return answer


def _write(pipe: IO[bytes], value: object) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
    pipe.write(data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> Any:
    """The next value of the other end. Raises EOFError if the other end is gone."""
    length = pipe.read(_LENGTH_BYTES)
    data = pipe.read(int.from_bytes(length, "big")) if len(length) == _LENGTH_BYTES else b""
    if not data:
        raise EOFError
    return pickle.loads(data)


def main(niceness: int) -> None:
    """Answers requests until the input ends."""
    os.nice(niceness)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    sys.setrecursionlimit(_RECURSION_MAX)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed by mistake must not be read as an answer
    while True:
        try:
            task, text, source = _read(requests)
        except EOFError:
            return
        # The signal of this timer ends the process.
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
        answer: _Answer
        try:
            answer = load_queue_file(text, source) if task == Task.LOAD.value else show_queue_file(text)
        except QueueFileInvalid as error:
            answer = error.problems
        signal.setitimer(signal.ITIMER_PROF, 0)
        _write(answers, answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
