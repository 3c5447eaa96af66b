"""What a standby answers: of several replicas, one leads, and only there is a resource manager registered.

The others know nothing of the cluster. An answer without a single queue would look like an empty cluster, so their APIs
answer 503 until a resource manager registers, and name the replica that leads, if theirs has said so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import grpc
from starlette.datastructures import URLPath
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd.core.language.facts.fact import Fact, ResourceManagerChanged
from schedulerd.core.language.lifecycles import ResourceManagerState
from schedulerd.daemon.access.methods import UnaryContext, unary
from schedulerd.daemon.admin.api.problems import problem
from schedulerd.instant import Instant

LEADER_LENGTH_MAX = 253
"""Characters of the name of a replica: as many as the name of a pod may have."""

_RETRY_SECONDS = 5
"""When a client may come again."""

_APIS = ("/api", "/ws", "/debug/state")


class Standby:
    """Whether this daemon is that of a standby, and who leads. Implements the method by which that is said."""

    def __init__(self, is_one: Callable[[], bool]) -> None:
        self.is_one = is_one
        self.leader = ""
        """Name of the replica that leads; empty if it is not known."""

    async def set_leader(
        self, request: admin_pb2.SetLeaderRequest, context: UnaryContext
    ) -> admin_pb2.SetLeaderResponse:
        if len(request.leader) > LEADER_LENGTH_MAX or not request.leader.isprintable():
            reason = f"leader: must be printable and have at most {LEADER_LENGTH_MAX} characters"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
        self.leader = request.leader
        return admin_pb2.SetLeaderResponse()

    def observe(self, facts: Sequence[Fact], _now: Instant) -> None:
        """Once a resource manager has registered here, another replica that led does so no longer."""
        for fact in facts:
            if isinstance(fact, ResourceManagerChanged) and fact.state is ResourceManagerState.INIT:
                self.leader = ""

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """The handlers of all methods, to be added to a `grpc.aio` server."""
        methods = {"SetLeader": unary(admin_pb2.SetLeaderRequest, self.set_leader)}
        service = admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name
        return [grpc.method_handlers_generic_handler(service, methods)]

    @property
    def detail(self) -> str:
        leads = f"{self.leader}, which leads" if self.leader else "the replica that leads"
        return f"standby: no resource manager is registered here; ask {leads}"


class StandbyRoute(BaseRoute):
    """Takes every request about the state, in front of all other routes, as long as this is a standby."""

    def __init__(self, standby: Standby) -> None:
        self._standby = standby

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or not self._standby.is_one():
            return Match.NONE, {}
        path = f"/{scope['path'].lstrip('/')}".lower()
        is_api = any(path == api or path.startswith(f"{api}/") for api in _APIS)
        return (Match.FULL if is_api and path != "/ws/v1/metrics" else Match.NONE), {}

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(Request(scope, receive), self._standby.detail)(scope, receive, send)


def _answer(request: Request, detail: str) -> Response:
    """In the form of the errors of each API."""
    headers = {"retry-after": str(_RETRY_SECONDS), "x-content-type-options": "nosniff"}
    if request.url.path.lower().startswith("/api"):
        return problem(503, detail, headers)
    return JSONResponse({"status_code": 503, "message": detail, "description": detail}, 503, headers)
