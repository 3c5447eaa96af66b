"""Reads the files that operators give: regular files only, and no more than so many bytes.

A file may be replaced while the daemon runs: by a FIFO, which would block the thread that opens it, by a device that
never ends, or by something far too large. A file on a network that does not answer blocks all the same, so a running
daemon reads files in threads and with a time limit (`schedulerd.daemon.runtime.workers`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

FILE_BYTES_MAX = 1024 * 1024
"""Maximum size of a queue file or a TLS file: a Kubernetes ConfigMap or Secret holds no more."""

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class FileUnusable(ValueError):
    """A file that cannot be read. The message continues after the path of the file: "is a FIFO; it must be ..."."""


def read_file(path: Path, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Content of a regular file, symbolic links followed. Raises `FileUnusable`."""
    try:
        # Without O_NONBLOCK the open of a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise FileUnusable(f"cannot be read: {_reason(error)}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = next((name for is_one, name in _KINDS if is_one(status.st_mode)), "something else")
            raise FileUnusable(f"cannot be read: it is {kind}; it must be a regular file")
        if status.st_size > bytes_max:
            raise FileUnusable(f"cannot be read: it has {status.st_size} bytes; at most {bytes_max} are allowed")
        return _read(descriptor, bytes_max)
    except OSError as error:
        raise FileUnusable(f"cannot be read: {_reason(error)}") from error
    finally:
        os.close(descriptor)


def read_text_file(path: Path, bytes_max: int = FILE_BYTES_MAX) -> str:
    """As `read_file`, for UTF-8."""
    try:
        return read_file(path, bytes_max).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileUnusable(f"cannot be read: byte {error.start} is not UTF-8") from error


def _read(descriptor: int, bytes_max: int) -> bytes:
    """Reads up to the end of the file, even if its size was reported differently."""
    content = bytearray()
    while chunk := os.read(descriptor, bytes_max + 1 - len(content)):
        content += chunk
        if len(content) > bytes_max:
            raise FileUnusable(f"cannot be read: it has more than {bytes_max} bytes; at most {bytes_max} are allowed")
    return bytes(content)


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
