"""What a standby answers: of several replicas, one leads, and only there is a resource manager registered.

The others know nothing of the cluster. An answer without a single queue would look like an empty cluster, so their APIs
answer 503 until a resource manager registers.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import URLPath
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from schedulerd.daemon.admin.api.problems import problem

_RETRY_SECONDS = 5
"""When a client may come again."""

_DETAIL = "standby: no resource manager is registered here; ask the replica that leads"
_APIS = ("/api", "/ws")


class StandbyRoute(BaseRoute):
    """Takes every request for an API, in front of all other routes, as long as this is a standby."""

    def __init__(self, is_standby: Callable[[], bool]) -> None:
        self._is_standby = is_standby

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or not self._is_standby():
            return Match.NONE, {}
        path = f"/{scope['path'].lstrip('/')}".lower()
        is_api = any(path == api or path.startswith(f"{api}/") for api in _APIS)
        return (Match.FULL if is_api and path != "/ws/v1/metrics" else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(Request(scope, receive))(scope, receive, send)


def _answer(request: Request) -> Response:
    """In the form of the errors of each API."""
    headers = {"retry-after": str(_RETRY_SECONDS), "x-content-type-options": "nosniff"}
    if request.url.path.lower().startswith("/ws"):
        body = {"status_code": 503, "message": _DETAIL, "description": _DETAIL}
        return JSONResponse(body, 503, headers)
    return problem(503, _DETAIL, headers)
