"""The API as one application, to be mounted at `/api/v1`."""

from __future__ import annotations

import json
from pathlib import Path

from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import ASGIApp

from schedulerd.daemon.admin.api import (
    configuration_routes,
    docs_page,
    event_routes,
    explain_routes,
    list_routes,
    operations,
    problems,
)
from schedulerd.daemon.admin.api.access import COOKIE, SESSION_SECONDS_MAX, Access
from schedulerd.daemon.admin.api.answers import Answers
from schedulerd.daemon.admin.api.guard import Guard
from schedulerd.daemon.admin.api.pages import LISTS_MAX
from schedulerd.daemon.admin.api.routers import Router, is_making_schema
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.admin.api.tokens import Role
from schedulerd.daemon.runtime.shares import Shared

PREFIX = "/api/v1"
SCHEMA_FILE = Path(__file__).with_name("openapi.json")
_TOKEN_LENGTH_MAX = 4_096
"""Characters of a token that is sent to log in."""

_ABOUT = (
    "Queues, applications, asks, nodes and events of schedulerd, and why asks wait. Amounts are in the units of the "
    "scheduler interface (vcore in thousandths of a core, memory in bytes), times in nanoseconds since the Unix epoch."
)


class LoginBody(BaseModel):
    """What a browser sends to begin a session."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    token: str = Field(min_length=1, max_length=_TOKEN_LENGTH_MAX)
    """A token of `http_tokens_file`."""


class Myself(BaseModel):
    """Who the caller is to the daemon."""

    name: str
    role: Role


def build_api(sources: ApiSources) -> ASGIApp:
    """Builds the application with all routes, its schema and its page."""
    app = make_app(sources)
    _add_schema(app, sources.access)
    return Guard(app)


def make_app(sources: ApiSources) -> FastAPI:
    """Makes the application without its schema."""
    app = FastAPI(
        title="schedulerd API",
        version="1",
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": PREFIX}],
        responses=problems.PROBLEMS if is_making_schema() else None,
    )
    problems.install(app)
    access, answers = sources.access, Answers(sources)

    async def view(request: Request) -> None:  # a plain function would run in a thread
        access.check(request, Role.VIEW)

    reading = [Depends(view)]
    lists = Shared(LISTS_MAX, "lists are being written")
    app.include_router(operations.routes(sources, answers))
    app.include_router(list_routes.routes(sources, answers, lists), dependencies=reading)
    app.include_router(explain_routes.routes(sources, answers), dependencies=reading)
    app.include_router(configuration_routes.routes(sources, answers), dependencies=reading)
    app.include_router(event_routes.routes(sources, answers), dependencies=reading)
    app.include_router(_session_routes(access))
    return app


def _session_routes(access: Access) -> Router:
    router = Router(tags=["session"])

    @router.get("/me")
    async def who_am_i(request: Request) -> Myself:
        """Who the caller is, and what it may do."""
        found = access.check(request, Role.VIEW)
        return Myself(name=found.name, role=found.role)

    @router.post("/login")
    async def log_in(request: Request, body: LoginBody, response: Response) -> Myself:
        """Begins the session of a browser: answers with a cookie that stands for the token."""
        cookie, found = access.log_in(request, body.token)
        response.set_cookie(
            COOKIE,
            cookie,
            max_age=int(SESSION_SECONDS_MAX),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return Myself(name=found.name, role=found.role)

    @router.post("/logout", status_code=204)
    async def log_out(request: Request, response: Response) -> None:
        """Ends the session of a browser."""
        access.log_out(request)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    return router


def _add_schema(app: FastAPI, access: Access) -> None:
    """Serves the schema, which was made from the models before (`schema.py`), and its page."""
    text = SCHEMA_FILE.read_bytes()
    page = docs_page.page(json.loads(text)).encode()

    def served(path: str, body: bytes, media_type: str) -> None:
        async def serve(request: Request) -> Response:
            access.check(request, Role.VIEW)
            return Response(body, media_type=media_type)

        app.add_route(path, serve, methods=["GET"])

    served("/openapi.json", text, "application/json")
    served("/docs", page, "text/html")
    served("/docs.css", docs_page.STYLE.encode(), "text/css")
