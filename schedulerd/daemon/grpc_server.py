"""The gRPC server around the service: port, TLS, limits, health and reflection."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from schedulerd.config import Settings, split_address
from schedulerd.daemon.failures import ExitCode, StartupFailed
from schedulerd.daemon.service import ADMIN_SERVICE, SCHEDULER_SERVICE

OPTIONS: Sequence[tuple[str, int]] = (
    # Without it a second daemon on the same port would start and silently get half of the connections.
    ("grpc.so_reuseport", 0),
    # A dead peer is noticed within 40 s, also while it sends nothing; clients may ping as often as every 5 s.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.max_concurrent_streams", 1_000),
)


class GrpcServer:
    """Listens from construction on, and serves from `start` on."""

    def __init__(self, settings: Settings, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Raises `StartupFailed` if the address is taken or the TLS files do not fit together."""
        limits = [
            ("grpc.max_receive_message_length", settings.max_message_bytes),
            ("grpc.max_send_message_length", settings.max_message_bytes),
        ]
        self._server = grpc.aio.server(options=[*OPTIONS, *limits])
        self._server.add_generic_rpc_handlers(tuple(handlers))
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if settings.grpc_reflection:
            names = (SCHEDULER_SERVICE, ADMIN_SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server)
        self.port = _listen(self._server, settings)

    async def start(self) -> None:
        await self._server.start()
        for name in ("", SCHEDULER_SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def not_serving(self) -> None:
        """Answers health checks with NOT_SERVING from here on."""
        await self._health.enter_graceful_shutdown()

    async def stop(self, grace_seconds: float) -> None:
        """Refuses new calls at once, and cancels those that are still running after the grace."""
        await self._server.stop(grace_seconds)


def _listen(server: grpc.aio.Server, settings: Settings) -> int:
    credentials = _credentials(settings)
    try:
        if credentials is None:
            return int(server.add_insecure_port(settings.grpc_bind))
        return int(server.add_secure_port(settings.grpc_bind, credentials))
    except RuntimeError as error:
        reason = _why_not_bound(settings.grpc_bind) or str(error)
        raise StartupFailed(f"cannot listen for gRPC on {settings.grpc_bind}: {reason}") from error


def _why_not_bound(address: str) -> str:
    """What the system says about binding to the address, which gRPC does not pass on; '' if it would work now."""
    host, port = split_address(address)
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _credentials(settings: Settings) -> grpc.ServerCredentials | None:
    """TLS with a certificate, mutual TLS with client authorities as well, or None for plain text."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    authorities = settings.tls_client_ca_file
    try:
        # gRPC finds out at the first handshake, and then only fails it; this says at the start what is wrong.
        check = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        check.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
        if authorities is not None:
            check.load_verify_locations(authorities)
        return grpc.ssl_server_credentials(
            [(settings.tls_key_file.read_bytes(), settings.tls_cert_file.read_bytes())],
            root_certificates=None if authorities is None else authorities.read_bytes(),
            require_client_auth=authorities is not None,
        )
    except OSError as error:  # ssl.SSLError is one
        files = ", ".join(str(file) for file in (settings.tls_cert_file, settings.tls_key_file, authorities) if file)
        raise StartupFailed(f"cannot use the TLS files {files}: {error}", ExitCode.CONFIG) from error
