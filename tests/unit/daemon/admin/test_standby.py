"""A standby says so on both APIs, and answers once a resource manager is registered."""

from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from schedulerd.core.language.facts.fact import ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.daemon.admin.standby import Standby, StandbyRoute
from tests.instants import at
from tests.loops import each_row
from tests.unit import virtual_loop


def get(path: str, *, standby: bool, method: str = "GET", leader: str = "") -> httpx.Response:
    async def served(_request: Request) -> Response:
        return PlainTextResponse("served")

    async def story() -> httpx.Response:
        said = Standby(lambda: standby)
        said.leader = leader
        app = Starlette(routes=[StandbyRoute(said), Route("/{path:path}", served, methods=["GET", "POST"])])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path)

    return virtual_loop.run(story())


@each_row("path", ["/api/v1/queues", "/api", "/API/v1/me", "/api/v1/login"])
@each_row("method", ["GET", "POST"])
def test_our_api(path: str, method: str) -> None:
    response = get(path, standby=True, method=method)
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"].startswith("standby: ")
    assert get(path, standby=False, method=method).text == "served"


@pytest.mark.parametrize(
    "path", ["/ws/v1/clusters", "/ws/v1/validate-conf", "/WS/v1/nodes", "/ws/v1/events/stream", "/debug/state?rm=a"]
)
def test_the_api_of_the_peer_and_the_state(path: str) -> None:
    response = get(path, standby=True)
    body = response.json()
    assert (response.status_code, body["status_code"], body["message"]) == (503, 503, body["description"])
    assert body["message"].startswith("standby: ")


@pytest.mark.parametrize(("path", "key"), [("/api/v1/queues", "detail"), ("/ws/v1/clusters", "message")])
def test_the_leader_is_named_once_it_is_known(path: str, key: str) -> None:
    assert get(path, standby=True).json()[key].endswith("; ask the replica that leads")
    assert get(path, standby=True, leader="batch-7").json()[key].endswith("; ask batch-7, which leads")


def test_another_leader_is_forgotten_when_a_resource_manager_registers() -> None:
    standby = Standby(lambda: True)
    standby.leader = "batch-7"
    standby.observe([ResourceManagerChanged("rm-1", ResourceManagerState.STOPPED, "")], at(0))
    assert standby.leader == "batch-7"
    standby.observe([ResourceManagerChanged("rm-1", ResourceManagerState.INIT, "")], at(0))
    assert not standby.leader


@each_row("path", ["/livez", "/readyz", "/metrics", "/ws/v1/metrics", "/ui/", "/", "/apis", "/wsx"])
def test_other_paths_are_as_ever(path: str) -> None:
    assert get(path, standby=True).text == "served"
