"""Every route of the API has a request here that succeeds, and one that is refused. A route without them fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from starlette.routing import Mount, Route

from schedulerd.daemon.admin.api.app import SCHEMA_FILE
from schedulerd.daemon.admin.api.guard import API_BODY_BYTES_MAX
from tests.loops import each_row
from tests.unit import virtual_loop
from tests.unit.daemon.admin.api.api_world import ApiWorld
from tests.unit.daemon.admin.api.test_configuration import FILE


class Asked(NamedTuple):
    """A request, and its status."""

    path: str
    status: int = 200
    options: Mapping[str, Any] = MappingProxyType({})


def ok(path: str, **options: Any) -> Asked:
    return Asked(path, 200, options)


def no(status: int, path: str, **options: Any) -> Asked:
    return Asked(path, status, options)


ASK = {"queue": "root.b", "resources": {"memory": 1}}
LISTS = ("applications", "asks", "gangs", "limits", "nodes", "preemptions", "queues", "reservations", "users")

REQUESTS: dict[tuple[str, str], tuple[Asked, Asked]] = {
    **{("GET", f"/{name}"): (ok(f"/{name}"), no(422, f"/{name}?limit=x")) for name in LISTS},
    ("GET", "/queues/{path}"): (ok("/queues/root.a"), no(404, "/queues/%00")),
    ("POST", "/queues/{path}/stop"): (ok("/queues/root.a/stop"), no(404, "/queues/x/stop")),
    ("POST", "/queues/{path}/start"): (ok("/queues/root.a/start"), no(404, "/queues/x/start")),
    ("GET", "/applications/{application}"): (ok("/applications/app"), no(404, "/applications/..%2f..%2fapp")),
    ("GET", "/nodes/{node}"): (ok("/nodes/n1"), no(404, "/nodes/" + "n" * 9_000)),
    ("GET", "/explain/ask"): (ok("/explain/ask?application=app"), no(422, "/explain/ask?application=" + "a" * 2_000)),
    ("GET", "/explain/pod"): (ok("/explain/pod?namespace=ns&pod=pod-1"), no(404, "/explain/pod?namespace=a&pod=b")),
    ("GET", "/explain/application"): (ok("/explain/application?application=app"), no(422, "/explain/application")),
    ("GET", "/explain/queue"): (ok("/explain/queue?queue=root"), no(404, "/explain/queue?queue=a")),
    ("POST", "/whatif/fits"): (ok("/whatif/fits", json=ASK), no(422, "/whatif/fits", content=b"{")),
    ("GET", "/config"): (ok("/config"), no(404, "/config?rm=x")),
    ("GET", "/config/broken"): (ok("/config/broken"), no(421, "/config/broken", headers={"Host": "evil.example"})),
    ("POST", "/config/validate"): (
        ok("/config/validate", content=FILE),
        no(422, "/config/validate?colour=red", content=FILE),
    ),
    ("GET", "/events"): (ok("/events"), no(422, "/events?type=rabbit")),
    ("GET", "/events/stream"): (ok("/events/stream"), no(422, "/events/stream?after=:")),
    ("GET", "/me"): (ok("/me"), no(400, "/me?token=secret")),
    ("POST", "/login"): (
        Asked("/login", 401, {"json": {"token": "none is known here"}}),
        no(422, "/login", json={"token": 1}),
    ),
    ("POST", "/logout"): (
        Asked("/logout", 204, {}),
        no(413, "/logout", content=b"x" * (API_BODY_BYTES_MAX + 1)),
    ),
    ("GET", "/openapi.json"): (ok("/openapi.json"), no(421, "/openapi.json", headers={"Host": "evil.example"})),
    ("GET", "/docs"): (ok("/docs"), no(421, "/docs", headers={"Host": "evil.example"})),
    ("GET", "/docs.css"): (ok("/docs.css"), no(421, "/docs.css", headers={"Host": "evil.example"})),
}
"""By method and path: one that succeeds, and one that does not."""


def test_every_route_is_here() -> None:
    """Those of the schema, which another test compares with the code, and those that serve the schema itself."""

    async def beside_the_schema() -> set[tuple[str, str]]:
        [mount] = (await ApiWorld().app()).routes
        assert isinstance(mount, Mount)
        routes = mount.app._app.routes  # type: ignore[attr-defined]
        return {("GET", one.path) for one in routes if isinstance(one, Route)}

    schema = json.loads(SCHEMA_FILE.read_text())["paths"]
    found = {(method.upper(), path) for path, methods in schema.items() for method in methods}
    assert found | virtual_loop.run(beside_the_schema()) == REQUESTS.keys()


@pytest.fixture(scope="module")
def world() -> ApiWorld:
    return ApiWorld()


@each_row(("method", "path"), REQUESTS)
def test_a_request_that_succeeds_and_one_that_does_not(world: ApiWorld, method: str, path: str) -> None:
    for asked in REQUESTS[method, path]:
        response = world.request(method, asked.path, **asked.options)
        assert response.status_code == asked.status, response.text
        if asked.status >= 400:
            assert response.headers["content-type"] == "application/problem+json"
            body = response.json()
            assert (body["status"], len(body["detail"]) > 0) == (asked.status, True)
            assert len(response.content) < 4_000
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in response.headers


@each_row(("method", "path"), REQUESTS)
def test_methods_that_no_route_takes(world: ApiWorld, method: str, path: str) -> None:
    """An unknown method, and what a browser asks before a request from another site."""
    asked = REQUESTS[method, path][0].path
    for other in ("PATCH", "OPTIONS", "TRACE"):
        response = world.request(other, asked, headers={"Origin": "http://evil.example"})
        assert response.status_code == 405
        assert "access-control-allow-origin" not in response.headers
