"""Certificates that change while they are read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from schedulerd.daemon import tls
from schedulerd.daemon.failures import StartupFailed
from schedulerd.daemon.tls import ServerTls

FILES = Path(__file__).parents[2] / "contract" / "tls"


@pytest.mark.parametrize("gone", ["server.pem", "server.key", "ca.pem"])
def test_a_file_that_goes_after_it_was_checked_changes_nothing_and_is_named(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("server.pem", "server.key", "ca.pem"):
        shutil.copy(FILES / name, tmp_path)
    server = ServerTls(tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "ca.pem")
    check = tls._check_certificates

    def check_and_remove(setting: str, file: Path) -> None:
        check(setting, file)
        if setting == "tls_client_ca_file":  # the last one that is checked
            (tmp_path / gone).unlink()

    monkeypatch.setattr(tls, "_check_certificates", check_and_remove)
    with capture_logs() as lines:
        server.reload()
    (line,) = lines
    assert line["log_level"] == "error"
    assert f"{tmp_path / gone} cannot be read: No such file or directory" in line["reason"]
    with pytest.raises(StartupFailed, match="cannot be read"):
        ServerTls(tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "ca.pem")
