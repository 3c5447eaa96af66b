"""Who is let in: tokens, roles, sessions, hosts and origins."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from schedulerd.config import Settings
from schedulerd.daemon.admin.api import access as access_module
from schedulerd.daemon.admin.api.access import (
    FAILED_LOGINS_MAX,
    LOGIN_SECONDS,
    SESSION_SECONDS_MAX,
    SESSIONS_MAX,
    Access,
)
from schedulerd.daemon.admin.api.tokens import TOKENS_BYTES_MAX, Caller, Role, Tokens
from schedulerd.daemon.runtime.failures import StartupFailed
from tests.unit import virtual_loop
from tests.unit.daemon.admin.api.api_world import OPERATE_TOKEN, TOKENS, VIEW_TOKEN, ApiWorld

ELSEWHERE = ("192.0.2.7", 5_000)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(TOKENS)
    return path


def write(file: Path, text: str) -> None:
    file.write_text(text)


def me(world: ApiWorld, **headers: str) -> tuple[int, Any]:
    response = world.request("GET", "/me", headers=headers)
    return response.status_code, response.json()


def a_request(method: str = "GET", **headers: str) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()]
    scope = {"type": "http", "method": method, "headers": raw, "query_string": b"", "client": ("127.0.0.1", 1)}
    return Request(scope)


def test_without_tokens_only_this_machine_is_answered() -> None:
    world = ApiWorld()
    assert me(world) == (200, {"name": "", "role": "operate"})
    world.client = ELSEWHERE
    status, body = me(world)
    assert status == 403
    assert body["detail"].startswith("without tokens only clients on the same machine are answered")


def test_a_proxy_on_this_machine_is_not_this_machine() -> None:
    assert me(ApiWorld(), **{"X-Forwarded-For": "192.0.2.7"})[0] == 403


def test_all_clients_may_read_if_so_set() -> None:
    world = ApiWorld(http_anonymous_view=True)
    world.client = ELSEWHERE
    assert me(world) == (200, {"name": "", "role": "view"})


def test_a_token_has_a_name_and_a_role(file: Path) -> None:
    world = ApiWorld(tokens=file)
    assert me(world)[0] == 401
    assert me(world, Authorization=f"Bearer {VIEW_TOKEN}") == (200, {"name": "ann", "role": "view"})
    assert me(world, Authorization=f"bearer {OPERATE_TOKEN}") == (200, {"name": "bob", "role": "operate"})
    assert me(world, Authorization="Bearer wrong")[0] == 401
    assert me(world, Authorization=f"Basic {VIEW_TOKEN}")[0] == 401


@pytest.mark.parametrize(
    "path", ["/queues", "/explain/queue?queue=root", "/events", "/events/stream", "/docs", "/openapi.json"]
)
def test_every_route_needs_a_token(file: Path, path: str) -> None:
    response = ApiWorld(tokens=file).request("GET", path)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


def test_a_role_that_is_not_enough(file: Path) -> None:
    async def story() -> None:
        access = Access(Settings(), Tokens(file))
        request = a_request(authorization=f"Bearer {VIEW_TOKEN}")
        assert access.check(request, Role.VIEW).name == "ann"
        with pytest.raises(HTTPException) as refused:
            access.check(request, Role.OPERATE)
        assert (refused.value.status_code, refused.value.detail) == (
            403,
            "token ann may view; this needs the role operate",
        )

    asyncio.run(story())


def test_all_tokens_are_compared_in_constant_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    in_constant_time = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(one)
        return in_constant_time(one, other)

    async def story() -> None:
        known = Tokens(file)
        monkeypatch.setattr(hmac, "compare_digest", compare)
        assert known.caller(VIEW_TOKEN) is not None
        assert known.caller("x") is None

    asyncio.run(story())
    assert len(compared) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no token"),
        ("ann view", "line 1 has 2 words"),
        (f"ann admin {VIEW_TOKEN}", "the role is 'admin'"),
        ("ann view short", "at least 16 characters"),
        (f"ann view {VIEW_TOKEN}\nann view {OPERATE_TOKEN}", "names two tokens alike"),
        ("ann view é" + VIEW_TOKEN, "ASCII"),
        ("#" * (TOKENS_BYTES_MAX + 1), str(TOKENS_BYTES_MAX)),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text, encoding="utf-8")

    async def story() -> None:
        Tokens(path)

    with pytest.raises(StartupFailed, match=said) as failed:
        asyncio.run(story())
    assert VIEW_TOKEN not in str(failed.value)


def test_the_file_is_read_again(file: Path) -> None:
    async def story() -> None:
        known = Tokens(file)
        write(file, f"ann operate {VIEW_TOKEN}\n")
        await known.reload()
        assert known.caller(OPERATE_TOKEN) is None
        found = known.caller(VIEW_TOKEN)
        assert found is not None
        assert found.role is Role.OPERATE
        write(file, "nonsense")
        await known.reload()
        assert known.caller(VIEW_TOKEN) == found

    asyncio.run(story())


def with_browser(file: Path, story: Callable[[httpx.AsyncClient], Any]) -> None:
    async def run() -> None:
        async with await ApiWorld(tokens=file).client_of() as client:
            await story(client)

    virtual_loop.run(run())


def test_a_browser_logs_in_and_out(file: Path) -> None:
    async def story(browser: httpx.AsyncClient) -> None:
        assert (await browser.post("/login", json={"token": "x" * 20})).status_code == 401
        response = await browser.post("/login", json={"token": OPERATE_TOKEN})
        assert response.json() == {"name": "bob", "role": "operate"}
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert OPERATE_TOKEN not in cookie
        assert (await browser.get("/me")).json()["name"] == "bob"
        assert (await browser.post("/logout")).status_code == 204
        assert (await browser.get("/me")).status_code == 401

    with_browser(file, story)


def test_a_session_that_ended_leaves_what_each_client_may(file: Path) -> None:
    world = ApiWorld(tokens=file, http_anonymous_view=True)
    assert me(world, Cookie="schedulerd_session=old") == (200, {"name": "", "role": "view"})
    assert me(world, Authorization="Bearer wrong")[0] == 401
    assert world.request("POST", "/queues/root.b/stop", headers={"Cookie": "schedulerd_session=old"}).status_code == 403


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", None])
def test_a_body_is_json_whatever_its_type_and_pages_of_other_sites_change_nothing(
    file: Path, content_type: str | None
) -> None:
    """A browser sends forms and plain text to other sites without asking them first, but always with `Origin`."""
    headers = {} if content_type is None else {"Content-Type": content_type}

    async def story(browser: httpx.AsyncClient) -> None:
        await browser.post("/login", json={"token": OPERATE_TOKEN})
        body = b'{"queue": "root.b", "resources": {"memory": 1}}'
        assert (await browser.post("/whatif/fits", content=body, headers=headers)).status_code == 200
        for foreign in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            for path in ("/whatif/fits", "/queues/root.b/stop", "/logout"):
                assert (await browser.post(path, content=body, headers=headers | foreign)).status_code == 403, path

    with_browser(file, story)


def test_a_session_ends_with_its_time_and_with_its_token(file: Path) -> None:
    async def story() -> None:
        now = 0.0
        known = Tokens(file)
        access = Access(Settings(), known, clock=lambda: now)

        def caller(cookie: str) -> Caller | None:
            try:
                return access.check(a_request(cookie=f"schedulerd_session={cookie}"), Role.VIEW)
            except HTTPException:
                return None

        cookie, _ = access.log_in(a_request("POST"), VIEW_TOKEN)
        assert caller(cookie) is not None
        now = SESSION_SECONDS_MAX + 1
        assert caller(cookie) is None
        cookie, _ = access.log_in(a_request("POST"), VIEW_TOKEN)
        for _ in range(SESSIONS_MAX):
            newest, _ = access.log_in(a_request("POST"), VIEW_TOKEN)
        assert caller(cookie) is None
        assert caller(newest) is not None
        write(file, f"bob operate {OPERATE_TOKEN}\n")
        await known.reload()
        assert caller(newest) is None

    asyncio.run(story())


def logs_in(access: Access, token: str, address: str = "192.0.2.7") -> int:
    request = a_request("POST")
    request.scope["client"] = (address, 1)
    try:
        access.log_in(request, token)
    except HTTPException as refused:
        return refused.status_code
    return 200


def test_logins_that_fail_are_limited_by_rate(file: Path) -> None:
    now = 0.0
    access = Access(Settings(), Tokens(file), clock=lambda: now)
    for _ in range(FAILED_LOGINS_MAX):
        assert logs_in(access, "wrong") == 401
    assert logs_in(access, "wrong") == logs_in(access, VIEW_TOKEN) == 429, "no guess is told to be right"
    assert logs_in(access, VIEW_TOKEN, "192.0.2.8") == 200
    for address in ("2001:db8::1", "2001:db8::2"):
        for _ in range(FAILED_LOGINS_MAX // 2):
            assert logs_in(access, "wrong", address) == 401
    assert logs_in(access, "wrong", "2001:db8::3") == 429, "one client has all addresses of its network"
    assert logs_in(access, "wrong", "2001:db8:0:1::1") == 401
    now = LOGIN_SECONDS
    assert logs_in(access, VIEW_TOKEN) == 200
    assert [logs_in(access, "wrong") for _ in range(2)] == [401, 429]


def test_addresses_whose_logins_fail_are_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "LOGIN_ADDRESSES_MAX", 3)
    access = Access(Settings(), Tokens(file), clock=lambda: 0.0)
    for number in range(5):
        assert logs_in(access, "wrong", f"192.0.2.{number}") == 401
    assert list(access._failures) == ["192.0.2.2", "192.0.2.3", "192.0.2.4"]


def test_one_token_does_not_end_the_sessions_of_another(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "SESSIONS_MAX", 5)
    access = Access(Settings(), Tokens(file), clock=lambda: 0.0)

    def is_open(cookie: str) -> bool:
        try:
            access.check(a_request(cookie=f"schedulerd_session={cookie}"), Role.VIEW)
        except HTTPException:
            return False
        return True

    others = [access.log_in(a_request("POST"), OPERATE_TOKEN)[0] for _ in range(2)]
    greedy = [access.log_in(a_request("POST"), VIEW_TOKEN)[0] for _ in range(20)]
    assert all(map(is_open, others))
    assert [one for one in greedy if is_open(one)] == greedy[-3:]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("[::1].evil.com", 421),
        ("[::1].evil.com:9080", 421),
        ("[::1]9080", 421),
        ("[::1", 421),
        ("[localhost]", 421),
        ("[::1]:", 200),
        ("localhost:9080", 200),
        ("10.0.3.7:9080", 200),
        ("[::1]:9080", 200),
        ("Scheduler.example:9080", 200),
        ("evil.example", 421),
        ("localhost.evil.example:9080", 421),
    ],
)
def test_the_host_header_names_this_daemon(host: str, status: int) -> None:
    """A page of another site, whose name leads here, must not be answered."""
    world = ApiWorld(http_hosts="scheduler.example,other")
    assert world.request("GET", "/me", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://localhost:9080"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_sites_change_nothing(file: Path, headers: dict[str, str], status: int) -> None:
    response = ApiWorld(tokens=file).request("POST", "/login", json={"token": VIEW_TOKEN}, headers=headers)
    assert response.status_code == status


@pytest.mark.parametrize("name", ["token", "access_token", "Authorization"])
def test_a_token_in_a_url_is_refused(name: str) -> None:
    assert ApiWorld().request("GET", "/me", params={name: VIEW_TOKEN}).status_code == 400
