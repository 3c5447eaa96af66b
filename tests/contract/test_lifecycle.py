"""How the daemon starts, drains and fails: what a supervisor sees of it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2

from schedulerd import __version__
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config.settings import Settings
from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import QUEUES, RawClient, UpdateStream, allocated

ROOT = Path(__file__).parents[2]


def schedulerd(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "schedulerd", *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        cwd=ROOT,
        env=environment,
        check=False,
    )


def with_unread_answers(daemon: DaemonProcess, client: RawClient) -> UpdateStream[si_pb2.AllocationResponse]:
    """A stream whose client does not read, with more answers than fit in the buffers of the connection."""
    count = 15_000
    client.set_up(memory=10_000_000, vcore=1_000_000)
    stream = client.allocations(reading=False)
    request = client.asks("app-1", [f"pod-{number}" for number in range(count)])
    for ask in request.asks:
        ask.tags["large"] = "x" * 1000
    stream.send(request)
    while daemon.metric("schedulerd_placements_total", rm=client.rm_id, partition="default") < count:
        pass
    return stream


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.smoke), signal.SIGINT])
def test_a_signal_drains(number: signal.Signals) -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target) as client:
        client.set_up()
        streams: list[UpdateStream[Any]] = [client.allocations(), client.applications(), client.nodes()]
        streams.append(client.allocations())  # this one will not have said whose it is
        streams[0].send(client.hello())
        streams[1].send(client.application("app-2"))
        streams[2].send(client.node("node-2"))
        streams[1].next()
        streams[2].next()
        health = client.watch_health()
        assert next(health).status == health_pb2.HealthCheckResponse.SERVING
        assert httpx.get(f"{daemon.url}/readyz").status_code == 200

        daemon.signal(number)
        assert next(health).status == health_pb2.HealthCheckResponse.NOT_SERVING
        for stream in streams:
            code, details = stream.status()
            assert (code, "draining" in details) == (grpc.StatusCode.UNAVAILABLE, True)
        assert daemon.wait() == 0


def test_a_drain_delivers_what_waits_and_says_that_it_is_not_ready() -> None:
    with DaemonProcess() as daemon, RawClient(daemon.target) as client:
        stream = with_unread_answers(daemon, client)
        daemon.signal(signal.SIGTERM)
        daemon.wait_for_event("closing")
        ready = httpx.get(f"{daemon.url}/readyz")
        assert (ready.status_code, ready.json()["reason"]) == (503, "draining")
        late = client.nodes()
        assert late.status()[0] is grpc.StatusCode.UNAVAILABLE
        placed = daemon.metric("schedulerd_placements_total", rm=client.rm_id, partition="default")

        stream.read()
        responses, code, _ = stream.rest()
        assert code is grpc.StatusCode.UNAVAILABLE
        assert len(allocated(responses)) == placed
        assert daemon.wait() == 0


def test_a_drain_waits_for_a_client_that_does_not_read_as_long_as_it_was_told_to() -> None:
    with DaemonProcess("--drain-timeout-s", "0.2") as daemon, RawClient(daemon.target) as client:
        with_unread_answers(daemon, client)
        daemon.signal(signal.SIGTERM)
        began, ended = (
            datetime.fromisoformat(daemon.wait_for_event(event)["timestamp"]) for event in ("closing", "stopped")
        )
        assert 0.2 <= (ended - began).total_seconds() < Settings().drain_timeout_s
        assert daemon.wait() == 0


def test_a_second_signal_ends_it_at_once() -> None:
    with DaemonProcess("--drain-timeout-s", "1000") as daemon, RawClient(daemon.target) as client:
        with_unread_answers(daemon, client)
        daemon.signal(signal.SIGTERM)
        daemon.wait_for_event("closing")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait() == 128 + signal.SIGTERM


def test_a_bug_of_the_core_ends_it_with_the_last_commands_in_the_log() -> None:
    with DaemonProcess(module="tests.contract.failing_daemon") as daemon, RawClient(daemon.target) as client:
        client.set_up()
        stream = client.allocations()
        stream.send(client.asks("app-1", ["fine"]))
        stream.until(lambda got: bool(allocated(got)))
        stream.send(client.asks("app-1", ["bug"]))
        assert stream.status()[0] is grpc.StatusCode.UNAVAILABLE
        failed = daemon.wait_for_event("step failed")
        assert "put here by a test" in failed["exception"]
        assert "'bug'" in failed["last_commands"][-1]
        assert [command for command in failed["last_commands"] if "NewApplication" in command]
        assert daemon.wait() == 70


@pytest.mark.parametrize(("flag", "name"), [("--grpc-bind", "gRPC"), ("--http-bind", "HTTP")])
def test_a_port_that_is_taken_is_one_clear_line(flag: str, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        binds = {"--grpc-bind": "127.0.0.1:0", "--http-bind": "127.0.0.1:0", flag: address}
        ended = schedulerd("serve", *(part for bind in binds.items() for part in bind))
    assert ended.returncode == 69
    (line,) = ended.stderr.splitlines()
    reason = json.loads(line)["reason"]
    assert reason == (
        f"cannot listen for {name} on {address}: Address already in use; "
        f"set another address with {flag} or SCHEDULERD_{flag[2:].replace('-', '_').upper()}"
    )


def test_a_queue_file_with_mistakes_is_found_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUES.replace("name: b", "name: A"))
    ended = schedulerd("serve", "--config", str(file), "--grpc-bind", "127.0.0.1:0", "--http-bind", "127.0.0.1:0")
    assert ended.returncode == 78
    problem, reason = map(json.loads, ended.stderr.splitlines())
    assert problem["problem"].startswith("line ")
    assert reason["reason"].startswith(f"{file}: 1 problem; run `schedulerd validate {file}`")


TLS = Path(__file__).parent / "tls"
NO_CERTIFICATES = "does not hold PEM certificates (-----BEGIN CERTIFICATE-----)"
NO_KEY = "does not hold a PEM private key without passphrase (-----BEGIN PRIVATE KEY-----)"
NOT_ITS_KEY = f"is not the private key of the first certificate in tls_cert_file {TLS / 'client.pem'}"


@pytest.mark.parametrize(
    ("cert", "key", "authorities", "setting", "problem"),
    [
        ("text", "server.key", None, "tls_cert_file", NO_CERTIFICATES),
        ("server.pem", "text", None, "tls_key_file", NO_KEY),
        ("client.pem", "server.key", None, "tls_key_file", NOT_ITS_KEY),
        ("server.pem", "server.key", "text", "tls_client_ca_file", NO_CERTIFICATES),
    ],
)
def test_a_tls_file_that_cannot_be_used_is_one_clear_line(
    tmp_path: Path, cert: str, key: str, authorities: str | None, setting: str, problem: str
) -> None:
    (tmp_path / "text").write_text("hello")
    files = {"tls_cert_file": cert, "tls_key_file": key, "tls_client_ca_file": authorities}
    paths = {name: tmp_path / file if file == "text" else TLS / file for name, file in files.items() if file}
    flags = [part for name, path in paths.items() for part in (f"--{name.replace('_', '-')}", str(path))]
    ended = schedulerd("serve", *flags, "--grpc-bind", "127.0.0.1:0", "--http-bind", "127.0.0.1:0")
    assert ended.returncode == 78
    (line,) = ended.stderr.splitlines()
    assert json.loads(line)["reason"] == f"cannot use TLS: {setting} {paths[setting]} {problem}"


def test_a_target_that_is_no_address_is_refused_at_once() -> None:
    ended = schedulerd("simulate", "--target", "localhost:0")
    assert ended.returncode == 1
    assert "'--target': 'localhost:0' must be HOST:PORT, like localhost:3333 or [::1]:3333" in ended.stderr


def test_it_ends_with_its_input_if_it_is_told_to() -> None:
    with DaemonProcess("--stop-at-input-end") as daemon:
        daemon.end_input()
        daemon.wait_for_event("standard input has ended")
        assert daemon.wait() == 0


def test_settings_that_are_wrong_are_named_where_they_come_from() -> None:
    ended = schedulerd("serve", "--inbox-max", "0", environment={"SCHEDULERD_GRPC_BIND": "nowhere"})
    assert ended.returncode == 78
    assert "--inbox-max" in ended.stderr
    assert "SCHEDULERD_GRPC_BIND" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_validate(tmp_path: Path) -> None:
    valid, invalid = tmp_path / "valid.yaml", tmp_path / "invalid.yaml"
    valid.write_text(QUEUES)
    invalid.write_text(QUEUES.replace("submitacl", "submitacls"))
    assert schedulerd("validate", str(valid)).returncode == 0
    ended = schedulerd("validate", str(invalid))
    assert ended.returncode == 3
    assert "line 6" in ended.stderr
    assert "submitacl" in ended.stderr
    assert schedulerd("validate", str(tmp_path / "none.yaml")).returncode == 2
    assert schedulerd("validate").returncode == 1
    assert schedulerd("validate", "--nonsense").returncode == 1


def test_version_and_help() -> None:
    assert schedulerd("--version").stdout == f"schedulerd {__version__}\n"
    listed = schedulerd("--help").stdout
    assert [command for command in ("demo", "serve", "simulate", "validate") if command not in listed] == []
    shown = " ".join(schedulerd("serve", "--help").stdout.split())
    assert "--grpc-bind" in shown
    for default in ("0.0.0.0:3333", "on", "off", "cn,dns,uri", "67108864, which is 64 MiB", "Hard"):
        assert f"[default: {default}]" in shown
    assert "{" not in shown, "a default is shown as a user would write it"
