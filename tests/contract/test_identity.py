"""Certificates that are bound to rmIDs: every method of every service, over mutual TLS."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2, admin_pb2_grpc
from schedulerd.admin_client import AdminClient, ResourceManagerNotChosen, tls_credentials
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient
from tests.methods import METHODS

TLS = Path(__file__).parent / "tls"
MUTUAL = (
    *("--tls-cert-file", str(TLS / "server.pem"), "--tls-key-file", str(TLS / "server.key")),
    *("--tls-client-ca-file", str(TLS / "ca.pem")),
)


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    with DaemonProcess(*MUTUAL, "--rm-identities", "client=mine,client=my-*,server=*") as process:
        yield process


def a_client(daemon: DaemonProcess, name: str, rm_id: str) -> RawClient:
    """One with the certificate of this name; that of the server serves an operator as well."""
    files = [TLS / "ca.pem", TLS / f"{name}.key", TLS / f"{name}.pem"]
    return RawClient(daemon.target, rm_id, grpc.ssl_channel_credentials(*(file.read_bytes() for file in files)))


def a_request(method: MethodDescriptor, rm_id: str) -> Message:
    """One with nothing but the rmID, wherever its message has it."""
    message = GetMessageClass(method.input_type)()
    carrier: Any = message if "rmID" in method.input_type.fields_by_name else message.hello  # type: ignore[attr-defined]
    carrier.rmID = rm_id
    return message


def call(client: RawClient, method: MethodDescriptor, rm_id: str) -> tuple[grpc.StatusCode, str]:
    """How a call ends. On a stream a request of somebody else comes second; one that was let in complains of that."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    kind = ("stream" if method.client_streaming else "unary") + "_" + ("stream" if method.server_streaming else "unary")
    stub: Any = getattr(client.channel, kind)(path, request_serializer=lambda message: message.SerializeToString())
    requests = [a_request(method, rm_id), a_request(method, "somebody else")]
    try:
        answer = stub(iter(requests) if method.client_streaming else requests[0], timeout=LIMIT_SECONDS)
        if method.client_streaming:
            list(answer)
        elif method.server_streaming:
            next(answer)
            answer.cancel()
    except grpc.RpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_no_method_serves_a_client_that_is_not_bound_to_the_rm(daemon: DaemonProcess, method: MethodDescriptor) -> None:
    with a_client(daemon, "client", "mine") as client:
        code, details = call(client, method, "theirs")
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert details.endswith("rmID: the client 'cn:client', 'dns:localhost' may not use 'theirs'")


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_every_method_serves_one_that_is_and_an_operator(daemon: DaemonProcess, method: MethodDescriptor) -> None:
    for name in ("client", "server"):
        with a_client(daemon, name, "mine") as client:
            client.register()
            code, details = call(client, method, "mine")
            assert code not in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.DEADLINE_EXCEEDED)
            if method.client_streaming:
                assert code is grpc.StatusCode.INVALID_ARGUMENT
                assert "on a stream of 'mine'" in details or "was sent before" in details


def test_a_client_hears_of_no_resource_manager_but_its_own(daemon: DaemonProcess) -> None:
    with a_client(daemon, "server", "hidden") as operator, a_client(daemon, "client", "my-own") as client:
        operator.register()
        client.register()
        seen = {}
        for name, one in {"operator": operator, "client": client}.items():
            admin = admin_pb2_grpc.AdminStub(one.channel)
            request = admin_pb2.ValidateConfigurationRequest(config="", rmID="my-own")
            seen[name] = set(admin.ValidateConfiguration(request, timeout=LIMIT_SECONDS).resourceManagers)
            with pytest.raises(grpc.RpcError) as refused:
                admin.UnregisterResourceManager(
                    admin_pb2.UnregisterResourceManagerRequest(rmID="my-none"), timeout=LIMIT_SECONDS
                )
            assert ("hidden" in (refused.value.details() or "")) is (name == "operator")
        assert "hidden" in seen["operator"]
        assert seen["client"] <= {"mine", "my-own"}


def test_what_is_about_every_rm_is_for_operators_only(daemon: DaemonProcess) -> None:
    for name, allowed in (("client", False), ("server", True)):
        with a_client(daemon, name, "mine") as client:
            admin = admin_pb2_grpc.AdminStub(client.channel)
            if allowed:
                admin.ListEvents(admin_pb2.ListEventsRequest(), timeout=LIMIT_SECONDS)
            else:
                with pytest.raises(grpc.RpcError) as refused:
                    admin.ListEvents(admin_pb2.ListEventsRequest(), timeout=LIMIT_SECONDS)
                assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


def test_validation_against_a_running_daemon_needs_to_say_which_rm(daemon: DaemonProcess) -> None:
    def validate(rm_id: str) -> str:
        files = (TLS / "ca.pem", TLS / "client.pem", TLS / "client.key")
        with AdminClient(daemon.target, tls_credentials(*files)) as admin:
            return admin.validate(QUEUES, rm_id)[0]

    with a_client(daemon, "client", "mine") as client:
        client.register()
    assert validate("mine") == "mine"
    for rm_id, words in (("", "rmID: is empty, and the client 'cn:client'"), ("theirs", "may not use 'theirs'")):
        with pytest.raises(ResourceManagerNotChosen, match=words):
            validate(rm_id)


