"""The server's TLS credentials, with every file checked before gRPC gets it.

gRPC would find out at the first handshake, and then only fail it. OpenSSL finds out at once, but speaks neither of
settings nor of files, so each file is tried alone for what it has to hold.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc

from schedulerd.config import Settings
from schedulerd.daemon.failures import ExitCode, StartupFailed

_CERTIFICATES = "PEM certificates (-----BEGIN CERTIFICATE-----)"
_KEY = "a PEM private key without passphrase (-----BEGIN PRIVATE KEY-----)"


def server_credentials(settings: Settings) -> grpc.ServerCredentials | None:
    """TLS with a certificate, mutual TLS with client authorities as well, or None for plain text.

    Raises `StartupFailed` that names the setting, its file and what the file should hold.
    """
    cert_file, key_file, authorities_file = settings.tls_cert_file, settings.tls_key_file, settings.tls_client_ca_file
    if cert_file is None or key_file is None:
        return None
    _check_certificates("tls_cert_file", cert_file)
    _check_key(key_file, cert_file)
    if authorities_file is not None:
        _check_certificates("tls_client_ca_file", authorities_file)
    return grpc.ssl_server_credentials(
        [(key_file.read_bytes(), cert_file.read_bytes())],
        root_certificates=None if authorities_file is None else authorities_file.read_bytes(),
        require_client_auth=authorities_file is not None,
    )


def _check_certificates(setting: str, file: Path) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(file)
    except ssl.SSLError as error:
        raise _unusable(setting, file, f"does not hold {_CERTIFICATES}") from error
    except OSError as error:
        raise _unusable(setting, file, f"cannot be read: {error.strerror}") from error


def _check_key(file: Path, cert_file: Path) -> None:
    try:
        # The empty passphrase keeps OpenSSL from asking the terminal for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert_file, file, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"is not the private key of the first certificate in tls_cert_file {cert_file}"
        else:
            problem = f"does not hold {_KEY}"
        raise _unusable("tls_key_file", file, problem) from error
    except OSError as error:
        raise _unusable("tls_key_file", file, f"cannot be read: {error.strerror}") from error


def _unusable(setting: str, file: Path, problem: str) -> StartupFailed:
    return StartupFailed(f"cannot use TLS: {setting} {file} {problem}", ExitCode.CONFIG)
