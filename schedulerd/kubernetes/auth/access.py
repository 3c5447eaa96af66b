"""The way to one API server: its address, and credentials that are kept fresh.

Kubernetes replaces the token of a service account, and its certificate authority, while a pod runs. So files are read
again every minute; what has changed is used from the next request on. Connections that were made with an older
certificate authority are not reused, because the connection pool keeps them apart by their TLS context.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from schedulerd.kubernetes.auth.errors import AccessUnusable
from schedulerd.kubernetes.auth.tls import tls_context

REFRESH_SECONDS = 60.0
"""Between two reads of credential files."""
REJECTED_SECONDS_MIN = 5.0
"""Between two attempts to get new credentials because of a 401."""
FAILED_SECONDS = 10.0
"""After an attempt that failed, while the credentials at hand may still be good."""
EXPIRY_LEEWAY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Material:
    """Everything secret that a connection is made with; all texts are PEM but the token."""

    token: str | None = None
    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    expires_s: float | None = None
    """Seconds since the epoch; None if nobody knows."""

    def __repr__(self) -> str:
        return f"Material(token={'set' if self.token else None}, expires_s={self.expires_s})"


ReadMaterial = Callable[[], Awaitable[Material]]


@dataclass(frozen=True, slots=True, eq=False)
class Credentials:
    """What one request uses."""

    authorization: str | None
    tls: ssl.SSLContext | None

    def __repr__(self) -> str:
        return f"Credentials(authorization={'set' if self.authorization else None})"


class Access:
    """An address and its credentials, for one event loop. `refreshes` and `problem` are for metrics and logs."""

    def __init__(
        self,
        server: str,
        read: ReadMaterial,
        *,
        namespace: str = "default",
        tls_server_name: str | None = None,
        insecure: bool = False,
        proxy: str | None = None,
        refresh_s: float = REFRESH_SECONDS,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """`read` gets the material anew each time it is called, and raises `AccessUnusable`."""
        self.server = server.rstrip("/")
        self.namespace = namespace
        self.tls_server_name = tls_server_name
        self.proxy = proxy
        self.refreshes = 0
        """How often the credentials were replaced by others."""
        self.problem: AccessUnusable | None = None
        """Why the last attempt to get new credentials failed, if it did."""
        self._read = read
        self._insecure = insecure
        self._refresh_s = refresh_s
        self._wall_s = wall_s
        self._refreshing: asyncio.Task[None] | None = None
        self._material: Material | None = None
        self._current: Credentials | None = None
        self._fresh_until_s = 0.0
        self._read_at_s = 0.0
        self._is_rejected = False

    async def credentials(self) -> Credentials:
        """The credentials for a request that leaves now. Raises `AccessUnusable` if there are none."""
        loop = asyncio.get_running_loop()
        if self._current is not None and loop.time() < self._fresh_until_s:
            return self._current
        # One for all who ask, and not given up with the one who asked first: a plugin may need longer than a request.
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = loop.create_task(self._refresh(loop))
            self._refreshing.add_done_callback(_seen)
        await asyncio.shield(self._refreshing)
        assert self._current is not None
        return self._current

    async def close(self) -> None:
        """Gives up an attempt to get new credentials."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    def reject(self, used: Credentials) -> bool:
        """The server answered 401 to `used`. True if asking for credentials again may give others."""
        if used is not self._current:
            return True
        now_s = asyncio.get_running_loop().time()
        if now_s < self._read_at_s + REJECTED_SECONDS_MIN and self._is_rejected:
            return False
        self._is_rejected = True
        self._fresh_until_s = 0.0
        return True

    async def _refresh(self, loop: asyncio.AbstractEventLoop) -> None:
        self._read_at_s = loop.time()
        try:
            material = await self._read()
            credentials = self._credentials(material)
        except AccessUnusable as error:
            self.problem = error
            if self._current is None or self._is_expired():
                raise
            self._fresh_until_s = loop.time() + FAILED_SECONDS
            return
        self.problem = None
        if credentials is not self._current:
            self.refreshes += self._current is not None
            self._is_rejected = False
        self._material, self._current = material, credentials
        self._fresh_until_s = loop.time() + self._fresh_s(material)

    def _credentials(self, material: Material) -> Credentials:
        old, current = self._material, self._current
        if old is not None and current is not None:
            same_tls = (old.ca, old.certificate, old.key) == (material.ca, material.certificate, material.key)
            if same_tls and old.token == material.token:
                return current
            tls = current.tls if same_tls else self._context(material)
        else:
            tls = self._context(material)
        return Credentials(None if material.token is None else f"Bearer {material.token}", tls)

    def _context(self, material: Material) -> ssl.SSLContext | None:
        if not self.server.startswith("https:"):
            return None
        return tls_context(material.ca, material.certificate, material.key, insecure=self._insecure)

    def _fresh_s(self, material: Material) -> float:
        if material.expires_s is None:
            return self._refresh_s
        # Not below a second: a plugin that hands out expired credentials is not run for every request.
        left_s = material.expires_s - EXPIRY_LEEWAY_SECONDS - self._wall_s()
        return max(1.0, left_s)

    def _is_expired(self) -> bool:
        assert self._material is not None
        return self._material.expires_s is not None and self._material.expires_s <= self._wall_s()


def _seen(task: asyncio.Task[None]) -> None:
    """Whoever waited may have gone meanwhile."""
    if not task.cancelled():
        task.exception()