def test_a_refused_client_stands_in_the_log(daemon: DaemonProcess) -> None:
    with a_client(daemon, "client", "not-mine") as client:
        with pytest.raises(grpc.RpcError):
            client.register()
        line = daemon.wait_for_event("call refused", lambda one: one["rm_id"] == "not-mine")
        assert (line["method"], line["code"]) == ("RegisterResourceManager", "permission_denied")
        assert line["reason"] == "rmID: the client 'cn:client', 'dns:localhost' may not use 'not-mine'"


def test_the_rest_of_a_stream_cannot_be_of_another_rm(daemon: DaemonProcess) -> None:
    with a_client(daemon, "server", "theirs") as operator, a_client(daemon, "client", "mine") as client:
        operator.register()
        client.register()
        stream = client.nodes()
        stream.send(client.node("node-1"))
        assert [one.nodeID for one in stream.next().accepted] == ["node-1"]
        stream.send(operator.node("node-2"))
        assert stream.status()[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_one_client_cannot_hold_all_streams_nor_register_all_rms() -> None:
    bound = "client=mine-*,server=*"
    limits = ("--resource-managers-max", "4", "--calls-max", "100")
    with (
        DaemonProcess(*MUTUAL, "--rm-identities", bound, *limits) as daemon,
        a_client(daemon, "client", "mine-1") as client,
        a_client(daemon, "server", "theirs") as other,
    ):
        client.register()
        client.register()
        streams = [client.allocations() for _ in range(25)]
        for stream in streams:
            list(stream.call.initial_metadata())
        code, details = client.nodes().status()
        assert (code, details) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "25 streams are open by this client already, a quarter of the limit for all clients; close one first",
        )
        with a_client(daemon, "client", "mine-2") as second, pytest.raises(grpc.RpcError) as refused:
            second.register()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "this client has registered 1 resource managers already" in (refused.value.details() or "")
        other.set_up()
        streams[0].cancel()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 0


def test_one_client_cannot_hold_all_streams_of_health() -> None:
    with (
        DaemonProcess(*MUTUAL, "--rm-identities", "client=mine,server=*", "--calls-max", "100") as daemon,
        a_client(daemon, "client", "mine") as client,
        a_client(daemon, "server", "theirs") as other,
    ):
        health: Any = health_pb2_grpc.HealthStub(client.channel)
        others_health: Any = health_pb2_grpc.HealthStub(other.channel)
        open_streams = [health.Watch(health_pb2.HealthCheckRequest()) for _ in range(7)]
        for stream in open_streams:
            next(stream)
        one_more = health.Watch(health_pb2.HealthCheckRequest())
        with pytest.raises(grpc.RpcError) as refused:
            next(one_more)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.value.details() == (
            "7 Health/Watch and reflection streams are open by this client already, a quarter of the limit for "
            "all clients; close one first (all of them together may be a quarter of calls_max)"
        )
        line = daemon.wait_for_event("call refused", lambda line: line["method"] == "Watch")
        assert line["code"] == "resource_exhausted"
        assert next(others_health.Watch(health_pb2.HealthCheckRequest()))
        client.register()
        allocations = [client.allocations() for _ in range(25 - len(open_streams))]
        for stream in allocations:
            list(stream.call.initial_metadata())
        code, details = client.nodes().status()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED, "streams of health count as any of this client"
        assert details.startswith("25 streams are open by this client already")


def may_register(daemon: DaemonProcess, name: str, rm_id: str) -> bool:
    with a_client(daemon, name, rm_id) as client:
        try:
            client.register()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.PERMISSION_DENIED:
                raise
            return False
        return True


def test_a_name_in_a_place_of_another_kind_lets_no_client_in() -> None:
    """Nor does one with a zero byte behind it, which gRPC cuts off."""
    bound = "client=of-client,spiffe://cluster/shim=of-uri,dns:shim.example=of-dns,cn:kinds=of-cn"
    rm_ids = ("of-client", "of-uri", "of-dns", "of-cn", "of-email", "of-ip")
    with DaemonProcess(*MUTUAL, "--rm-identities", bound) as daemon:
        line = daemon.event("clients are known by their certificates")
        assert line["names_that_count"] == ["cn", "dns", "uri"]
        allowed = {name: [one for one in rm_ids if may_register(daemon, name, one)] for name in ("confusing", "kinds")}
        assert allowed == {"confusing": [], "kinds": ["of-uri", "of-dns", "of-cn"]}
    bound, kinds = "email:shim@example=of-email,ip:10.0.0.1=of-ip", "email,ip"
    with DaemonProcess(*MUTUAL, "--rm-identities", bound, "--tls-identity-names", kinds) as daemon:
        assert daemon.event("clients are known by their certificates")["names_that_count"] == ["email", "ip"]
        allowed = {name: [one for one in rm_ids if may_register(daemon, name, one)] for name in ("confusing", "kinds")}
        assert allowed == {"confusing": [], "kinds": ["of-email", "of-ip"]}


def test_without_the_setting_every_client_that_may_connect_may_use_every_rm() -> None:
    with DaemonProcess(*MUTUAL) as open_daemon, a_client(open_daemon, "client", "anything") as client:
        client.register()
