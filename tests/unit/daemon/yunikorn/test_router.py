"""Whatever a client asks for, it gets an answer, and a redirect leads to a route of ours."""

from __future__ import annotations

from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from schedulerd.daemon.yunikorn.router import Router
from schedulerd.daemon.yunikorn.routes import ROUTES
from tests.loops import each_row
from tests.rest.world import World
from tests.unit.daemon.yunikorn.cluster import cluster, request

WORLD = cluster()
ROUTER = Router(ROUTES)

PARTS = st.sampled_from(
    sorted({part for route in ROUTES for part in route.path.split("/")} | {"", ".", "..", "*", "%2f"})
)
PATHS = st.lists(PARTS | st.text(max_size=5), max_size=8).map(lambda parts: "/" + "/".join(parts))
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS", "DELETE", "TRACE"])


@given(METHODS, PATHS, st.text(st.characters(max_codepoint=0x7E, min_codepoint=0x21), max_size=10))
def test_any_path_gets_a_bounded_answer(method: str, path: str, query: str) -> None:
    if ROUTER.match(method, path) is not None:
        return
    answer = ROUTER.refusal(method, path, query)
    assert answer.status_code in (200, 301, 307, 404, 405)
    if answer.status_code in (301, 307):
        location = answer.headers["location"]
        assert location.startswith(("/ws/v1/", "/debug/"))
        assert location.isascii()
        assert not set('\r\n <>"') & set(location.removesuffix(query))
        better = unquote(location.split("?", 1)[0])
        assert better != path
    if answer.status_code == 405:
        assert "OPTIONS" in answer.headers["allow"]


@given(st.text(max_size=20))
def test_any_name_finds_nothing_and_breaks_nothing(name: str) -> None:
    from urllib.parse import quote

    escaped = quote(name, safe="")
    for route in ROUTES:
        if "{" not in route.path:
            continue
        path = route.path.replace("{partition}", "default")
        for variable in ("{queue}", "{application}", "{state}", "{node}", "{user}", "{group}"):
            path = path.replace(variable, escaped)
        if "{" in route.path.replace("{partition}", ""):
            answer = request(WORLD, "GET", path)
            assert answer.status in (200, 301, 400, 404)
            assert answer.headers["x-content-type-options"] == "nosniff"


@each_row("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_route_is_found_by_its_own_path(route: object) -> None:
    path: str = route.path  # type: ignore[attr-defined]
    method: str = route.method  # type: ignore[attr-defined]
    match = ROUTER.match(method, path)
    assert match is not None
    assert match.route is route
    assert match.variables == {part[1:-1]: part for part in path.split("/") if part.startswith("{")}


def test_what_is_not_http_is_not_ours() -> None:
    from starlette.routing import Match

    from schedulerd.daemon.yunikorn.app import PeerApi

    api = PeerApi(World().rest)
    assert api.matches({"type": "websocket", "path": "/ws/v1/clusters"}) == (Match.NONE, {})
    assert api.matches({"type": "http", "path": "/wsx"}) == (Match.NONE, {})
    assert api.matches({"type": "http", "path": "/debug/state"}) == (Match.NONE, {})
