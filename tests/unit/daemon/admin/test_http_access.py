"""Who may change the log level and look at the state over HTTP."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from schedulerd.config import HttpAccess, Settings
from schedulerd.daemon.admin import http_access
from schedulerd.daemon.admin.http_access import TOKEN_BYTES_MAX, TOKEN_LENGTH_MIN, BearerToken, Gate, is_loopback
from schedulerd.daemon.runtime.failures import ExitCode, StartupFailed
from schedulerd.daemon.runtime.workers import Workers
from tests.unit.daemon.admin.test_http import Daemon

TOKEN = "0123456789-abcdef"
LOOPBACK, OPEN = "127.0.0.1:0", "0.0.0.0:0"
ELSEWHERE = "192.0.2.1"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", encoding="ascii")
    return file


def daemon_with(**given: object) -> Daemon:
    settings = Settings.model_validate(given)
    return Daemon(gate=Gate(settings, BearerToken.of(settings)))


def put(daemon: Daemon, **options: Any) -> httpx.Response:
    return daemon.request("PUT", "/loglevel", json={"level": "info"}, **options)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.usefixtures("root_level")
@pytest.mark.parametrize(
    ("bind", "access", "status"),
    [
        (LOOPBACK, None, 200),
        ("[::1]:0", None, 200),
        ("localhost:0", None, 200),
        (OPEN, None, 403),
        ("[::]:0", None, 403),
        (OPEN, "auto", 403),
        (OPEN, "on", 200),
        (OPEN, "On", 200),
        (LOOPBACK, "off", 403),
        (OPEN, "off", 403),
    ],
)
def test_the_log_level_can_be_changed_from_this_machine_only_unless_told_otherwise(
    bind: str, access: str | None, status: int
) -> None:
    given = {"http_bind": bind} | ({} if access is None else {"http_loglevel": access})
    daemon = daemon_with(**given)
    response = put(daemon, peer=ELSEWHERE)
    assert response.status_code == status
    if status == 403:
        assert "http_loglevel" in response.json()["description"]
    assert daemon.request("GET", "/loglevel").status_code == 200


@pytest.mark.parametrize(("bind", "access", "status"), [(OPEN, None, 200), (OPEN, "auto", 403), (LOOPBACK, "off", 403)])
def test_the_state_is_shown_unless_told_otherwise(bind: str, access: str | None, status: int) -> None:
    given = {"http_bind": bind} | ({} if access is None else {"http_debug_state": access})
    daemon = daemon_with(**given)
    response = daemon.request("GET", "/debug/state", peer=ELSEWHERE)
    assert response.status_code == status
    assert len(daemon.queries) == (status == 200)
    if status == 403:
        assert "http_debug_state" in response.json()["description"]


@pytest.mark.usefixtures("root_level")
@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        (ELSEWHERE, {}, 403),
        ("127.0.0.1", {"X-Forwarded-For": ELSEWHERE}, 403),
        ("127.0.0.1", {"Forwarded": f"for={ELSEWHERE}"}, 403),
    ],
)
def test_clients_on_the_same_machine_reach_an_open_port(peer: str, headers: dict[str, str], status: int) -> None:
    """As `kubectl port-forward` does; what a proxy forwards comes from elsewhere."""
    daemon = daemon_with(http_bind=OPEN, http_debug_state="auto")
    assert daemon.request("GET", "/debug/state", peer=peer, headers=headers).status_code == status
    assert put(daemon, peer=peer, headers=headers).status_code == status


@pytest.mark.usefixtures("root_level")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (bearer(TOKEN), 200),
        ({"Authorization": f"bearer  {TOKEN} "}, 200),
        ({}, 401),
        (bearer(""), 401),
        (bearer(TOKEN[:-1]), 401),
        (bearer(TOKEN + "x"), 401),
        (bearer(TOKEN.upper()), 401),
        ({"Authorization": TOKEN}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"Authorization": "Bearer "}, 401),
    ],
)
def test_a_token_is_demanded(token_file: Path, headers: dict[str, str], status: int) -> None:
    daemon = daemon_with(http_loglevel="token", http_debug_state="token", http_token_file=token_file)
    for response in (put(daemon, headers=headers), daemon.request("GET", "/debug/state", headers=headers)):
        assert response.status_code == status
        assert TOKEN not in response.text
        if status == 401:
            assert response.headers["www-authenticate"] == "Bearer"
            assert "http_token_file" in response.json()["description"]
    assert daemon.request("GET", "/metrics").status_code == 200
    assert daemon.request("GET", "/livez").status_code == 200


def test_bytes_that_are_no_text_are_no_token(token_file: Path) -> None:
    daemon = daemon_with(http_loglevel="token", http_token_file=token_file)
    assert put(daemon, headers={"Authorization": b"Bearer \xff\xfe"}).status_code == 401


@pytest.mark.usefixtures("root_level")
def test_a_token_that_has_changed_is_taken_over_and_one_that_is_none_is_not(token_file: Path) -> None:
    settings = Settings(http_loglevel=HttpAccess.TOKEN, http_token_file=token_file)
    token = BearerToken.of(settings)
    assert token is not None
    daemon = Daemon(gate=Gate(settings, token))
    newer = "another-token-of-ours"
    token_file.write_text(newer, encoding="ascii")
    assert put(daemon, headers=bearer(TOKEN)).status_code == 200
    with capture_logs() as lines:
        asyncio.run(token.reload())
        assert put(daemon, headers=bearer(TOKEN)).status_code == 401
        assert put(daemon, headers=bearer(newer)).status_code == 200
        token_file.write_text("short", encoding="ascii")
        asyncio.run(token.reload())
        token_file.unlink()
        asyncio.run(token.reload())
    assert put(daemon, headers=bearer(newer)).status_code == 200
    assert [line["log_level"] for line in lines] == ["info", "error", "error"]
    assert not any(one in str(lines) for one in (TOKEN, newer, "'short'"))


def test_a_token_that_is_not_read_in_time_changes_nothing(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = BearerToken(token_file)
    go_on = threading.Event()
    monkeypatch.setattr(http_access, "_read", lambda _: go_on.wait(10))
    token._workers = Workers("HTTP token files", threads=1, waiting_max=0, seconds_max=0.01)
    with capture_logs() as lines:
        asyncio.run(token.reload())
    go_on.set()
    assert lines[-1]["reason"] == "took longer than 0.01 s"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "at least"),
        (b"x" * (TOKEN_LENGTH_MIN - 1), "at least"),
        (b"x" * 20 + b" " + b"y" * 20, "without a space"),
        (b"x" * 20 + b"\n" + b"y" * 20, "one line"),
        ("é".encode() * 20, "visible ASCII"),
        (b"x" * (TOKEN_BYTES_MAX + 1), f"at most {TOKEN_BYTES_MAX} are allowed"),
    ],
)
def test_a_file_without_a_token_stops_the_start(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(StartupFailed, match=problem) as failed:
        BearerToken(file)
    assert failed.value.code is ExitCode.CONFIG
    assert "http_token_file" in str(failed.value)
    assert "xxxx" not in str(failed.value)


def test_the_shortest_and_the_longest_token(tmp_path: Path) -> None:
    for length in (TOKEN_LENGTH_MIN, TOKEN_BYTES_MAX):
        file = tmp_path / "token"
        file.write_bytes(b"x" * length)
        BearerToken(file)


@pytest.mark.parametrize("setting", ["http_loglevel", "http_debug_state"])
def test_an_unknown_token_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting}.*http_token_file"):
        Settings.model_validate({setting: "token"})


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *[(host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")],
        *[(host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "fe80::1%eth0", "schedulerd", "localhost.example")],
    ],
)
def test_what_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
