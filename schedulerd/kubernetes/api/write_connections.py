"""HTTP/1.1 for writes: small requests and small answers on connections that stay open.

A binding and an event for each pod are most of what the shim does, and a general HTTP client takes four times as long
for one. A request is sent once, whatever happens to its connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import msgspec
from yarl import URL

from schedulerd.kubernetes.api.errors import AnswerUnusable
from schedulerd.kubernetes.auth import AccessUnusable, Credentials

HEAD_BYTES_MAX = 64 * 1024
IDLE_SECONDS_MAX = 60.0
CONNECT_SECONDS = 10.0
_END_OF_HEAD = b"\r\n\r\n"
_NEVER_IN_HEAD = ("\r", "\n", "\0")


class NotConnected(Exception):
    """No connection could be made, or it was lost before the request: nothing was sent."""


class Response(msgspec.Struct, frozen=True, gc=False):
    status: int
    headers: Mapping[str, str]
    """By name in the spelling of Retry-After; only headers that are used."""
    body: bytes


class WriteConnection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self.tls: ssl.SSLContext | None = None
        self.idle_since_s = 0.0
        self.is_usable = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._buffer = bytearray()
        self._bytes_max = self._error_bytes_max = 0
        self._clear()

    def _clear(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._length: int | None = None
        self._is_chunked = False
        self._chunks: list[bytes] = []
        self._chunks_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # those of uvloop are no subclasses of it
        self.is_usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        answer = self._answer
        if answer is None or answer.done():
            return
        if exc is None and self._status and self._length is None and not self._is_chunked:
            self._complete(bytes(self._buffer))  # its end is that of the connection
            return
        answer.set_exception(exc if isinstance(exc, OSError) else ConnectionResetError("closed without an answer"))

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.done():
            self.abort()  # nobody has asked
            return
        self._buffer += data
        try:
            while self._parse():
                pass
        except AnswerUnusable as error:
            self.abort()
            answer.set_exception(error)
        except ValueError as error:
            self.abort()
            answer.set_exception(ConnectionResetError(f"not an answer in HTTP: {error}"))

    def abort(self) -> None:
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    async def exchange(
        self, content: bytes, bytes_max: int, error_bytes_max: int, check: Callable[[], None] | None = None
    ) -> Response:
        """Sends a request, in this turn of the loop. Raises `NotConnected` if the connection is lost already (a new
        one can be, before its first request), OSError, `AnswerUnusable`, and what `check` raises.

        `check` is called at the last moment: between it and the system call that sends there is nothing that takes
        time but encryption, so that a process that is stopped and continued later has hardly anything to send.
        """
        assert self._transport is not None
        self._bytes_max, self._error_bytes_max = bytes_max, error_bytes_max
        self._clear()
        if not self.is_usable:
            raise NotConnected("the connection was lost before the request was sent")
        if check is not None:
            check()
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(content)
        try:
            return await self._answer
        except BaseException:
            self.abort()
            raise
        finally:
            self._answer = None

    def _parse(self) -> bool:
        """True if there may be more to parse."""
        if not self._status:
            return self._parse_head()
        if self._is_chunked:
            return self._parse_chunk()
        self._check_size(len(self._buffer) if self._length is None else self._length)
        if self._length is not None and len(self._buffer) >= self._length:
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._complete(body)
        return False

    def _parse_head(self) -> bool:
        end = self._buffer.find(_END_OF_HEAD)
        if end < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise ValueError("its head is too long")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + len(_END_OF_HEAD)]
        version, code = first[:9], first[9:12]
        if version not in ("HTTP/1.1 ", "HTTP/1.0 ") or not (code.isdecimal() and len(code) == 3):
            raise ValueError(f"it begins with {first[:40]!r}")
        status = int(code)
        if 100 <= status < 200 and status != 101:
            return True  # the answer follows
        connection = "" if version == "HTTP/1.1 " else "close"
        for line in lines:
            name, _, value = line.partition(":")
            match name.lower():
                case "content-length":
                    length = value.strip()
                    if not length.isdecimal() or len(length) > 15 or self._length not in (None, int(length)):
                        raise ValueError("its Content-Length cannot be used")
                    self._length = int(length)
                case "transfer-encoding":
                    if value.strip().lower() != "chunked":
                        raise ValueError(f"its Transfer-Encoding is {value[:40]!r}")
                    self._is_chunked = True
                case "content-encoding" if value.strip().lower() not in ("", "identity"):
                    raise ValueError(f"its Content-Encoding is {value[:40]!r}")
                case "connection":
                    connection = value.strip().lower()
                case "retry-after":
                    self._headers["Retry-After"] = value.strip()
        if status in (204, 304):
            self._length, self._is_chunked = 0, False
        if "close" in connection or (self._length is None) == (not self._is_chunked):
            self.is_usable = False  # also if it has two lengths, or none
        self._status = status
        return True

    def _parse_chunk(self) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > 1024:
                raise ValueError("the length of a chunk is too long")
            return False
        size = int(bytes(self._buffer[:end]).partition(b";")[0].decode("ascii"), 16)
        if size < 0:
            raise ValueError("a chunk has a negative length")
        self._check_size(self._chunks_bytes + size)
        if not self._is_chunked:
            return True
        if size == 0:
            if self._buffer[end : end + 4] == _END_OF_HEAD:
                del self._buffer[: end + 4]
                self._complete(b"".join(self._chunks))
            elif len(self._buffer) >= end + 4:
                raise ValueError("it has trailers")
            return False
        last = end + 2 + size
        if len(self._buffer) < last + 2:
            return False
        if self._buffer[last : last + 2] != b"\r\n":
            raise ValueError("a chunk has no end")
        self._chunks.append(bytes(self._buffer[end + 2 : last]))
        self._chunks_bytes += size
        del self._buffer[: last + 2]
        return True

    def _check_size(self, size: int) -> None:
        if self._status < 300:
            if size > self._bytes_max:
                raise AnswerUnusable(f"the answer has {size} bytes; at most {self._bytes_max} are read")
        elif size > self._error_bytes_max:  # the code says enough
            self._length, self._is_chunked = 0, False
            self.abort()

    def _complete(self, body: bytes) -> None:
        assert self._answer is not None
        if self._buffer:  # more than was asked for
            self.is_usable = False
            self._buffer.clear()
        self._answer.set_result(Response(self._status, self._headers, body))


Dial = Callable[[WriteConnection, str, int, "ssl.SSLContext | None", "str | None"], Awaitable[None]]
"""Connects the protocol to a host and port, with TLS and the name to verify."""


class WriteConnections:
    """All connections to one server; those that are free are used again, the last one first."""

    def __init__(self, server: str, tls_server_name: str | None, headers: Mapping[str, str], dial: Dial) -> None:
        url = URL(server)
        self._host, self._port = url.host or "", url.port or (443 if url.scheme == "https" else 80)
        self._prefix = url.raw_path.rstrip("/")
        self._server_name = tls_server_name or self._host
        host = url.host_port_subcomponent or ""
        self._common = "".join(f"{name}: {value}\r\n" for name, value in {"Host": host, **headers}.items())
        self._dial = dial
        self._idle: deque[WriteConnection] = deque()
        self._tls: ssl.SSLContext | None = None

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def content(self, method: str, target: str, credentials: Credentials, content_type: str, body: bytes) -> bytes:
        """A whole request. Raises `AccessUnusable` for a token that cannot be in one."""
        authorization = credentials.authorization
        line = "" if authorization is None else f"Authorization: {authorization}\r\n"
        if authorization is not None and any(one in authorization for one in _NEVER_IN_HEAD):
            raise AccessUnusable("the token has line breaks")
        head = (
            f"{method} {self._prefix}{target} HTTP/1.1\r\n{self._common}{line}"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("latin-1", "replace") + body

    async def connection(self, tls: ssl.SSLContext | None) -> WriteConnection:
        """One that is free, or a new one. Raises `NotConnected`."""
        if tls is not self._tls:  # of older credentials
            self.close()
            self._tls = tls
        oldest_s = asyncio.get_running_loop().time() - IDLE_SECONDS_MAX
        while self._idle and not (self._idle[0].is_usable and self._idle[0].idle_since_s > oldest_s):
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        connection = WriteConnection()
        connection.tls = tls
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._dial(connection, self._host, self._port, tls, self._server_name if tls else None)
        except OSError as error:  # of TLS, names and time too
            connection.abort()
            raise NotConnected(str(error) or type(error).__name__) from error
        return connection

    def release(self, connection: WriteConnection) -> None:
        """It may be used again, if it can."""
        if connection.is_usable and connection.tls is self._tls:
            connection.idle_since_s = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()
