"""`schedulerd validate FILE --against HOST:PORT`: what a file would do to a running daemon, and how to miss it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from schedulerd.cli import cli
from tests.contract.daemon_process import DaemonProcess
from tests.contract.fake_scheduler import fake_scheduler
from tests.contract.raw_client import QUEUES, RawClient
from tests.contract.test_lifecycle import schedulerd

WITHOUT_A = QUEUES.replace("- name: a\n", "- name: c\n")
A_AS_PARENT = QUEUES.replace("- name: a\n", "- name: a\n            parent: true\n")
TLS = Path(__file__).parent / "tls"


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A daemon in which `rm` runs `app-1` in root.a."""
    with DaemonProcess() as daemon, RawClient(daemon.target) as client:
        client.set_up()
        yield daemon.target


def validate(directory: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    file = directory / "queues.yaml"
    file.write_text(text)
    return schedulerd("validate", str(file), *arguments)


def test_the_impact_on_the_only_resource_manager(target: str, tmp_path: Path) -> None:
    drains = "is no longer in the file and accepts nothing new; it has 1 application to finish: app-1"
    ended = validate(tmp_path, WITHOUT_A, "--against", target)
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[1:] == [
        f"impact on 'rm' at {target}:",
        f"  warning: queue root.a {drains}",
        "  queue root.c is new",
    ]
    same = validate(tmp_path, QUEUES, "--against", target, "--rm", "rm")
    assert (same.returncode, same.stdout.splitlines()[1:]) == (0, [f"impact on 'rm' at {target}: none"])


def test_what_the_daemon_would_refuse_is_not_valid(target: str, tmp_path: Path) -> None:
    ended = validate(tmp_path, A_AS_PARENT, "--against", target)
    assert ended.returncode == 3
    assert ended.stderr == (
        f"refused by {target}: queue root.a has 1 application and cannot become a parent; "
        "let them finish or remove them first\n"
    )


def test_which_resource_manager(target: str, tmp_path: Path) -> None:
    unknown = validate(tmp_path, QUEUES, "--against", target, "--rm", "other")
    assert unknown.returncode == 1
    assert "rmID: 'other' is not registered; registered are 'rm'; choose one with --rm" in unknown.stderr
    with RawClient(target, "second") as second:
        second.register()
        several = validate(tmp_path, QUEUES, "--against", target)
        assert several.returncode == 1
        assert f"several resource managers are registered at {target}: 'rm', 'second'" in several.stderr
        chosen = validate(tmp_path, WITHOUT_A, "--against", target, "--rm", "second")
        assert (
            "queue root.a is no longer in the file and accepts nothing new; it is empty and is removed" in chosen.stdout
        )


def test_no_resource_manager_is_registered(tmp_path: Path) -> None:
    with DaemonProcess() as daemon:
        ended = validate(tmp_path, QUEUES, "--against", daemon.target)
        assert (ended.returncode, ended.stdout.splitlines()[1:]) == (
            0,
            [f"no resource manager is registered at {daemon.target}: nothing runs there that could change"],
        )


def test_no_daemon_listens(tmp_path: Path) -> None:
    with socket.socket() as closed:  # bound, so that nobody else takes the port, and not listening
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        ended = validate(tmp_path, QUEUES, "--against", address)
    assert ended.returncode == 4
    assert f"no schedulerd answers at {address}: " in ended.stderr
    assert "Connection refused" in ended.stderr


def test_the_port_of_http_is_not_that_of_grpc(tmp_path: Path) -> None:
    with DaemonProcess() as daemon:
        ended = validate(tmp_path, QUEUES, "--against", daemon.url.removeprefix("http://"))
    assert ended.returncode == 4
    assert "it must be the address of gRPC (port 3333" in ended.stderr


def test_a_grpc_server_that_is_something_else(tmp_path: Path) -> None:
    async def ask() -> subprocess.CompletedProcess[str]:
        async with fake_scheduler() as fake:
            return await asyncio.to_thread(validate, tmp_path, QUEUES, "--against", fake.target)

    ended = asyncio.run(ask())
    assert ended.returncode == 4
    assert "is no schedulerd, or one of another version: Method not found" in ended.stderr


def test_mutual_tls(tmp_path: Path) -> None:
    server = ("--tls-cert-file", str(TLS / "server.pem"), "--tls-key-file", str(TLS / "server.key"))
    with DaemonProcess(*server, "--tls-client-ca-file", str(TLS / "ca.pem")) as daemon:
        own = ("--tls-cert-file", str(TLS / "client.pem"), "--tls-key-file", str(TLS / "client.key"))
        trusted = validate(tmp_path, QUEUES, "--against", daemon.target, "--tls-ca-file", str(TLS / "ca.pem"), *own)
        assert (trusted.returncode, trusted.stderr) == (0, "")
        plain = validate(tmp_path, QUEUES, "--against", daemon.target)
        assert plain.returncode == 4
        assert "with TLS on both sides or on none" in plain.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "localhost"], "'localhost' must be HOST:PORT, like localhost:3333"),
        (["--against", "localhost:99999"], "must be HOST:PORT"),
        (["--rm", "rm"], "name it with --against HOST:PORT"),
        (["--tls-ca-file", __file__], "name it with --against HOST:PORT"),
        (["--against", "a:1", "--tls-cert-file", __file__], "must be given together"),
        (["--against", "a:1", "--tls-cert-file", __file__, "--tls-key-file", __file__], "needs --tls-ca-file too"),
        (["--against", "a:1", "--tls-ca-file", "none.pem"], "'none.pem' does not exist"),
    ],
)
def test_options_that_do_not_fit_together(arguments: list[str], words: str) -> None:
    ended: Result = CliRunner().invoke(cli, ["validate", "queues.yaml", *arguments])
    assert ended.exit_code == 2, "which `main` makes 1"
    assert words in ended.stderr
