"""The REST API as one route of the HTTP application: it finds the handler, checks access, and writes the answer."""

from __future__ import annotations

import posixpath
from typing import Any

from starlette.datastructures import URLPath
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from schedulerd.daemon.runtime.shares import NoneLeft, Shared
from schedulerd.daemon.yunikorn.answers import Answers, busy, error_answer
from schedulerd.daemon.yunikorn.call import Call, RestSources
from schedulerd.daemon.yunikorn.configuration_routes import BODIES_MAX
from schedulerd.daemon.yunikorn.errors import PeerError
from schedulerd.daemon.yunikorn.events import STREAMS_MAX
from schedulerd.daemon.yunikorn.pacing import Pacer
from schedulerd.daemon.yunikorn.router import Router
from schedulerd.daemon.yunikorn.routes import ROUTES, PeerRoute

OTHER_PATHS = frozenset(route.path for route in ROUTES if not route.path.startswith("/ws/"))


class PeerApi(BaseRoute):
    """Takes all paths below `/ws`, in any case, and those of its routes elsewhere."""

    path = "/ws/v1/..."

    def __init__(self, sources: RestSources, pacer: Pacer | None = None) -> None:
        self._sources = sources
        self._router: Router[PeerRoute] = Router(ROUTES)
        self._answers = Answers(pacer or Pacer())
        self._streams = Shared(STREAMS_MAX, "event streams are open")
        self._bodies = Shared(BODIES_MAX, "queue files are being received")

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        clean = posixpath.normpath(f"/{scope['path'].lstrip('/')}").lower()
        is_ours = clean == "/ws" or clean.startswith("/ws/") or clean in OTHER_PATHS
        return (Match.FULL if is_ours else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._respond(request)
        response.headers["x-content-type-options"] = "nosniff"
        self._allow_origin(request, response)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        path: str = request.scope["path"]
        match = self._router.match(request.method, path)
        if match is None:
            query = request.scope["query_string"].decode("latin-1")
            return self._router.refusal(request.method, path, query)
        try:
            if match.route.guard:
                self._sources.check_access(match.route.guard, request)
            with self._answers.open.held(None):
                return await self._answer(request, match.route, dict(match.variables))
        except NoneLeft as error:
            return error_answer(busy(str(error)))
        except HTTPException as error:
            return error_answer(PeerError(error.status_code, error.detail, error.headers))
        except PeerError as error:
            return error_answer(error)

    async def _answer(self, request: Request, route: PeerRoute, variables: dict[str, str]) -> Response:
        work = self._answers.pacer.work()
        epoch_ns = self._sources.clocks().epoch_ns
        call = Call(self._sources, request, variables, work, self._streams, self._bodies, epoch_ns)
        await work.begin()
        try:
            value = await route.handler(call)
            if isinstance(value, Response):
                return value
            return await self._answers.write(work, value, request)
        finally:
            work.end()

    def _allow_origin(self, request: Request, response: Response) -> None:
        """Lets scripts of the configured web sites read the answer, and no others."""
        origins = self._sources.cors_origins
        origin = request.headers.get("origin")
        if not origins:
            return
        if "*" not in origins:
            response.headers.add_vary_header("Origin")
        if origin is None or not ("*" in origins or origin in origins):
            return
        response.headers["access-control-allow-origin"] = "*" if "*" in origins else origin
        response.headers["access-control-allow-methods"] = "GET, POST, OPTIONS"
        response.headers["access-control-allow-headers"] = "Content-Type, Accept, Authorization"
