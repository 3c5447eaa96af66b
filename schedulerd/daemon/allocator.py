"""How the C library gives memory to threads.

By default glibc lets eight threads per processor have an arena of their own each. What one arena has freed is of no use
to the others, and a burst that comes by another thread than the last one makes the process larger again: a resource
manager that registered again and again made it grow by 8 % in eight rounds, with as many objects alive as before. Few
threads of the daemon are at work at a time, so they share.
"""

from __future__ import annotations

import ctypes

ARENAS_MAX = 2
_M_ARENA_MAX = -8
"""The number of that parameter in glibc's malloc.h."""


def share_arenas() -> bool:
    """To be called before there are threads. Returns whether the C library can do it: that of macOS or Alpine cannot,
    and then everything is as it was."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, ARENAS_MAX) == 1
