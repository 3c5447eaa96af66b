"""Why a request has no answer that can be used; each exception stands for one thing to do about it."""

from __future__ import annotations

import os

import msgspec

from schedulerd.kubernetes.api.status import Status

UNDECODABLE = (msgspec.DecodeError, ValueError, RecursionError)
"""What decoding raises: also for bytes that are not UTF-8 and for lists that are nested too deeply."""


class ApiError(Exception):
    """A request came to nothing; the message is a sentence for the person who runs the shim. `problem` is what it says
    of other requests too that fail for the same reason."""

    def __init__(self, problem: str, request: str = "") -> None:
        super().__init__(f"{request}: {problem}" if request else problem)
        self.problem = problem


class Unreachable(ApiError):
    """Nobody answered. If the request had left, it may have been performed all the same."""

    def __init__(self, problem: str, request: str = "", *, has_left: bool) -> None:
        super().__init__(problem, request)
        self.has_left = has_left


class WriteForbidden(ApiError):
    """The gate was closed when the write should have left: this process is not the leader. Nothing was sent."""


class Refused(ApiError):
    """The server answered with an error."""

    def __init__(self, request: str, status: Status, retry_after_s: float | None) -> None:
        super().__init__(str(status), request)
        self.status = status
        self.retry_after_s = retry_after_s


class AnswerUnusable(ApiError):
    """The answer is larger than allowed, or not what it should be."""


def cause(error: BaseException) -> str:
    """Why there is no connection, as the operating system says it where that is all."""
    behind = getattr(error, "os_error", None) or error.__cause__ or error
    if (type(behind) is OSError or isinstance(behind, ConnectionError)) and behind.errno:
        return os.strerror(behind.errno)
    return str(behind) or type(behind).__name__  # of TLS, names and time
