"""How the process ends when it does not end well; the codes are those of sysexits.h, which supervisors know."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of `schedulerd serve`."""

    OK = 0
    UNAVAILABLE = 69
    """Something the daemon needs from outside is not there: its port is taken."""
    SOFTWARE = 70
    """A bug of schedulerd; its log has the last commands."""
    CONFIG = 78
    """The settings, the queue file or the TLS files cannot be used."""


class StartupFailed(Exception):
    """The daemon cannot start; the text is one line for the operator."""

    def __init__(self, message: str, code: ExitCode = ExitCode.UNAVAILABLE) -> None:
        super().__init__(message)
        self.code = code
