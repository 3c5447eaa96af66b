"""HTTP requests to one API server, with every size and time bounded.

A request that leaves carries the credentials of that moment. A 401 makes the client read them again, and once more
send what was refused: a 401 is never performed. Redirects are not followed, as they would carry the token elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp.tracing import Trace
from yarl import URL

from schedulerd import __version__
from schedulerd.kubernetes.api.errors import AnswerUnusable, Refused, Unreachable, WriteForbidden, cause
from schedulerd.kubernetes.api.metrics import ApiMetrics
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.status import retry_after_s, status_of
from schedulerd.kubernetes.api.write_connections import (
    CONNECT_SECONDS,
    NotConnected,
    Response,
    WriteConnection,
    WriteConnections,
)
from schedulerd.kubernetes.auth import Access, AccessUnusable, Credentials

ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""Of one object; etcd refuses objects of more than 1.5 MB, of which JSON may make several times as many."""
ERROR_BYTES_MAX = 256 * 1024
REQUEST_SECONDS = 30.0
READ_BUFFER_BYTES = 2**18

JSON = "application/json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
MERGE_PATCH = "application/merge-patch+json"

Gate = Callable[[], float]
"""How many seconds from now a write may still take effect; 0 or less: it must not leave."""


def ungated() -> float:
    return float("inf")


class Answer(msgspec.Struct, frozen=True, gc=False):
    status: int
    body: bytes


class Request(msgspec.Struct, frozen=True, gc=False):
    """What to ask for. `resource` is for metrics and messages."""

    method: str
    resource: Resource
    path: str
    query: Sequence[tuple[str, str]] = ()
    body: bytes | None = None
    content_type: str = JSON
    accept: str = ""
    """Of the answer; empty: JSON."""
    bytes_max: int = ANSWER_BYTES_MAX
    seconds_max: float = REQUEST_SECONDS

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def keepalive_socket(address: tuple[object, ...]) -> socket.socket:
    """A TCP socket whose peer is found dead within 45 s, also while nothing is to be sent."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)  # type: ignore[arg-type]
    keep_alive(sock)
    return sock


def keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 45_000)


CUTS_GOODBYES = sys.version_info < (3, 12, 8)
"""Whether connections that are closed during a request are cut after 2 s, and at the end, if the server does not answer
the goodbye of TLS. Newer versions of Python do without."""

_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)

_GATE: ContextVar[Gate | None] = ContextVar("gate", default=None)
"""Of the request that the running task sends."""


class GatedConnector(aiohttp.BaseConnector):
    """Checks the gate once more when a connection is there: making one may take seconds, in which it may close."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the signature is that of aiohttp
    ) -> aiohttp.connector.Connection:
        connection = await super().connect(req, traces, timeout)
        gate = _GATE.get()
        if gate is not None and gate() <= 0.0:
            connection.release()
            raise WriteForbidden(f"{req.method} {req.url.path}: not the leader when a connection was there")
        return connection

    async def dial(
        self, protocol: WriteConnection, host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None
    ) -> None:
        """A connection for writes."""
        raise NotImplementedError


