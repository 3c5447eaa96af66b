"""Which clients may use the HTTP port: by a bearer token, by the session of a browser, or without either on the same
machine.

Without a file of tokens, clients on this machine may do everything, and others may read if `http_anonymous_view` is
set. A request that a proxy forwarded counts as one from elsewhere, if the proxy says so in a header; a proxy on this
machine that says nothing cannot be told from a client (docs/security.md). With tokens, each client needs one; a browser
sends its token once and gets a session cookie.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from schedulerd.config import Settings
from schedulerd.daemon.admin.api.tokens import Caller, Role, Tokens

COOKIE = "schedulerd_session"
SESSION_SECONDS_MAX = 12 * 3_600.0
"""How long a session lasts."""
SESSIONS_MAX = 1_000
"""Open sessions; one of the token that has most ends for a new one."""
FAILED_LOGINS_MAX = 20
"""Logins of one address that may fail at once; further ones are refused, whatever their token."""
LOGIN_SECONDS = 3.0
"""After this time one more may fail."""
LOGIN_ADDRESSES_MAX = 10_000
"""Addresses whose failed logins are counted; the one that has not failed for longest is forgotten."""

_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
"""No other address of 127.0.0.0/8: the sidecar of Istio hands on what comes from elsewhere as 127.0.0.6."""
_FORWARDED = frozenset(
    {"forwarded", "via", "x-real-ip", "x-client-ip", "x-original-forwarded-for", "true-client-ip", "cf-connecting-ip"}
)
_FORWARDED_PREFIXES = ("x-forwarded-", "x-envoy-")
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_IN_BRACKETS = re.compile(r"\[([0-9a-f:.]+)\](?::[0-9]*)?")
"""An address of IPv6, with a port or without. What else begins with a bracket is a name of nothing."""
_TOKEN_NAMES = frozenset({"token", "access_token", "authorization", "bearer"})


class _Session(NamedTuple):
    caller: Caller
    ends_at: float


class Access:
    """Checks requests as the settings say."""

    def __init__(
        self, settings: Settings, tokens: Tokens | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tokens = tokens
        self._hosts = frozenset(settings.http_hosts)
        self._anonymous_view = settings.http_anonymous_view
        self._clock = clock
        self._sessions: dict[bytes, _Session] = {}
        """By digest of the cookie, oldest first."""
        self._failures: dict[str, tuple[float, float]] = {}
        """By address, how many logins may fail still, and when that was counted; the one that failed last is last."""

    def check(self, request: Request, needed: Role, *, anonymous: bool = True) -> Caller:
        """The caller, if it has the role; if not `anonymous`, only with a token or a session. Raises
        `HTTPException` with 400, 401, 403 or 421."""
        self.check_request(request)
        caller = self._known(request)
        if caller is None and anonymous and not self._has_credentials(request):
            caller = self._anonymous(request)
        if caller is None:
            if self._tokens is None:
                raise HTTPException(403, _ELSEWHERE)
            raise HTTPException(401, _NO_TOKEN, {"WWW-Authenticate": "Bearer"})
        if not caller.role.covers(needed):
            who = f"token {caller.name}" if caller.name else "clients without a token"
            raise HTTPException(403, f"{who} may {caller.role}; this needs the role {needed}")
        return caller

    def check_request(self, request: Request) -> None:
        """Refuses what no client of ours sends: foreign hosts and origins, and tokens in URLs."""
        host = _host_of(request.headers.get("host", ""))
        if not _is_address(host) and host not in ("localhost", "") and host not in self._hosts:
            raise HTTPException(421, f"Host: {host[:100]!r} is no address of this daemon; http_hosts lists its names")
        if any(name.lower() in _TOKEN_NAMES for name in request.query_params):
            raise HTTPException(400, "a token in a URL ends up in logs; send it as Authorization: Bearer TOKEN")
        if request.method not in _SAFE:
            origin = request.headers.get("origin")
            site = request.headers.get("sec-fetch-site", "same-origin")
            own = request.headers.get("host", "").lower()
            is_foreign = origin is not None and urlsplit(origin).netloc.lower() != own
            if is_foreign or site not in ("same-origin", "none"):
                raise HTTPException(403, "Origin: the request comes from a page of another site")

    def log_in(self, request: Request, token: str) -> tuple[str, Caller]:
        """Begins a session for a token: the value of its cookie, and the caller. Raises `HTTPException`."""
        self.check_request(request)
        address = _network(request.client.host) if request.client is not None else ""
        self._check_rate(address)
        caller = self._tokens.caller(token) if self._tokens is not None else None
        if caller is None:
            self._count_failure(address)
            raise HTTPException(401, "token: is none of the tokens of this daemon")
        cookie = secrets.token_urlsafe(32)
        while len(self._sessions) >= SESSIONS_MAX:
            self._end_one_session()
        self._sessions[_digest(cookie)] = _Session(caller, self._clock() + SESSION_SECONDS_MAX)
        return cookie, caller

    def _check_rate(self, address: str) -> None:
        """Raises `HTTPException` with 429 if the address has logged in with wrong tokens too often."""
        if self._failures_left(address) < 1:
            detail = (
                f"{FAILED_LOGINS_MAX} logins of this address have failed; it may try again every {LOGIN_SECONDS:g} s"
            )
            raise HTTPException(429, detail, {"Retry-After": str(round(LOGIN_SECONDS))})

    def _failures_left(self, address: str) -> float:
        left, at = self._failures.get(address, (float(FAILED_LOGINS_MAX), 0.0))
        return min(float(FAILED_LOGINS_MAX), left + (self._clock() - at) / LOGIN_SECONDS)

    def _count_failure(self, address: str) -> None:
        left = self._failures_left(address) - 1
        self._failures.pop(address, None)
        self._failures[address] = left, self._clock()
        if len(self._failures) > LOGIN_ADDRESSES_MAX:
            del self._failures[next(iter(self._failures))]

    def _end_one_session(self) -> None:
        """Ends a session that is over, else the oldest one of the token that has most: nobody ends those of others."""
        now = self._clock()
        over = next((key for key, one in self._sessions.items() if one.ends_at < now), None)
        if over is None:
            most, _ = Counter(one.caller.name for one in self._sessions.values()).most_common(1)[0]
            over = next(key for key, one in self._sessions.items() if one.caller.name == most)
        del self._sessions[over]

    def log_out(self, request: Request) -> None:
        """Ends the session of the request, if it has one. Raises `HTTPException`."""
        self.check_request(request)
        self._sessions.pop(_digest(request.cookies.get(COOKIE, "")), None)

    def _has_credentials(self, request: Request) -> bool:
        """Whether the client sends a token, which must be right then. A cookie may be left of a session that ended."""
        return self._tokens is not None and "authorization" in request.headers

    def _known(self, request: Request) -> Caller | None:
        """The caller of a token or a session."""
        if self._tokens is None:
            return None
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme:
            return self._tokens.caller(given.strip()) if scheme.lower() == "bearer" else None
        return self._of_session(request.cookies.get(COOKIE, ""))

    def _of_session(self, cookie: str) -> Caller | None:
        session = self._sessions.get(_digest(cookie))
        if session is None or self._tokens is None or self._clock() > session.ends_at:
            return None
        return self._tokens.still_valid(session.caller)

    def _anonymous(self, request: Request) -> Caller | None:
        if self._tokens is None and is_local(request):
            return Caller("", Role.OPERATE)
        return Caller("", Role.VIEW) if self._anonymous_view else None


_ELSEWHERE = (
    "without tokens only clients on the same machine are answered; set http_tokens_file, or http_anonymous_view to let "
    "everybody read"
)
_NO_TOKEN = "needs the header Authorization: Bearer TOKEN with a token of http_tokens_file"


def is_local(request: Request) -> bool:
    """Whether the client is on this machine, and no proxy says that it speaks for another one."""
    client = request.client
    return (
        client is not None
        and client.host in _THIS_MACHINE
        and not any(name in _FORWARDED or name.startswith(_FORWARDED_PREFIXES) for name in request.headers)
    )


def _host_of(header: str) -> str:
    """The host without its port, in lower case."""
    host = header.strip().lower()
    found = _IN_BRACKETS.fullmatch(host)
    if found is not None:
        return found[1]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _network(address: str) -> str:
    """The address; of IPv6 its network of 64 bits, as one client has all addresses of it."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()
