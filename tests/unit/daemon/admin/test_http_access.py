"""Who may change the log level, look at the state, and read the REST API over HTTP."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from schedulerd.config import Settings
from schedulerd.daemon.admin.api import tokens
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.api.tokens import TOKEN_LENGTH_MIN, TOKENS_BYTES_MAX, Tokens
from schedulerd.daemon.admin.http_access import ROLES, Gate
from schedulerd.daemon.runtime.failures import ExitCode, StartupFailed
from schedulerd.daemon.runtime.workers import Workers
from tests.loops import each_row
from tests.unit.daemon.admin.test_http import Daemon

VIEW, OPERATE = "view-token-0123456789", "operate-token-0123456789"
HERE, SIDECAR, ELSEWHERE = "127.0.0.1", "127.0.0.6", "192.0.2.7"
GUARDED = (("PUT", "/loglevel"), ("GET", "/debug/state"))


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"ann view {VIEW}\nbob operate {OPERATE}\n", encoding="ascii")
    return file


def a_gate(**given: Any) -> Gate:
    settings = Settings.model_validate(given)
    return Gate(settings, Access(settings, Tokens.of(settings)))


def statuses(client: str = HERE, headers: dict[str, str] | None = None, **given: Any) -> list[int]:
    """Of a change of the log level, and of a look at the state."""
    daemon = Daemon(gate=a_gate(**given), client=client)
    found = [
        daemon.request(method, path, json={"level": "info"} if method == "PUT" else None, headers=headers)
        for method, path in GUARDED
    ]
    assert not any(token in one.text for one in found for token in (VIEW, OPERATE))
    assert len(daemon.queries) == (found[1].status_code == 200)
    return [one.status_code for one in found]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.usefixtures("root_level")
@each_row(
    ("client", "access", "status"),
    [
        (HERE, None, 200),
        ("::1", None, 200),
        ("::ffff:127.0.0.1", None, 200),
        (SIDECAR, None, 403),
        (ELSEWHERE, None, 403),
        (ELSEWHERE, "auto", 403),
        (ELSEWHERE, "on", 200),
        (ELSEWHERE, "On", 200),
        (HERE, "off", 403),
    ],
)
def test_without_tokens_this_machine_is_answered_unless_told_otherwise(
    client: str, access: str | None, status: int
) -> None:
    given: dict[str, Any] = {} if access is None else {"http_loglevel": access, "http_debug_state": access}
    assert statuses(client, **given) == [status, status]


@each_row(
    "header",
    [
        "Forwarded",
        "Via",
        "X-Real-IP",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Forwarded-Client-Cert",
        "X-Envoy-External-Address",
        "X-Original-Forwarded-For",
    ],
)
def test_a_client_behind_a_proxy_is_not_on_this_machine(header: str) -> None:
    assert statuses(headers={header: HERE}) == [403, 403]
    assert rest_status("http_rest", headers={header: HERE}) == 403


@pytest.mark.parametrize("access", ["auto", "on"])
def test_foreign_names_and_pages_of_other_sites_are_refused(access: str) -> None:
    """A page of another site could let its own name stand for this machine."""
    given: dict[str, Any] = {"http_loglevel": access, "http_debug_state": access}
    assert statuses(headers={"Host": "evil.example"}, **given) == [421, 421]
    assert statuses(headers={"Origin": "http://evil.example"}, **given) == [403, 200]
    assert statuses(headers={"Host": "a.example"}, http_hosts="a.example", **given) == [200, 200]


@pytest.mark.usefixtures("root_level")
@pytest.mark.parametrize("access", ["auto", "token"])
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (bearer(OPERATE), [200, 200]),
        ({"Authorization": f"bearer  {OPERATE} "}, [200, 200]),
        (bearer(VIEW), [403, 200]),
        ({}, [401, 401]),
        (bearer(""), [401, 401]),
        (bearer(OPERATE[:-1]), [401, 401]),
        (bearer(OPERATE + "x"), [401, 401]),
        (bearer(OPERATE.upper()), [401, 401]),
        ({"Authorization": OPERATE}, [401, 401]),
        ({"Authorization": f"Basic {OPERATE}"}, [401, 401]),
    ],
)
def test_with_tokens_a_role_is_needed_on_this_machine_too(
    token_file: Path, access: str, headers: dict[str, str], expected: list[int]
) -> None:
    given: dict[str, Any] = {"http_loglevel": access, "http_debug_state": access, "http_tokens_file": token_file}
    assert statuses(headers=headers, **given) == expected


@pytest.mark.usefixtures("root_level")
def test_metrics_probes_and_the_look_at_the_log_level_need_no_token(token_file: Path) -> None:
    daemon = Daemon(gate=a_gate(http_tokens_file=token_file), client=ELSEWHERE)
    for path in ("/metrics", "/livez", "/readyz", "/loglevel"):
        assert daemon.request("GET", path, headers={"Host": "any.example"}).status_code == 200


def test_a_refusal_says_what_to_send(token_file: Path) -> None:
    daemon = Daemon(gate=a_gate(http_tokens_file=token_file))
    response = daemon.request("GET", "/debug/state")
    assert response.headers["www-authenticate"] == "Bearer"
    assert "http_tokens_file" in response.json()["description"]
    assert "the setting http_debug_state is auto" in response.json()["description"]
    response = Daemon(gate=a_gate(http_debug_state="off")).request("GET", "/debug/state")
    assert "http_debug_state" in response.json()["description"]


def test_anonymous_clients_may_read_what_is_set_to_auto(token_file: Path) -> None:
    given: dict[str, Any] = {"http_anonymous_view": True, "http_tokens_file": token_file}
    assert statuses(ELSEWHERE, **given) == [403, 200]
    assert statuses(ELSEWHERE, http_debug_state="token", **given) == [403, 401]


def test_bytes_that_are_no_text_are_no_token(token_file: Path) -> None:
    daemon = Daemon(gate=a_gate(http_tokens_file=token_file))
    response = daemon.request("GET", "/debug/state", headers={"Authorization": b"Bearer \xff\xfe"})
    assert response.status_code == 401


def rest_status(setting: str, client: str = HERE, headers: dict[str, str] | None = None, **given: Any) -> int:
    """200 if the gate opens."""
    raw = [(name.lower().encode(), value.encode()) for name, value in ({"Host": "localhost"} | (headers or {})).items()]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": raw, "client": (client, 1)}
    try:
        a_gate(**given).check(setting, Request(scope))
    except HTTPException as refused:
        return refused.status_code
    return 200


def test_the_rest_api_is_guarded_in_the_same_way(token_file: Path) -> None:
    assert set(ROLES) == {"http_loglevel", "http_debug_state", "http_rest", "http_rest_operate"}
    assert [rest_status("http_rest", one) for one in (HERE, SIDECAR, ELSEWHERE)] == [200, 403, 403]
    with_tokens: dict[str, Any] = {"http_tokens_file": token_file}
    found = [rest_status(one, headers=bearer(VIEW), **with_tokens) for one in ("http_rest", "http_rest_operate")]
    assert found == [200, 403]
    assert rest_status("http_rest_operate", headers=bearer(OPERATE), **with_tokens) == 200
    assert rest_status("http_rest", **with_tokens) == 401


def test_the_rest_api_that_is_on_is_open_to_other_names() -> None:
    assert rest_status("http_rest", ELSEWHERE, {"Host": "yunikorn.example"}, http_rest="on") == 200


def test_a_file_that_is_not_read_in_time_changes_nothing(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    async def story() -> None:
        known = Tokens(token_file)
        monkeypatch.setattr(tokens, "_read", lambda _: go_on.wait(10))
        known._workers = Workers("HTTP token files", threads=1, waiting_max=0, seconds_max=0.01)
        await known.reload()
        assert known.caller(VIEW) is not None

    asyncio.run(story())
    go_on.set()


def test_the_shortest_and_the_longest_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    for length in (TOKEN_LENGTH_MIN, TOKENS_BYTES_MAX - len("ann view ")):
        file.write_text("ann view " + "x" * length)
        Tokens(file)
    file.write_text("ann view " + "x" * (TOKEN_LENGTH_MIN - 1))
    with pytest.raises(StartupFailed, match="at least") as failed:
        Tokens(file)
    assert failed.value.code is ExitCode.CONFIG
    assert "xxxx" not in str(failed.value)


@pytest.mark.parametrize("setting", list(ROLES))
def test_an_unknown_token_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting}.*http_tokens_file"):
        Settings.model_validate({setting: "token"})


def test_a_client_that_cannot_be_told_is_elsewhere() -> None:
    assert Daemon(gate=a_gate(), client="").request("GET", "/debug/state").status_code == 403
