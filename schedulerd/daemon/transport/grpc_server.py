"""The gRPC server: ports, TLS, limits, health and reflection.

The second address (`grpc_tls_bind`) is a server of its own with one method: a client that asks what a queue file
would change needs a certificate, and one that is good for that question must not be good for acting as a resource
manager.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.address import split_address, unix_path
from schedulerd.config import Settings
from schedulerd.daemon.access.grpc_access import GrpcAccess
from schedulerd.daemon.access.identity import IdentityInterceptor
from schedulerd.daemon.access.request_reading import RequestReader
from schedulerd.daemon.access.standard_streams import StandardStreams
from schedulerd.daemon.access.tls import ServerTls
from schedulerd.daemon.runtime.failures import cannot_listen
from schedulerd.daemon.transport.health import Health
from schedulerd.daemon.transport.scheduler_service import SCHEDULER_SERVICE
from schedulerd.open_files import share

OPTIONS: Sequence[tuple[str, int]] = (
    # Without this, a second daemon on the same port would start and silently get half of the connections.
    ("grpc.so_reuseport", 0),
    # A dead peer is noticed also while it has no call. Clients may ping every 5 s.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)


ADMIN = admin_pb2.DESCRIPTOR.services_by_name["Admin"]
CHECKS = frozenset({f"/{ADMIN.full_name}/{ADMIN.methods_by_name['ValidateConfiguration'].name}"})
"""Methods that the second address has, beside health."""


class _Only(grpc.GenericRpcHandler):
    """Some methods of another handler; to clients there are no others."""

    def __init__(self, inner: grpc.GenericRpcHandler, methods: frozenset[str]) -> None:
        self._inner = inner
        self._methods = methods

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[object, object] | None:
        return self._inner.service(handler_call_details) if handler_call_details.method in self._methods else None


class GrpcServer:
    """Listens from construction on, and serves after `start`."""

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[str, Sequence[grpc.GenericRpcHandler]],
        access: GrpcAccess,
        tls: ServerTls | None,
    ) -> None:
        """`handlers` are those of each service, by its name. Without `tls` connections are plain text.

        Raises `StartupFailed` if the address is in use.
        """
        silence_ms, sign_ms = round(1000 * settings.keepalive_s), round(1000 * _sign_of_life_seconds(settings))
        limits = [
            ("grpc.max_receive_message_length", settings.max_message_bytes),
            ("grpc.max_send_message_length", settings.max_message_bytes),
            ("grpc.max_concurrent_streams", settings.connection_calls_max),
            ("grpc.max_allowed_incoming_connections", share(3, settings.connections_max)),
            ("grpc.server_handshake_timeout_ms", round(1000 * settings.handshake_timeout_s)),
            ("grpc.keepalive_time_ms", silence_ms),
            ("grpc.keepalive_timeout_ms", sign_ms),
            # This timeout takes effect, as long as gRPC's default for it (a minute) is longer than the one above.
            ("grpc.http2.ping_timeout_ms", sign_ms),
        ]
        refusals = access.refusals
        self._health = Health(frozenset({"", SCHEDULER_SERVICE}))

        def server(services: Iterable[grpc.GenericRpcHandler]) -> grpc.aio.Server:
            made = grpc.aio.server(
                interceptors=[
                    StandardStreams(access, handlers.keys()),
                    RequestReader(refusals),
                    IdentityInterceptor(access.identities, refusals),
                ],
                options=[*OPTIONS, *limits],
                maximum_concurrent_rpcs=settings.calls_max,
            )
            made.add_generic_rpc_handlers(tuple(services))
            health_pb2_grpc.add_HealthServicer_to_server(self._health, made)
            return made

        self._server = server(chain(*handlers.values()))
        self._servers = [self._server]
        if settings.grpc_reflection:
            names = (*handlers, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server)
        self.port = _listen(self._server, settings.grpc_bind, tls)
        self.tls_port = None
        """Of `grpc_tls_bind`."""
        if settings.grpc_tls_bind is not None:
            checks = server(_Only(one, CHECKS) for one in handlers[ADMIN.full_name])
            self.tls_port = _listen(checks, settings.grpc_tls_bind, tls, "grpc_tls_bind")
            self._servers.append(checks)

    async def start(self) -> None:
        for server in self._servers:
            await server.start()
        self._health.set_serving(True)

    def not_serving(self) -> None:
        """Makes health checks answer NOT_SERVING from now on."""
        self._health.set_serving(False)

    async def stop(self, grace_seconds: float) -> None:
        """Refuses new calls at once, and cancels calls that still run after the grace period."""
        await asyncio.gather(*(server.stop(grace_seconds) for server in self._servers))


def unnoticed_seconds(settings: Settings) -> float:
    """How long a dead connection may go unnoticed, at most."""
    return settings.keepalive_s + _sign_of_life_seconds(settings)


def _sign_of_life_seconds(settings: Settings) -> float:
    """How long a client may take to answer a keepalive ping."""
    return settings.keepalive_s / 3


def _listen(server: grpc.aio.Server, address: str, tls: ServerTls | None, setting: str = "grpc_bind") -> int:
    path = unix_path(address)
    if path is not None:
        return _listen_on_file(server, address, path)
    try:
        if tls is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, tls.credentials))
    except RuntimeError as error:
        reason = _why_not_bound(address) or error
        raise cannot_listen("gRPC", address, setting, reason) from error


def _listen_on_file(server: grpc.aio.Server, address: str, path: str) -> int:
    """A socket file for the user of the daemon alone, without TLS: its clients are on this machine.

    One that a dead daemon left is replaced, one of a living daemon is not; gRPC would replace both.
    """
    before = os.umask(0o177)
    try:
        _check_free(path)
        return int(server.add_insecure_port(address))
    except (OSError, RuntimeError) as error:
        raise cannot_listen("gRPC", address, "grpc_bind", error) from error
    finally:
        os.umask(before)


def _check_free(path: str) -> None:
    """Raises OSError if the socket file cannot be made."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        Path(path).parent.stat()
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "the file is no socket", path)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return  # no server listens
    raise OSError(errno.EADDRINUSE, "another process listens there", path)


def _why_not_bound(address: str) -> OSError | None:
    """The system's error for this address, which gRPC does not pass on; None if binding to it would work now."""
    host, port = split_address(address)
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        return error
    return None
