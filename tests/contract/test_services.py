"""What stands beside the scheduler service on its port: health, reflection, TLS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient

TLS = Path(__file__).parent / "tls"


@pytest.mark.parametrize("service", ["", "si.v1.Scheduler"])
def test_health(client: RawClient, service: str) -> None:
    health: Any = health_pb2_grpc.HealthStub(client.channel)
    answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=LIMIT_SECONDS)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def reflect(
    client: RawClient, request: reflection_pb2.ServerReflectionRequest
) -> reflection_pb2.ServerReflectionResponse:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=LIMIT_SECONDS)
    assert isinstance(answer, reflection_pb2.ServerReflectionResponse)
    return answer


def test_reflection_lists_the_services_and_their_messages(client: RawClient) -> None:
    answer = reflect(client, reflection_pb2.ServerReflectionRequest(list_services=""))
    names = {service.name for service in answer.list_services_response.service}
    assert {"si.v1.Scheduler", "schedulerd.v1.Admin", "grpc.health.v1.Health"} <= names

    wanted = reflection_pb2.ServerReflectionRequest(file_containing_symbol="si.v1.AllocationAsk")
    (encoded,) = reflect(client, wanted).file_descriptor_response.file_descriptor_proto[:1]
    file = descriptor_pb2.FileDescriptorProto.FromString(encoded)
    assert "AllocationAsk" in {message.name for message in file.message_type}


def test_reflection_can_be_turned_off() -> None:
    with DaemonProcess("--no-grpc-reflection") as daemon, RawClient(daemon.target) as client:
        with pytest.raises(grpc.RpcError) as refused:
            reflect(client, reflection_pb2.ServerReflectionRequest(list_services=""))
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


MESSAGE_BYTES_MAX = 4 << 20


def test_a_message_above_the_limit_is_refused(client: RawClient) -> None:
    with DaemonProcess("--max-message-bytes", str(MESSAGE_BYTES_MAX)) as daemon, RawClient(daemon.target) as client:
        client.set_up()
        stream = client.allocations()
        request = client.asks("app-1", ["x" * 3_000_000])
        request.asks[0].allocationKey += "x" * (MESSAGE_BYTES_MAX - request.ByteSize())
        stream.send(request)
        assert stream.next().rejected, "a message of that size is read"
        request.asks[0].allocationKey += "x"
        assert request.ByteSize() == MESSAGE_BYTES_MAX + 1
        stream.send(request)
        assert stream.status()[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


SERVER = ("--tls-cert-file", str(TLS / "server.pem"), "--tls-key-file", str(TLS / "server.key"))


def trusting() -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials((TLS / "ca.pem").read_bytes())


def identified() -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        (TLS / "ca.pem").read_bytes(), (TLS / "client.key").read_bytes(), (TLS / "client.pem").read_bytes()
    )


@pytest.mark.parametrize(
    ("flags", "credentials", "welcome"),
    [
        (SERVER, trusting, True),
        (SERVER, lambda: None, False),
        ((*SERVER, "--tls-client-ca-file", str(TLS / "ca.pem")), identified, True),
        ((*SERVER, "--tls-client-ca-file", str(TLS / "ca.pem")), trusting, False),
    ],
    ids=["tls", "plain text to tls", "mutual", "mutual without a certificate"],
)
def test_tls(flags: tuple[str, ...], credentials: Callable[[], grpc.ChannelCredentials | None], welcome: bool) -> None:
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target, credentials=credentials()) as client:
        if welcome:
            client.register()
        else:
            with pytest.raises(grpc.RpcError) as refused:
                client.register()
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
