"""Certificates that change while they are read."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from schedulerd.daemon.access import tls
from schedulerd.daemon.access.tls import ServerTls
from schedulerd.daemon.runtime.failures import StartupFailed
from schedulerd.daemon.runtime.workers import Workers

FILES = Path(__file__).parents[3] / "contract" / "tls"


@pytest.mark.parametrize("gone", ["server.pem", "server.key", "ca.pem"])
def test_a_file_that_goes_while_all_are_read_changes_nothing_and_is_named(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("server.pem", "server.key", "ca.pem"):
        shutil.copy(FILES / name, tmp_path)
    server = ServerTls(tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "ca.pem")
    read = tls._bytes

    def read_and_remove(setting: str, file: Path) -> bytes:
        content = read(setting, file)
        if setting == "tls_cert_file":  # the server's two files are read, and checked next
            (tmp_path / gone).unlink(missing_ok=True)
        return content

    monkeypatch.setattr(tls, "_bytes", read_and_remove)
    with capture_logs() as lines:
        asyncio.run(server.reload())
    (line,) = lines
    assert line["log_level"] == "error"
    assert f"{tmp_path / gone} cannot be read: No such file or directory" in line["reason"]
    with pytest.raises(StartupFailed, match="cannot be read"):
        ServerTls(tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "ca.pem")


def test_files_that_are_swapped_after_they_were_read_are_not_used_unchecked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("server.pem", "server.key", "ca.pem"):
        shutil.copy(FILES / name, tmp_path)
    server = ServerTls(tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "ca.pem")
    check_key, good = tls._check_key, (tmp_path / "server.pem").read_bytes()
    (tmp_path / "server.pem").write_bytes(good + b"another one")

    def swap_and_check(file: Path, cert_file: Path) -> None:
        cert_file.write_bytes(good)
        check_key(file, cert_file)

    monkeypatch.setattr(tls, "_check_key", swap_and_check)
    with capture_logs() as lines:
        asyncio.run(server.reload())
    (line,) = lines
    assert f"tls_cert_file {tmp_path / 'server.pem'} changes while it is read" in line["reason"]


@pytest.mark.parametrize("replaced", ["server.pem", "server.key", "ca.pem"])
def test_a_file_that_is_replaced_by_a_fifo_changes_nothing_and_is_named(replaced: str, tmp_path: Path) -> None:
    for name in ("server.pem", "server.key", "ca.pem"):
        shutil.copy(FILES / name, tmp_path)
    server = ServerTls(tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "ca.pem")
    (tmp_path / replaced).unlink()
    os.mkfifo(tmp_path / replaced)
    with capture_logs() as lines:
        asyncio.run(server.reload())
    (line,) = lines
    assert f"{tmp_path / replaced} cannot be read: it is a FIFO; it must be a regular file" in line["reason"]


def test_files_that_are_not_read_in_time_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ServerTls(FILES / "server.pem", FILES / "server.key", FILES / "ca.pem")
    go_on = threading.Event()
    monkeypatch.setattr(tls, "_bytes", lambda *_: go_on.wait(10))
    server._workers = Workers("TLS files", threads=1, waiting_max=0, seconds_max=0.01)
    with capture_logs() as lines:
        asyncio.run(server.reload())
    go_on.set()
    assert lines[-1]["reason"] == "took longer than 0.01 s"
