"""The daemon, which says at SIGUSR2 how much memory is in use: a log line `memory in use` with the number of bytes.

That is what Python's allocator and the C library's have given out, when the garbage of the moment is collected, as it
is now and then anyway. Resident memory has more: what is free and not given back to the system, which depends on the
largest thing there ever was, and on what stands between the holes.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import signal
import sys

from schedulerd.cli import main

_IN_USE = re.compile(r"^# bytes in allocated blocks\s+=\s+([\d,]+)$|^in use bytes\s+=\s+(\d+)$", re.MULTILINE)


def _in_use_bytes() -> int:
    """Both allocators print their figures to standard error only, Python's of this process and the C library's."""
    libc, standard_error, printed = ctypes.CDLL(None), os.dup(2), os.memfd_create("statistics")
    os.dup2(printed, 2)
    try:
        sys._debugmallocstats()
        libc.malloc_stats()
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
    with os.fdopen(printed, "rb") as file:
        file.seek(0)
        found = _IN_USE.findall(file.read().decode())
    # of the C library the last figure is that of all arenas
    blocks = next(int(python.replace(",", "")) for python, _ in found if python)
    return blocks + [int(of_libc) for _, of_libc in found if of_libc][-1]


def _say(*_: object) -> None:
    gc.collect()  # of what is new; what is old is out of its sight (`schedulerd.daemon.runtime.collector`)
    line = json.dumps({"level": "info", "event": "memory in use", "bytes": _in_use_bytes()})
    os.write(2, f"{line}\n".encode())


def measured_main() -> None:
    signal.signal(signal.SIGUSR2, _say)
    main()


if __name__ == "__main__":
    measured_main()
