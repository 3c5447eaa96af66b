"""How the C library gives memory to threads, and gives it back to the system.

By default glibc lets eight threads per processor have an arena of their own each. What one arena has freed is of no use
to the others, and a burst that comes by another thread than the last one makes the process larger again: a resource
manager that registered again and again made it grow by 8 % in eight rounds, with as many objects alive as before. Few
threads of the daemon are at work at a time, so they share.

By default glibc also stops giving large blocks back at once when it has seen that such are freed: each large message
then leaves a hole, and small things that outlive it keep it from being given back.
"""

from __future__ import annotations

import ctypes

ARENAS_MAX = 2
LARGE_BYTES = 256 << 10
"""A block of this size or more is memory of its own, which goes back to the system when it is freed."""

# The numbers of these parameters in glibc's malloc.h.
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def hold_little() -> bool:
    """To be called before there are threads. Returns whether the C library can do it: that of macOS or Alpine cannot,
    and then everything is as it was."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(
        mallopt(parameter, value) == 1
        for parameter, value in ((_M_ARENA_MAX, ARENAS_MAX), (_M_MMAP_THRESHOLD, LARGE_BYTES))
    )
