"""The daemon is asked over mutual TLS, and the question ends in time."""

from __future__ import annotations

import socket
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from schedulerd._generated.schedulerd.v1 import admin_pb2, callback_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.client import Client, ResourceManager
from schedulerd.kubernetes.admission.impact import DaemonAddress, Impact, ImpactUnknown, ask_impact
from tests.contract.daemon_process import DaemonProcess

SERVING = health_pb2.HealthCheckResponse.SERVING
CLIENT = ("ca.pem", "client.pem", "client.key")
TLS = Path(__file__).parents[2] / "contract" / "tls"
QUEUES = "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues: [{name: a}, {name: b}]\n"


@pytest.mark.slow
async def test_the_impact_is_told_over_mutual_tls(real_loop: None, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    flags = (
        "--config",
        str(file),
        "--tls-cert-file",
        str(TLS / "server.pem"),
        "--tls-key-file",
        str(TLS / "server.key"),
    )
    with DaemonProcess(*flags, "--tls-client-ca-file", str(TLS / "ca.pem")) as daemon:
        target = daemon.target.replace("127.0.0.1", "localhost")
        address = DaemonAddress(target, "kubernetes", TLS / "ca.pem", TLS / "client.pem", TLS / "client.key")
        with pytest.raises(ImpactUnknown, match="'kubernetes' is not registered"):
            await ask_impact(address, QUEUES, 10.0)
        with pytest.raises(ImpactUnknown, match=r"does not tell|not answered"):
            await ask_impact(replace(address, cert_file=None, key_file=None), QUEUES, 3.0)
        with pytest.raises(ImpactUnknown, match="cannot be read"):
            await ask_impact(replace(address, ca_file=tmp_path / "missing"), QUEUES, 3.0)


@pytest.mark.slow
async def test_a_daemon_whose_shim_uses_a_socket_file(real_loop: None, tmp_path: Path) -> None:
    """As the chart has it: the second address is for those who ask, with certificates."""
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    server = ("--tls-cert-file", str(TLS / "server.pem"), "--tls-key-file", str(TLS / "server.key"))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # the path of a socket is short
        target = f"unix:{folder}/grpc.sock"
        flags = ("--config", str(file), *server, "--tls-client-ca-file", str(TLS / "ca.pem"))
        with DaemonProcess(*flags, "--grpc-bind", target, "--grpc-tls-bind", "127.0.0.1:0") as daemon:
            port = daemon.event("serving")["grpc_tls_port"]
            address = DaemonAddress(f"localhost:{port}", "kubernetes", *(TLS / one for one in CLIENT))
            async with Client(target, ResourceManager(), rm_id="kubernetes"):
                assert await ask_impact(address, QUEUES, 10.0) == Impact("", ())
                with pytest.raises(ImpactUnknown, match=r"does not tell|not answered"):
                    await ask_impact(replace(address, cert_file=None, key_file=None), QUEUES, 3.0)
                await _answers_nothing_else(address.target)


async def _answers_nothing_else(target: str) -> None:
    """Whoever has a certificate for that question is no resource manager, and sees no state."""
    ca, certificate, key = ((TLS / one).read_bytes() for one in CLIENT)
    async with grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(ca, key, certificate)) as channel:
        files = (si_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR, callback_pb2.DESCRIPTOR)
        methods = [
            f"/{service.full_name}/{method.name}"
            for file in files
            for service in file.services_by_name.values()
            for method in service.methods
        ]
        assert "/si.v1.Scheduler/RegisterResourceManager" in methods
        answered = {method: await _code(channel, method) for method in methods}
        assert answered.pop("/schedulerd.v1.Admin/ValidateConfiguration") is not grpc.StatusCode.UNIMPLEMENTED
        assert set(answered.values()) == {grpc.StatusCode.UNIMPLEMENTED}
        check: Any = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert health_pb2.HealthCheckResponse.FromString(await check(b"", timeout=10)).status == SERVING


async def _code(channel: grpc.aio.Channel, method: str) -> grpc.StatusCode:
    """Of a call with an empty message."""
    begin: Any = channel.unary_unary(method)
    call = begin(b"", timeout=10)
    code: grpc.StatusCode = await call.code()
    return code


@pytest.mark.slow
async def test_what_would_change(real_loop: None, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES)
    with DaemonProcess("--config", str(file)) as daemon:
        async with Client(daemon.target, ResourceManager(), rm_id="kubernetes"):
            address = DaemonAddress(daemon.target, "kubernetes")
            assert await ask_impact(address, QUEUES, 10.0) == Impact("", ())
            impact = await ask_impact(address, QUEUES.replace("a}, {name: b", "a"), 10.0)
            assert "root.b" in impact.changes[0]
            refused = await ask_impact(address, "nonsense", 10.0)
            assert refused.refusal


async def test_nobody_there(real_loop: None) -> None:
    with pytest.raises(ImpactUnknown, match=r"does not tell|not answered"):
        await ask_impact(DaemonAddress("127.0.0.1:1", "kubernetes"), QUEUES, 2.0)


async def test_somebody_who_says_nothing(real_loop: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and says nothing
        port = silent.getsockname()[1]
        with pytest.raises(ImpactUnknown, match=r"not answered within 0\.3 s|does not tell"):
            await ask_impact(DaemonAddress(f"127.0.0.1:{port}", "kubernetes"), QUEUES, 0.3)
