"""Processes that are measured."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.measurement import WrongResult

PROJECT = Path(__file__).parents[2]
STOP_TIMEOUT_S = 20.0
_CPU_CLOCK_OF_PROCESS = 2
"""See clock_getcpuclockid(3): the clock of a process is made of its id, complemented, and the kind of clock."""


def cpu_seconds_of(pid: int) -> float:
    """What a process has computed so far, all its threads together, in steps of nanoseconds. Linux only."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK_OF_PROCESS)


class Measured:
    """A process as a context, with its log in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = command
        self._log = log

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=PROJECT,
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def check(self) -> None:
        """Raises `WrongResult` if it has ended."""
        if self._process.poll() is not None:
            tail = self._log.read_text(errors="replace")[-2000:]
            raise WrongResult(f"{self._command[:4]} has ended with {self._process.returncode}:\n{tail}")
