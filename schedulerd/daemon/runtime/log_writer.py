"""Writes log lines in a thread, because the loop must not wait if the reader of the log stops reading.

The log of a container is a pipe, and a pipe whose reader is stuck blocks its writer forever. Then lines wait here up to
a bound. Lines beyond the bound are dropped and counted, and the count is logged after the next write.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections import deque

WAITING_BYTES_MAX = 16 * 1024 * 1024
"""Bound of the lines that wait to be written. A line has about 300 bytes."""

FLUSH_SECONDS_MAX = 2.0
"""How long `flush` may delay its caller, and so the end of the process."""

log = logging.getLogger(__name__)


class LogWriter(logging.Handler):
    """Formats lines in the thread that logs them, and writes them to a file descriptor in its own thread."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        """Size of the lines that wait or are being written."""
        self._lost = 0
        self._changed = threading.Condition()
        # A daemon thread: the end of the process does not wait for it.
        threading.Thread(target=self._write_all, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + "\n").encode(errors="backslashreplace")
        except Exception:  # noqa: BLE001  as in every handler: a line that cannot be formatted ends nothing
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
        """Waits until everything is written, `FLUSH_SECONDS_MAX` at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes, FLUSH_SECONDS_MAX)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                taken = b"".join(self._lines)
                self._lines.clear()
            with contextlib.suppress(OSError):  # a failing log cannot be reported anywhere
                _write(self._descriptor, taken)
            with self._changed:
                self._bytes -= len(taken)
                lost, self._lost = self._lost, 0
                self._changed.notify_all()
            if lost:
                log.warning("log lines lost: they were not read in time", extra={"count": lost})


def _write(descriptor: int, data: bytes) -> None:
    """Writes all data. Uses no file object, because the end of the process would wait for its lock."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:  # another user of the descriptor made it non-blocking
            select.select([], [descriptor], [])
