"""`python -m tests.contract.stalls`: tells when this machine did not let a process run, as a line for each time.

A timer of 10 ms that comes late, in a process that does nothing else: what a slow answer of a daemon at that time is to
be blamed on. A line has the end of the wait by the monotonic clock, which all processes share, and how late it was.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

INTERVAL_SECONDS = 0.01
LATE_SECONDS = 0.02


def main() -> None:
    """Until nobody reads any more."""
    while True:
        due = time.monotonic() + INTERVAL_SECONDS
        time.sleep(INTERVAL_SECONDS)
        now = time.monotonic()
        if now - due > LATE_SECONDS:
            print(f"{now} {now - due}", flush=True)


class Stalls:
    """Of the machine, while the context lasts."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Stalls:
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def seconds_between(self, begin: float, end: float) -> float:
        """For how long of this time, by the monotonic clock, the machine stood still."""
        found = 0.0
        for stopped, late in list(self._seen):
            found += max(0.0, min(end, stopped) - max(begin, stopped - late))
        return found

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            stopped, late = line.split()
            self._seen.append((float(stopped), float(late)))


if __name__ == "__main__":
    main()
