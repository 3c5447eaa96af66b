"""New tokens are taken over while the daemon runs, and stand in no log line."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess

OLD, NEW = "the-old-token-of-ours", "the-new-token-of-ours"


def status(daemon: DaemonProcess, token: str) -> tuple[int, int]:
    """Of a change of the log level, and a look at the state."""
    headers = {"Authorization": f"Bearer {token}"}
    put = httpx.put(f"{daemon.url}/loglevel", json={"level": "debug"}, headers=headers, timeout=LIMIT_SECONDS)
    get = httpx.get(f"{daemon.url}/debug/state", headers=headers, timeout=LIMIT_SECONDS)
    return put.status_code, get.status_code


def test_a_new_token_is_taken_over_at_a_signal(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ann operate {OLD}", encoding="ascii")
    with DaemonProcess("--http-tokens-file", str(file), "--queue-file-poll-s", "0") as daemon:
        assert (status(daemon, OLD), status(daemon, NEW)) == ((200, 200), (401, 401))
        file.write_text(f"ann operate {NEW}", encoding="ascii")
        daemon.signal(signal.SIGHUP)
        daemon.wait_for_event("HTTP tokens reloaded", lambda line: line["tokens"] == 1)
        assert (status(daemon, OLD), status(daemon, NEW)) == ((401, 401), (200, 200))
        assert not [line for line in daemon.lines if OLD in line or NEW in line]


def test_a_new_token_is_taken_over_when_the_file_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ann operate {OLD}", encoding="ascii")
    with DaemonProcess("--http-tokens-file", str(file), "--queue-file-poll-s", "0.05") as daemon:
        file.write_text(f"ann operate {NEW}", encoding="ascii")
        daemon.wait_for_event("HTTP tokens reloaded", lambda line: line["tokens"] == 1)
        assert (status(daemon, OLD), status(daemon, NEW)) == ((401, 401), (200, 200))
