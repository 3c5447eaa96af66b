"""Commands that end at SIGINT, wherever the tests run."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_HEARD = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])"


def interruptible(command: Sequence[str]) -> list[str]:
    """The command for a process that hears SIGINT. What a shell starts in the background ignores it, and so does what
    that starts: the tests, and by convention a command of the terminal."""
    return [sys.executable, "-c", _HEARD, *command]
