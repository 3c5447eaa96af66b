"""Log lines are written by a thread: whoever reads what the process writes may stop, and the loop must not wait for it.

A container's log is a pipe, and a pipe whose reader is stuck holds its writer for ever. Lines wait here up to a bound
then, and what does not fit is counted; the count is the first line after that.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections import deque

WAITING_BYTES_MAX = 16 * 1024 * 1024
"""Of lines that wait to be written. A line has some 300 bytes."""

FLUSH_SECONDS_MAX = 2.0
"""How long `flush` waits, and with it the end of the process."""

log = logging.getLogger(__name__)


class LogWriter(logging.Handler):
    """Formats lines where they are logged, and lets a thread write them to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        """Of lines that wait and of those that are being written."""
        self._lost = 0
        self._changed = threading.Condition()
        # A daemon thread: nothing waits for it when the process ends.
        threading.Thread(target=self._write_all, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + "\n").encode(errors="backslashreplace")
        except Exception:  # noqa: BLE001  # as every handler: a line that cannot be formatted ends nothing
            self.handleError(record)
            return
        with self._changed:
            if self._bytes + len(line) > WAITING_BYTES_MAX:
                self._lost += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
            self._changed.notify_all()

    def flush(self) -> None:
        """Returns when everything is written, and after `FLUSH_SECONDS_MAX` in any case."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes, FLUSH_SECONDS_MAX)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                taken = b"".join(self._lines)
                self._lines.clear()
            with contextlib.suppress(OSError):  # nobody can be told
                _write(self._descriptor, taken)
            with self._changed:
                self._bytes -= len(taken)
                lost, self._lost = self._lost, 0
                self._changed.notify_all()
            if lost:
                log.warning("log lines lost: they were not read in time", extra={"count": lost})


def _write(descriptor: int, data: bytes) -> None:
    """Not by a file object, whose lock the end of the process would wait for."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # whoever shares the descriptor has made it so
            select.select([], [descriptor], [])