def _abandon(response: aiohttp.ClientResponse) -> None:
    """Closes the connection at once if there is more to come: saying goodbye over TLS outlasts the event loop."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


class TcpConnector(GatedConnector, aiohttp.TCPConnector):
    """What a real API server is reached by."""

    async def dial(
        self, protocol: WriteConnection, host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None
    ) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=tls, server_hostname=server_name)
        keep_alive(transport.get_extra_info("socket"))


def tcp_connector() -> GatedConnector:
    # The number of connections is bounded by the write pool and the number of watches.
    return TcpConnector(
        limit=0, keepalive_timeout=60.0, socket_factory=keepalive_socket, enable_cleanup_closed=CUTS_GOODBYES
    )


class Transport:
    """Made and used on one event loop; `close` it at the end."""

    def __init__(
        self,
        access: Access,
        metrics: ApiMetrics | None = None,
        connector: Callable[[], GatedConnector] = tcp_connector,
    ) -> None:
        self.access = access
        self.metrics = metrics or ApiMetrics()
        made = connector()
        headers = {
            "User-Agent": f"schedulerd/{__version__} kubernetes",
            "Accept": JSON,
            "Accept-Encoding": "identity",
        }
        self._session = aiohttp.ClientSession(
            connector=made,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            headers=headers,
            read_bufsize=READ_BUFFER_BYTES,
        )
        self._writes: WriteConnections | None = None
        """Without it, as through a proxy, writes go as everything else."""
        if access.proxy is None:
            self._writes = WriteConnections(access.server, access.tls_server_name, headers, made.dial)

    async def close(self) -> None:
        if self._writes is not None:
            self._writes.close()
        await self._session.close()
        await self.access.close()

    async def request(self, request: Request, gate: Gate | None = None) -> Answer:
        """The answer, if its status is below 400. Raises `Refused`, `Unreachable`, `AnswerUnusable`,
        `WriteForbidden`."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        seconds_max = request.seconds_max if gate is None else min(request.seconds_max, gate())
        code = "unreachable"
        try:
            if seconds_max <= 0.0:
                code = "forbidden"
                raise WriteForbidden(f"{request}: not the leader")
            async with asyncio.timeout(seconds_max):
                if request.body is not None and self._writes is not None:
                    answer = await self._write(self._writes, request, request.body, gate)
                    code = str(answer.status)
                    return answer
                response = await self._open(request, gate)
                try:
                    code = str(response.status)
                    return Answer(response.status, await _read(response, request, request.bytes_max))
                finally:
                    response.release()
        except Refused as error:
            code = str(error.status.code)
            raise
        except (aiohttp.ClientError, OSError, AccessUnusable, NotConnected) as error:
            raise self._lost(request, error, seconds_max) from error
        finally:
            name = request.resource.plural
            self.metrics.requests[request.method, name, code] += 1
            self.metrics.request_seconds[request.method, name].observe(loop.time() - started_s)

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[aiohttp.StreamReader]:
        """The body as it comes, once the server has agreed to send it. Raises as `request` does.

        `request.seconds_max` is for the answer to begin. What is not read to its end closes the connection.
        """
        code = "unreachable"
        try:
            async with asyncio.timeout(request.seconds_max):
                response = await self._open(request, None)
            try:
                code = str(response.status)
                yield response.content
            finally:
                _abandon(response)
        except Refused as error:
            if code == "unreachable":
                code = str(error.status.code)
            raise
        except (aiohttp.ClientError, OSError, AccessUnusable) as error:
            raise self._lost(request, error, request.seconds_max) from error
        finally:
            self.metrics.requests["WATCH", request.resource.plural, code] += 1

    async def _open(self, request: Request, gate: Gate | None) -> aiohttp.ClientResponse:
        """A response that is a success, with its body still to be read."""
        credentials = await self.access.credentials()
        response = await self._send(request, credentials, gate)
        if response.status == 401:
            self.metrics.unauthorized += 1
            if self.access.reject(credentials) and (newer := await self.access.credentials()) is not credentials:
                response.release()
                response = await self._send(request, newer, gate)
        if response.status >= 300:
            try:
                await _refuse(response, request)
            finally:
                response.release()
        return response

    async def _write(self, connections: WriteConnections, request: Request, body: bytes, gate: Gate | None) -> Answer:
        """Raises OSError, `NotConnected`, `Refused`, `AnswerUnusable`, `WriteForbidden`, `AccessUnusable`."""
        credentials = await self.access.credentials()
        response = await _exchange(connections, request, body, credentials, gate)
        if response.status == 401:
            self.metrics.unauthorized += 1
            if self.access.reject(credentials) and (newer := await self.access.credentials()) is not credentials:
                response = await _exchange(connections, request, body, newer, gate)
        if response.status >= 300:
            status = status_of(response.status, response.body)
            raise Refused(str(request), status, retry_after_s(response.headers, status))
        return Answer(response.status, response.body)

    def _lost(self, request: Request, error: Exception, seconds_max: float) -> Unreachable:
        name = str(request)
        if isinstance(error, AccessUnusable):
            return Unreachable(f"no usable credentials: {error}", name, has_left=False)
        if isinstance(error, (NotConnected, *_NOT_CONNECTED)):
            return Unreachable(f"cannot connect to {self.access.server}: {cause(error)}", name, has_left=False)
        if isinstance(error, TimeoutError):
            return Unreachable(f"no answer within {seconds_max:g} s", name, has_left=True)
        return Unreachable(f"connection lost: {str(error) or type(error).__name__}", name, has_left=True)

    async def _send(self, request: Request, credentials: Credentials, gate: Gate | None) -> aiohttp.ClientResponse:
        headers: dict[str, str] = {}
        if credentials.authorization is not None:
            headers["Authorization"] = credentials.authorization
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if request.accept:
            headers["Accept"] = request.accept
        query = f"?{urlencode(request.query)}" if request.query else ""
        return await self._session.request(
            request.method,
            URL(f"{self.access.server}{request.path}{query}", encoded=True),
            data=request.body,
            headers=headers,
            ssl=credentials.tls if credentials.tls is not None else True,
            server_hostname=self.access.tls_server_name,
            proxy=self.access.proxy,
            allow_redirects=False,
            middlewares=(_Once(request, gate),),
        )


