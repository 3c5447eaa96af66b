"""The server's certificate, its key and the client CAs: read at the start, and again without a restart.

Every file is checked before gRPC gets it. gRPC would notice a bad file at the first handshake, and then only fail the
handshake. OpenSSL notices it at once, but its errors name neither setting nor file, so each file is checked alone for
what it has to contain.

Before every handshake gRPC asks for a newer configuration, on its own thread. The files are not read then: a slow disk
would delay clients, and an error in a file would not be noticed before a client connects.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc
import structlog

from schedulerd.config import FileUnusable, Settings, read_file
from schedulerd.daemon.files.rereading import READ_SECONDS_MAX, Reread
from schedulerd.daemon.runtime.failures import ExitCode, StartupFailed
from schedulerd.daemon.runtime.workers import Busy, TooSlow, Workers

_CERTIFICATES = "PEM certificates (-----BEGIN CERTIFICATE-----)"
_KEY = "a PEM private key without passphrase (-----BEGIN PRIVATE KEY-----)"


log = structlog.stdlib.get_logger(__name__)


def tls_files(settings: Settings) -> list[Path]:
    """The files of the TLS settings; empty for plain text."""
    return [file for file in (settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file) if file]


class ServerTls(Reread):
    """TLS with a server certificate; mutual TLS if there are client CAs."""

    def __init__(self, cert_file: Path, key_file: Path, authorities_file: Path | None) -> None:
        """Raises `StartupFailed` that names the setting, its file and what the file should contain."""
        super().__init__()
        self._cert_file = cert_file
        self._key_file = key_file
        self._authorities_file = authorities_file
        self._current = self._taken = self._read()
        self._workers = Workers("TLS files", threads=1, waiting_max=0, seconds_max=READ_SECONDS_MAX)
        self.credentials = grpc.dynamic_ssl_server_credentials(
            self._current,
            self._news,  # type: ignore[arg-type]  # gRPC takes None for "nothing new", its type stub does not
            require_client_authentication=authorities_file is not None,
        )

    @classmethod
    def of(cls, settings: Settings) -> ServerTls | None:
        """None for plain text. Raises `StartupFailed`."""
        if settings.tls_cert_file is None or settings.tls_key_file is None:
            return None
        return cls(settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file)

    async def reload(self) -> None:
        """Reads the files again, for new connections; open connections stay as they are.

        If the files cannot be used, the reason is logged and nothing changes.
        """
        try:
            self._current = await self._workers.run(self._read)
        except (StartupFailed, Busy, TooSlow) as error:
            log.error("TLS files not reloaded: nothing changed", reason=str(error))
        else:
            log.info("TLS files reloaded", tls_cert_file=str(self._cert_file))

    def _news(self) -> grpc.ServerCertificateConfiguration | None:
        """The configuration, if it was read since the last handshake. gRPC asks for one handshake at a time."""
        current = self._current
        if current is self._taken:
            return None
        self._taken = current
        return current

    def _read(self) -> grpc.ServerCertificateConfiguration:
        # OpenSSL opens the files itself, whatever they are. The first read has checked that they are regular files, and
        # the last read checks that they still contain what gRPC gets.
        files = {"tls_key_file": self._key_file, "tls_cert_file": self._cert_file}
        if self._authorities_file is not None:
            files["tls_client_ca_file"] = self._authorities_file
        read = {setting: _bytes(setting, file) for setting, file in files.items()}
        _check_certificates("tls_cert_file", self._cert_file)
        _check_key(self._key_file, self._cert_file)
        if self._authorities_file is not None:
            _check_certificates("tls_client_ca_file", self._authorities_file)
        for setting, file in files.items():
            if _bytes(setting, file) != read[setting]:
                raise _unusable(setting, file, "changes while it is read")
        pair = read["tls_key_file"], read["tls_cert_file"]
        return grpc.ssl_server_certificate_configuration([pair], read.get("tls_client_ca_file"))


def _check_certificates(setting: str, file: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(file)
    except ssl.SSLError as error:
        raise _unusable(setting, file, f"does not hold {_CERTIFICATES}") from error
    except OSError as error:
        raise _unusable(setting, file, f"cannot be read: {error.strerror}") from error


def _check_key(file: Path, cert_file: Path) -> None:
    try:
        # The empty passphrase keeps OpenSSL from asking for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert_file, file, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"is not the private key of the first certificate in tls_cert_file {cert_file}"
        else:
            problem = f"does not hold {_KEY}"
        raise _unusable("tls_key_file", file, problem) from error
    except OSError as error:
        raise _unusable("tls_key_file", file, f"cannot be read: {error.strerror}") from error


def _bytes(setting: str, file: Path) -> bytes:
    try:
        return read_file(file)
    except FileUnusable as error:
        raise _unusable(setting, file, str(error)) from error


def _unusable(setting: str, file: Path, problem: str) -> StartupFailed:
    return StartupFailed(f"cannot use TLS: {setting} {file} {problem}", ExitCode.CONFIG)
