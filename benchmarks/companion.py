"""A process beside the one that measures: it works until it is told to end, and says at the end what it did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.measurement import WrongResult

STOP_TIMEOUT_S = 60.0


class Companion:
    """A Python module as a process. As a context it is at work from the beginning to the end.

    It has to print a line when it has begun, and to end with standard input. Raises `WrongResult` if it does not begin,
    or ends with another exit code than 0.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self.said = ""
        """What it printed after its first line; known when it has ended."""
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise WrongResult(f"{self._module} did not begin its work")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.said, _ = self._process.communicate(timeout=STOP_TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()
        if kind is None and self._process.returncode:
            raise WrongResult(f"{self._module} ended with exit code {self._process.returncode}")
