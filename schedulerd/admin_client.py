"""Asks a running daemon what a queue file would change: the client of `schedulerd validate FILE --against`."""

from __future__ import annotations

from pathlib import Path

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc

TIMEOUT_SECONDS = 10.0

_NOT_THIS_ONE = frozenset(
    {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.PERMISSION_DENIED}
)
_NOT_OURS = frozenset({grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL})


class DaemonUnusable(Exception):
    """The daemon cannot be asked; the text says what was found instead and what to check."""


class ResourceManagerNotChosen(Exception):
    """No resource manager is chosen, or the daemon does not accept the chosen one; the text says why."""


def tls_credentials(ca_file: Path, cert_file: Path | None, key_file: Path | None) -> grpc.ChannelCredentials:
    """Trusts the authorities (PEM) of `ca_file`, and presents a client certificate if given. Raises OSError."""
    return grpc.ssl_channel_credentials(
        ca_file.read_bytes(),
        None if key_file is None else key_file.read_bytes(),
        None if cert_file is None else cert_file.read_bytes(),
    )


class AdminClient:
    """A connection to the daemon at `target`, HOST:PORT; plain text without credentials."""

    def __init__(self, target: str, credentials: grpc.ChannelCredentials | None) -> None:
        self._target = target
        self._channel = (
            grpc.insecure_channel(target) if credentials is None else grpc.secure_channel(target, credentials)
        )
        self._stub = admin_pb2_grpc.AdminStub(self._channel)

    def __enter__(self) -> AdminClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def validate(self, text: str, rm_id: str) -> tuple[str, admin_pb2.ValidateConfigurationResponse]:
        """What the queue file `text` would change for the resource manager `rm_id`, or for the only one if `rm_id` is
        empty.

        Also returns the id of that resource manager, '' if none is registered. Raises `DaemonUnusable` and
        `ResourceManagerNotChosen`.
        """
        answer = self._ask(text, rm_id)
        if rm_id or not answer.allowed or not answer.resourceManagers:
            return rm_id, answer
        if len(answer.resourceManagers) > 1:
            known = ", ".join(map(repr, answer.resourceManagers))
            raise ResourceManagerNotChosen(f"several resource managers are registered at {self._target}: {known}")
        only = answer.resourceManagers[0]
        return only, self._ask(text, only)

    def _ask(self, text: str, rm_id: str) -> admin_pb2.ValidateConfigurationResponse:
        request = admin_pb2.ValidateConfigurationRequest(config=text, rmID=rm_id)
        try:
            return self._stub.ValidateConfiguration(request, timeout=TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            code, details = error.code(), error.details() or ""
        if code in _NOT_THIS_ONE:
            raise ResourceManagerNotChosen(details)
        if code in _NOT_OURS:
            raise DaemonUnusable(
                f"what answers at {self._target} is no schedulerd, or one of another version: {details}"
            )
        raise DaemonUnusable(
            f"no schedulerd answers at {self._target}: {details or code.name}; it must be the address of gRPC "
            "(port 3333 unless --grpc-bind says otherwise), with TLS on both sides or on none"
        )
