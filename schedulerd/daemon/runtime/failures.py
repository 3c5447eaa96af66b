"""How the process exits after an error. The codes are those of sysexits.h, which supervisors know."""

from __future__ import annotations

from enum import IntEnum

from schedulerd.config import ENVIRONMENT_PREFIX


class ExitCode(IntEnum):
    """Exit code of `schedulerd serve`."""

    OK = 0
    UNAVAILABLE = 69
    """Something that the daemon needs from outside is not available: its port is in use."""
    SOFTWARE = 70
    """A bug of schedulerd; its log has the last commands."""
    STUCK = 71
    """A shutdown did not end in time, usually because a thread waits for the system; the log names what was left."""
    CONFIG = 78
    """The settings, the queue file, the TLS files or the file of HTTP tokens cannot be used."""


class StartupFailed(Exception):
    """The daemon cannot start; the text is one line for the operator."""

    def __init__(self, message: str, code: ExitCode = ExitCode.UNAVAILABLE) -> None:
        super().__init__(message)
        self.code = code


def cannot_listen(protocol: str, address: str, setting: str, error: Exception) -> StartupFailed:
    """The error for a port that cannot be opened: the system's reason, and the setting for another address."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    # The standard library repeats the address in the error text of `socket.create_server`.
    reason = reason.partition(" (while attempting")[0]
    flag, variable = f"--{setting.replace('_', '-')}", f"{ENVIRONMENT_PREFIX}{setting.upper()}"
    return StartupFailed(
        f"cannot listen for {protocol} on {address}: {reason}; set another address with {flag} or {variable}"
    )
