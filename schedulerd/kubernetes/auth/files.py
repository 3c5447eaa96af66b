"""Reads credential files: regular files only, bounded in size, and in threads so that a dead disk stops nothing else.

A thread that hangs on a file system that does not answer cannot be stopped. It is left alone, and no second one is
started for the same reader until it has come back.
"""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from schedulerd.kubernetes.auth.errors import AccessUnusable

FILE_BYTES_MAX = 1024 * 1024
READ_SECONDS_MAX = 10.0

ReadFile = Callable[[Path], Awaitable[bytes]]


def read_now(path: Path, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """The content of a regular file, symbolic links followed. Raises `AccessUnusable`."""
    try:
        # Without O_NONBLOCK the open of a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise AccessUnusable(f"{path}: cannot be read: {_reason(error)}") from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise AccessUnusable(f"{path}: is not a regular file; it must be one")
        content = b""
        while len(content) <= bytes_max and (piece := os.read(descriptor, bytes_max + 1 - len(content))):
            content += piece
    except OSError as error:
        raise AccessUnusable(f"{path}: cannot be read: {_reason(error)}") from error
    finally:
        os.close(descriptor)
    if len(content) > bytes_max:
        raise AccessUnusable(f"{path}: has more than {bytes_max} bytes, which is the most that is read")
    return content


class FileReader:
    """Reads files in a thread, one after the other. Raises `AccessUnusable`, also after `seconds_max`."""

    def __init__(self, seconds_max: float = READ_SECONDS_MAX) -> None:
        self._seconds_max = seconds_max
        self._running: threading.Thread | None = None

    async def __call__(self, path: Path) -> bytes:
        if self._running is not None and self._running.is_alive():
            raise AccessUnusable(f"{path}: cannot be read: an earlier read of a file has not come back yet")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bytes] = loop.create_future()

        def tell(content: bytes | None, error: Exception | None) -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(content or b"")

        def read() -> None:
            content, failure = None, None
            try:
                content = read_now(path)
            except Exception as error:  # noqa: BLE001 - raised again by the one who waits
                failure = error
            try:
                loop.call_soon_threadsafe(tell, content, failure)
            except RuntimeError:  # the loop is closed: nobody waits any longer
                return

        self._running = threading.Thread(target=read, name="reads credentials", daemon=True)
        self._running.start()
        try:
            async with asyncio.timeout(self._seconds_max):
                content = await done
        except TimeoutError:
            raise AccessUnusable(f"{path}: cannot be read: no answer within {self._seconds_max:g} s") from None
        self._running = None
        return content


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
