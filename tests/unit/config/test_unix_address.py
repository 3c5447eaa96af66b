"""`unix:/PATH` as an address of the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schedulerd.address import UNIX_PATH_BYTES_MAX, unix_path
from schedulerd.config.settings import Settings


def test_a_path_is_an_address_for_grpc() -> None:
    assert unix_path("unix:/run/s.sock") == "/run/s.sock"
    assert unix_path("localhost:3333") is None
    assert Settings(grpc_bind="unix:/run/s.sock").grpc_bind == "unix:/run/s.sock"


@pytest.mark.parametrize("address", ["unix:", "unix:s.sock", "unix:/run/", "unix:/" + "x" * UNIX_PATH_BYTES_MAX])
def test_what_is_no_absolute_path_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="must be unix:/PATH"):
        Settings(grpc_bind=address)


def test_a_second_address_has_tls_beside_a_socket_file(tmp_path: Path) -> None:
    file = tmp_path / "file.pem"
    file.touch()
    files: dict[str, Any] = {"tls_cert_file": file, "tls_key_file": file}
    settings = Settings(grpc_bind="unix:/run/s.sock", grpc_tls_bind="0.0.0.0:3333", **files)
    assert settings.grpc_tls_bind == "0.0.0.0:3333"
    wrong: dict[str, Any]
    for wrong in ({"grpc_bind": "unix:/run/s.sock"}, {"grpc_bind": "0.0.0.0:3334", **files}):
        with pytest.raises(ValueError, match="grpc_tls_bind needs tls_cert_file and tls_key_file, and grpc_bind as"):
            Settings(grpc_tls_bind="0.0.0.0:3333", **wrong)


def test_http_has_no_socket_file() -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        Settings(http_bind="unix:/run/s.sock")