async def _exchange(
    connections: WriteConnections, request: Request, body: bytes, credentials: Credentials, gate: Gate | None
) -> Response:
    """The request leaves once, in the turn of the loop in which the gate was open."""
    target = f"{request.path}?{urlencode(request.query)}" if request.query else request.path
    content = connections.content(request.method, target, credentials, request.content_type, body)
    if gate is not None and gate() <= 0.0:
        raise WriteForbidden(f"{request}: not the leader when the write should have left")
    connection = await connections.connection(credentials.tls)

    def check() -> None:
        if gate is not None and gate() <= 0.0:
            raise WriteForbidden(f"{request}: not the leader when a connection was there")

    try:
        return await connection.exchange(content, request.bytes_max, ERROR_BYTES_MAX, check)
    finally:
        connections.release(connection)


class _Once:
    """Lets a request leave once, and only through the gate.

    aiohttp itself would send idempotent requests again after a lost connection. It retries its own exceptions only.
    """

    def __init__(self, request: Request, gate: Gate | None) -> None:
        self._request = request
        self._gate = gate

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if self._gate is not None and self._gate() <= 0.0:
            raise WriteForbidden(f"{self._request}: not the leader when the write should have left")
        _GATE.set(self._gate)
        try:
            return await handler(request)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            text = str(error) or type(error).__name__
            raise Unreachable(f"connection lost: {text}", str(self._request), has_left=True) from error


async def _refuse(response: aiohttp.ClientResponse, request: Request) -> None:
    try:
        body = await _read(response, request, ERROR_BYTES_MAX)
    except (AnswerUnusable, aiohttp.ClientError):  # the code says enough
        body = b""
    status = status_of(response.status, body)
    raise Refused(str(request), status, retry_after_s(response.headers, status))


async def _read(response: aiohttp.ClientResponse, request: Request, bytes_max: int) -> bytes:
    length = response.content_length
    if length is not None and length > bytes_max:
        raise AnswerUnusable(f"{request}: the answer has {length} bytes; at most {bytes_max} are read")
    if length is not None:
        return await response.read()
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > bytes_max:
            raise AnswerUnusable(f"{request}: the answer has more than {bytes_max} bytes")
        pieces.append(piece)
    return b"".join(pieces)
