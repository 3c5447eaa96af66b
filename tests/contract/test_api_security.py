"""What a real daemon does with hostile requests for `/api/v1`, and what its log never has."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.contract.daemon_process import LIMIT_SECONDS, DaemonProcess
from tests.contract.raw_client import RawClient

VIEW, OPERATE, WRONG = "view-token-0123456789", "operate-token-0123456789", "wrong-token-0123456789"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text(f"ann view {VIEW}\nbob operate {OPERATE}\n")
    flags = ("--http-tokens-file", str(file), "--log-level", "debug")
    with DaemonProcess(*flags) as daemon, RawClient(daemon.target, "rm-1") as client:
        client.set_up()
        yield daemon


def ask(daemon: DaemonProcess, method: str, path: str, token: str = "", **headers: str) -> httpx.Response:
    given = {"authorization": f"Bearer {token}"} if token else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.request(method, daemon.url + path, headers=given | named, timeout=LIMIT_SECONDS)


def raw(daemon: DaemonProcess, path: str) -> int:
    """The status for a path that no library corrects."""
    parts = urlsplit(daemon.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT_SECONDS)
    connection.putrequest("GET", path)
    connection.putheader("Authorization", f"Bearer {VIEW}")
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_roles(guarded: DaemonProcess) -> None:
    statuses = [ask(guarded, "POST", "/api/v1/queues/root.b/stop", token).status_code for token in ("", WRONG, VIEW)]
    assert statuses == [401, 401, 403]
    assert ask(guarded, "POST", "/api/v1/queues/root.b/stop", OPERATE).json()["state"] == "stopped"
    assert ask(guarded, "POST", "/api/v1/queues/root.b/start", OPERATE).json()["state"] == "active"


def test_the_session_of_a_browser(guarded: DaemonProcess) -> None:
    with httpx.Client(base_url=guarded.url, timeout=LIMIT_SECONDS) as browser:
        assert browser.post("/api/v1/login", json={"token": WRONG}).status_code == 401
        answer = browser.post("/api/v1/login", json={"token": VIEW})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert browser.get("/api/v1/me").json() == {"name": "ann", "role": "view"}
        value = browser.cookies["schedulerd_session"]
        assert browser.post("/api/v1/logout").status_code == 204
        stale = {"cookie": f"schedulerd_session={value}"}
        assert httpx.get(f"{guarded.url}/api/v1/me", headers=stale, timeout=LIMIT_SECONDS).status_code == 401
        assert not [line for line in guarded.lines if value in line]


def test_pages_of_other_sites(guarded: DaemonProcess) -> None:
    evil = "http://evil.example"
    assert ask(guarded, "POST", "/api/v1/queues/root.b/stop", OPERATE, origin=evil).status_code == 403
    assert ask(guarded, "POST", "/api/v1/queues/root.b/stop", OPERATE, sec_fetch_site="cross-site").status_code == 403
    assert ask(guarded, "GET", "/api/v1/me", VIEW, host="evil.example").status_code == 421
    answer = ask(guarded, "GET", "/api/v1/me", VIEW, origin=evil)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert ask(guarded, "GET", "/livez", host="evil.example").status_code == 200


def test_tokens_stand_in_no_log_no_answer_and_no_url(guarded: DaemonProcess) -> None:
    for path in ("/api/v1/me", "/api/v1/queues", "/api/v1/nodes/x", "/api/v1/events", "/api/v1/docs", "/debug/state"):
        for token in (VIEW, OPERATE, WRONG):
            answer = ask(guarded, "GET", path, token)
            assert token not in answer.text + str(answer.headers)
    for name in ("token", "access_token", "Authorization"):
        answer = ask(guarded, "GET", f"/api/v1/me?{name}={WRONG}", VIEW)
        assert (answer.status_code, WRONG in answer.text) == (400, False)
    assert not [line for line in guarded.lines for token in (VIEW, OPERATE, WRONG) if token in line]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/../../etc/passwd",
        "/api/v1/%2e%2e/%2e%2e/etc/passwd",
        "/api/v1/..%2f..%2fetc%2fpasswd",
        "/api/v1/nodes/..%2f..%2f..%2fetc%2fpasswd",
        "/api/v1/docs/../../../etc/passwd",
        "/api/v1//etc/passwd",
        "/api/v1/nodes/%00",
        "/api/v1/queues/root%0d%0aSet-Cookie:%20a=b",
    ],
)
def test_paths_that_lead_elsewhere(guarded: DaemonProcess, path: str) -> None:
    assert raw(guarded, path) == 404


def test_oversized_queries(guarded: DaemonProcess) -> None:
    assert raw(guarded, "/api/v1/queues?queue=" + "x" * 4_000) == 422
    assert raw(guarded, "/api/v1/queues?" + "&".join(f"a{number}=1" for number in range(1_000))) == 422
    assert raw(guarded, "/api/v1/queues?queue=" + "x" * 20_000) == 400


def test_a_client_that_reads_nothing_delays_no_other(guarded: DaemonProcess) -> None:
    parts = urlsplit(guarded.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=LIMIT_SECONDS) as slow:
        request = f"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {VIEW}\r\n\r\n"
        slow.sendall(request.encode() * 50)
        assert ask(guarded, "GET", "/api/v1/queues", VIEW).status_code == 200
        assert ask(guarded, "GET", "/livez").status_code == 200
