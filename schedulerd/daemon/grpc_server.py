"""The gRPC server around the service: port, TLS, limits, health and reflection."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from schedulerd.address import split_address
from schedulerd.config import Settings
from schedulerd.daemon.admin_service import ADMIN_SERVICE
from schedulerd.daemon.callback_service import CALLBACK_SERVICE
from schedulerd.daemon.failures import cannot_listen
from schedulerd.daemon.health import Health
from schedulerd.daemon.identity import Identities, IdentityInterceptor
from schedulerd.daemon.refusals import Refusals
from schedulerd.daemon.request_reading import RequestReader
from schedulerd.daemon.service import SCHEDULER_SERVICE
from schedulerd.daemon.tls import ServerTls

OPTIONS: Sequence[tuple[str, int]] = (
    # Without it a second daemon on the same port would start and silently get half of the connections.
    ("grpc.so_reuseport", 0),
    # A dead peer is noticed also while it has no call; clients may ping as often as every 5 s.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
)


class GrpcServer:
    """Listens from construction on, and serves from `start` on."""

    def __init__(
        self,
        settings: Settings,
        handlers: Sequence[grpc.GenericRpcHandler],
        identities: Identities,
        refusals: Refusals,
        tls: ServerTls | None,
    ) -> None:
        """In plain text without `tls`. Raises `StartupFailed` if the address is taken."""
        silence_ms, sign_ms = round(1000 * settings.keepalive_s), round(1000 * _sign_of_life_seconds(settings))
        limits = [
            ("grpc.max_receive_message_length", settings.max_message_bytes),
            ("grpc.max_send_message_length", settings.max_message_bytes),
            ("grpc.max_concurrent_streams", settings.connection_calls_max),
            ("grpc.max_allowed_incoming_connections", settings.connections_max),
            ("grpc.server_handshake_timeout_ms", round(1000 * settings.handshake_timeout_s)),
            ("grpc.keepalive_time_ms", silence_ms),
            ("grpc.keepalive_timeout_ms", sign_ms),
            # This is what counts, as long as gRPC's own default for it (a minute) is longer than the one before.
            ("grpc.http2.ping_timeout_ms", sign_ms),
        ]
        self._server = grpc.aio.server(
            interceptors=[RequestReader(refusals), IdentityInterceptor(identities, refusals)],
            options=[*OPTIONS, *limits],
            maximum_concurrent_rpcs=settings.calls_max,
        )
        self._server.add_generic_rpc_handlers(tuple(handlers))
        self._health = Health(frozenset({"", SCHEDULER_SERVICE}))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if settings.grpc_reflection:
            names = (SCHEDULER_SERVICE, ADMIN_SERVICE, CALLBACK_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server)
        self.port = _listen(self._server, settings.grpc_bind, tls)

    async def start(self) -> None:
        await self._server.start()
        self._health.set_serving(True)

    def not_serving(self) -> None:
        """Answers health checks with NOT_SERVING from here on."""
        self._health.set_serving(False)

    async def stop(self, grace_seconds: float) -> None:
        """Refuses new calls at once, and cancels those that are still running after the grace."""
        await self._server.stop(grace_seconds)


def unnoticed_seconds(settings: Settings) -> float:
    """For how long a connection may be dead, at most, before that is noticed."""
    return settings.keepalive_s + _sign_of_life_seconds(settings)


def _sign_of_life_seconds(settings: Settings) -> float:
    """How long a client that is asked for a sign of life may take to give one."""
    return settings.keepalive_s / 3


def _listen(server: grpc.aio.Server, address: str, tls: ServerTls | None) -> int:
    try:
        if tls is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, tls.credentials))
    except RuntimeError as error:
        reason = _why_not_bound(address) or error
        raise cannot_listen("gRPC", address, "grpc_bind", reason) from error


def _why_not_bound(address: str) -> OSError | None:
    """What the system says about binding to the address, which gRPC does not pass on; None if it would work now."""
    host, port = split_address(address)
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        return error
    return None
