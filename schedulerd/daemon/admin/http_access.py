"""Access to HTTP paths: `PUT /loglevel` and `/debug/state` can be turned off, or require a bearer token."""

from __future__ import annotations

import hmac
import ipaddress
from pathlib import Path

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request

from schedulerd.address import split_address
from schedulerd.config import FileUnusable, HttpAccess, Settings, read_file
from schedulerd.daemon.files.rereading import READ_SECONDS_MAX, Reread
from schedulerd.daemon.runtime.failures import ExitCode, StartupFailed
from schedulerd.daemon.runtime.workers import Busy, TooSlow, Workers

TOKEN_BYTES_MAX = 4096
"""Maximum size of the token file."""

TOKEN_LENGTH_MIN = 16
"""Minimum length of a token, in characters."""

_SCHEME = "bearer"
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")

log = structlog.stdlib.get_logger(__name__)


class BearerToken(Reread):
    """The token in a file. It is never logged and never sent."""

    def __init__(self, file: Path) -> None:
        """Raises `StartupFailed` if the file has no valid token."""
        super().__init__()
        self.file = file
        self._token = _read(file)
        self._workers = Workers("HTTP token files", threads=1, waiting_max=0, seconds_max=READ_SECONDS_MAX)

    @classmethod
    def of(cls, settings: Settings) -> BearerToken | None:
        """None without the setting `http_token_file`. Raises `StartupFailed`."""
        return None if settings.http_token_file is None else cls(settings.http_token_file)

    async def reload(self) -> None:
        """Reads the file again. If it has no valid token, the reason is logged and the previous token stays valid."""
        try:
            token = await self._workers.run(_read, self.file)
        except (StartupFailed, Busy, TooSlow) as error:
            log.error("HTTP token not reloaded: nothing changed", reason=str(error))
            return
        changed = not hmac.compare_digest(token, self._token)
        self._token = token
        log.info("HTTP token reloaded", http_token_file=str(self.file), changed=changed)

    def is_in(self, request: Request) -> bool:
        """Whether the `Authorization` header has the token. The check takes the same time for every wrong token."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return scheme.lower() == _SCHEME and hmac.compare_digest(given.strip().encode("utf-8"), self._token)


class Gate:
    """Checks requests as the settings say."""

    def __init__(self, settings: Settings, token: BearerToken | None) -> None:
        self._settings = settings
        self._token = token
        self._is_loopback = is_loopback(split_address(settings.http_bind)[0])

    def check(self, setting: str, request: Request) -> None:
        """`setting` is the name of the setting for this path and method. Raises `HTTPException` with 401 or 403."""
        access: HttpAccess = getattr(self._settings, setting)
        what = f"{request.method} {request.url.path}"
        match access:
            case HttpAccess.OFF:
                raise HTTPException(403, f"{what} is off: the setting {setting} is off; on and token turn it on")
            case HttpAccess.AUTO if not self._is_loopback and not is_local(request):
                raise HTTPException(
                    403,
                    f"{what} is off for other machines: the setting {setting} is auto, and http_bind is no loopback "
                    f"address; set {setting} to token with http_token_file, or to on",
                )
            case HttpAccess.TOKEN if self._token is None or not self._token.is_in(request):
                raise HTTPException(
                    401,
                    f"{what} needs the header Authorization: Bearer TOKEN with the token of http_token_file",
                    headers={"WWW-Authenticate": "Bearer"},
                )


def is_local(request: Request) -> bool:
    """Whether the client is on this machine, and no proxy speaks for another one."""
    client = request.client
    is_here = client is not None and is_loopback(client.host)
    return is_here and not any(name in request.headers for name in _FORWARDED)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a port at `host`. Names other than localhost count as open to others."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(file: Path) -> bytes:
    """The token in the file. Raises `StartupFailed`."""
    try:
        token = read_file(file, TOKEN_BYTES_MAX).strip()
    except FileUnusable as error:
        raise _unusable(file, str(error)) from error
    if len(token) < TOKEN_LENGTH_MIN or not all(0x21 <= byte <= 0x7E for byte in token):
        raise _unusable(
            file, f"must hold one line of at least {TOKEN_LENGTH_MIN} visible ASCII characters without a space"
        )
    return token


def _unusable(file: Path, problem: str) -> StartupFailed:
    return StartupFailed(f"http_token_file {file} {problem}", ExitCode.CONFIG)
