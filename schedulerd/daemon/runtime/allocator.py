"""How the C library gives memory to threads, and returns it to the system.

By default glibc gives up to eight threads per processor an arena each. Memory that one arena has freed is useless to
the others, so a burst of work in another thread than before makes the process larger: a resource manager that
registered repeatedly made it grow by 8 % in eight rounds, with the same number of live objects. Few threads of the
daemon work at the same time, so they share arenas.

By default glibc also stops returning large blocks at once after some have been freed. Then each large message leaves a
hole, and small objects that outlive the message keep the hole from being returned.
"""

from __future__ import annotations

import ctypes

ARENAS_MAX = 2
LARGE_BYTES = 256 << 10
"""A block of at least this size is mapped separately, so it is returned to the system when it is freed."""

# The numbers of these parameters in glibc's malloc.h.
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8


def hold_little() -> bool:
    """Applies both limits; call it before threads are started. Returns whether the C library supports this: those of
    macOS and Alpine do not, and then nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(
        mallopt(parameter, value) == 1
        for parameter, value in ((_M_ARENA_MAX, ARENAS_MAX), (_M_MMAP_THRESHOLD, LARGE_BYTES))
    )
