"""The tokens of HTTP clients, each with a name and a role, from a file that is read again when it changes.

A line of the file is `NAME ROLE TOKEN`; lines that begin with # are comments. Only digests of tokens stay in memory,
and they are compared in constant time. A token is never logged and never sent.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import structlog

from schedulerd.config import FileUnusable, Settings, read_file
from schedulerd.daemon.files.rereading import READ_SECONDS_MAX, Reread
from schedulerd.daemon.runtime.failures import ExitCode, StartupFailed
from schedulerd.daemon.runtime.workers import Busy, TooSlow, Workers

TOKENS_BYTES_MAX = 65_536
"""Maximum size of the file of tokens."""
TOKEN_LENGTH_MIN = 16
"""Minimum length of a token, in characters."""

log = structlog.stdlib.get_logger(__name__)


class Role(StrEnum):
    """What a client may do; each role may do what the one before it may."""

    VIEW = "view"
    """Read everything."""
    OPERATE = "operate"
    """Change things too: stop and start queues, set the log level, and read stacks and dumps."""

    def covers(self, needed: Role) -> bool:
        return self is Role.OPERATE or self is needed


class Caller(NamedTuple):
    """Who makes a request."""

    name: str
    """Name of the token; '' for a client without one."""
    role: Role
    digest: bytes = b""
    """Of the token; empty without one."""


class Tokens(Reread):
    """The tokens of the file in `http_tokens_file`."""

    def __init__(self, file: Path) -> None:
        """Raises `StartupFailed` if the file cannot be used."""
        super().__init__()
        self.file = file
        self._known = _read(file)
        self._workers = Workers("HTTP token files", threads=1, waiting_max=0, seconds_max=READ_SECONDS_MAX)

    @classmethod
    def of(cls, settings: Settings) -> Tokens | None:
        """None without the setting `http_tokens_file`. Raises `StartupFailed`."""
        return None if settings.http_tokens_file is None else cls(settings.http_tokens_file)

    async def reload(self) -> None:
        """Reads the file again. If it cannot be used, the reason is logged and the previous tokens stay valid."""
        try:
            known = await self._workers.run(_read, self.file)
        except (StartupFailed, Busy, TooSlow) as error:
            log.error("HTTP tokens not reloaded: nothing changed", reason=str(error))
            return
        self._known = known
        log.info("HTTP tokens reloaded", http_tokens_file=str(self.file), tokens=len(known))

    def caller(self, token: str) -> Caller | None:
        """Whose token it is; None if it is none. Every token is compared, whatever is found."""
        return self._of_digest(_digest(token))

    def still_valid(self, caller: Caller) -> Caller | None:
        """The caller with the role that its token has now; None if the token is no longer in the file."""
        return self._of_digest(caller.digest)

    def _of_digest(self, digest: bytes) -> Caller | None:
        found = None
        for one in self._known:
            if hmac.compare_digest(one.digest, digest):
                found = one
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _read(file: Path) -> Sequence[Caller]:
    """The tokens in the file. Raises `StartupFailed`."""
    try:
        text = read_file(file, TOKENS_BYTES_MAX).decode("ascii")
    except FileUnusable as error:
        raise _unusable(file, str(error)) from error
    except UnicodeDecodeError as error:
        raise _unusable(file, "must hold ASCII characters only") from error
    found = [_caller(file, number, line.split()) for number, line in enumerate(text.splitlines(), 1) if _says(line)]
    if not found:
        raise _unusable(file, "has no token; a line is NAME ROLE TOKEN")
    if len({one.name for one in found}) < len(found):
        raise _unusable(file, "names two tokens alike; give each its own name")
    return found


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _caller(file: Path, number: int, parts: list[str]) -> Caller:
    if len(parts) != 3:
        raise _unusable(file, f"line {number} has {len(parts)} words; it must be NAME ROLE TOKEN")
    name, role, token = parts
    if role not in list(Role):
        raise _unusable(file, f"line {number}: the role is {role!r}; it must be {' or '.join(Role)}")
    if len(token) < TOKEN_LENGTH_MIN:
        raise _unusable(file, f"line {number}: the token must have at least {TOKEN_LENGTH_MIN} characters")
    return Caller(name, Role(role), _digest(token))


def _unusable(file: Path, problem: str) -> StartupFailed:
    return StartupFailed(f"http_tokens_file {file} {problem}", ExitCode.CONFIG)
