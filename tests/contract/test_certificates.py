"""Certificates that are replaced while the daemon runs, and those of clients that get nowhere."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient, allocated

TLS = Path(__file__).parent / "tls"


class Files:
    """The TLS files of a daemon, to be replaced one by one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name, source in {"server.key": "server.key", "server.pem": "server.pem", "ca.pem": "ca.pem"}.items():
            self.replace(name, source)

    def replace(self, name: str, source: str) -> None:
        shutil.copyfile(TLS / source, self._directory / name)

    def flags(self) -> list[str]:
        settings = {"cert-file": "server.pem", "key-file": "server.key", "client-ca-file": "ca.pem"}
        return [word for name, file in settings.items() for word in (f"--tls-{name}", str(self._directory / file))]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def credentials(name: str | None, authority: str = "ca.pem") -> grpc.ChannelCredentials:
    """Of a client with the certificate of this name, or none, that trusts this authority."""
    trusted = (TLS / authority).read_bytes()
    if name is None:
        return grpc.ssl_channel_credentials(trusted)
    return grpc.ssl_channel_credentials(trusted, (TLS / f"{name}.key").read_bytes(), (TLS / f"{name}.pem").read_bytes())


def shown(daemon: DaemonProcess) -> str:
    """The common name that the daemon shows to a new connection."""
    context = ssl.create_default_context(cafile=TLS / "ca.pem")
    context.load_cert_chain(TLS / "client.pem", TLS / "client.key")
    context.set_alpn_protocols(["h2"])
    host, port = daemon.target.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=LIMIT_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        certificate: Any = connection.getpeercert()
    return str({key: value for ((key, value),) in certificate["subject"]}["commonName"])


def gets_in(daemon: DaemonProcess, name: str | None) -> bool:
    with RawClient(daemon.target, str(name), credentials(name)) as client:
        try:
            client.register()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False
        return True


def test_a_new_certificate_is_for_new_connections_and_those_that_are_open_stay(files: Files) -> None:
    with (
        DaemonProcess(*files.flags(), "--queue-file-poll-s", "0.05") as daemon,
        RawClient(daemon.target, credentials=credentials("client")) as client,
    ):
        client.set_up()
        stream = client.allocations()
        stream.send(client.asks("app-1", ["before"]))
        stream.until(lambda got: bool(allocated(got)))
        assert shown(daemon) == "server"

        files.replace("server.key", "renewed.key")
        files.replace("server.pem", "renewed.pem")
        daemon.wait_for_event("TLS files reloaded")
        assert shown(daemon) == "renewed"
        assert shown(daemon) == "renewed"
        stream.send(client.asks("app-1", ["after"]))
        assert [one.allocationKey for one in allocated(stream.until(lambda got: bool(allocated(got))))] == ["after"]


def test_the_trusted_certificates_are_read_again_at_sighup(files: Files) -> None:
    with DaemonProcess(*files.flags(), "--queue-file-poll-s", "0") as daemon:
        assert (gets_in(daemon, "client"), gets_in(daemon, "stranger")) == (True, False)
        files.replace("ca.pem", "other-ca.pem")
        daemon.signal(signal.SIGHUP)
        daemon.wait_for_event("TLS files reloaded")
        assert (gets_in(daemon, "client"), gets_in(daemon, "stranger")) == (False, True)


def test_a_file_that_cannot_be_used_changes_nothing_and_is_told(files: Files) -> None:
    with DaemonProcess(*files.flags(), "--queue-file-poll-s", "0") as daemon:
        files.replace("server.pem", "renewed.pem")
        daemon.signal(signal.SIGHUP)
        line = daemon.wait_for_event("TLS files not reloaded: nothing changed")
        assert line["level"] == "error"
        assert "is not the private key of the first certificate in tls_cert_file" in line["reason"]
        assert shown(daemon) == "server"
        files.replace("server.key", "renewed.key")
        daemon.signal(signal.SIGHUP)
        daemon.wait_for_event("TLS files reloaded")
        assert shown(daemon) == "renewed"


def test_wrong_certificates_get_nowhere(files: Files) -> None:
    with DaemonProcess(*files.flags()) as daemon:
        for name in (None, "expired", "stranger"):
            assert not gets_in(daemon, name), name
        with RawClient(daemon.target, "plain") as plain, pytest.raises(grpc.RpcError):
            plain.register()
        with (
            RawClient(daemon.target, "suspicious", credentials("client", "other-ca.pem")) as suspicious,
            pytest.raises(grpc.RpcError),
        ):
            suspicious.register()
        assert gets_in(daemon, "client")
        assert len([line for line in daemon.lines if '"registration"' in line]) == 1
