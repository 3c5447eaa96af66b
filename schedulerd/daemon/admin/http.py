"""The HTTP port beside gRPC, on the same loop: metrics, probes, the log level and the state.

HTTP shares the loop with the scheduler, so that a response shows one consistent moment of the state without locks. The
price is that a blocked loop answers nothing. So a liveness probe has to treat a timeout as a failure, as Kubernetes and
Docker do. `/livez` itself can only report a loop that runs again after it was blocked for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from schedulerd.daemon.admin.debug_state import StateParameters
from schedulerd.daemon.admin.http_access import Gate
from schedulerd.daemon.admin.http_connections import (
    HEAD_BYTES_MAX,
    IDLE_SECONDS_MAX,
    HttpConnection,
    HttpConnections,
)
from schedulerd.daemon.admin.plain_bodies import PlainBodies
from schedulerd.daemon.admin.scrapes import Scrapes
from schedulerd.daemon.admin.standby import Standby, StandbyRoute
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.web_root import web_root_mount
from schedulerd.daemon.files.files_in_force import BrokenFile
from schedulerd.daemon.runtime.logs import LEVELS, LevelName, LogLevel
from schedulerd.daemon.runtime.shares import NoneLeft
from schedulerd.http_connections import Tell
from schedulerd.open_files import share

BODY_BYTES_MAX = 4096
"""Maximum size of a request body: no path here needs more."""
BROKEN_SHOWN = 10
"""Queue files that cannot be used of which `/readyz` tells."""
ACCEPTED_MAX = 128
"""Connections that the system may accept for the daemon at a time; for a moment they may cost as many descriptors. At
most a tenth of the limit of open files."""
SHUTDOWN_TIMEOUT_SECONDS = 2
LAST_WRITES_SECONDS = 0.1
"""How long connections may take to write what is left, after the server has stopped."""

Endpoint = Callable[[Request], Awaitable[Response]]
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Sources:
    """What the HTTP server uses of the rest of the daemon. All functions are called on the loop."""

    scrapes: Scrapes
    """The texts of `/metrics`."""
    log_level: LogLevel
    loop_age_seconds: Callable[[], float]
    """Time since the loop last ticked."""
    not_ready_because: Callable[[], str]
    """'' while the daemon serves, otherwise the reason why it is not ready: "starting", "draining", "failed"."""
    gate: Gate
    """Access to changing the log level and to reading the state."""
    journal_state: Callable[[], str]
    """What the journal does; '' if none is configured."""
    looks: StateQueries
    """The queries of `/debug/state`."""
    broken_files: Callable[[], Sequence[BrokenFile]] = tuple
    """The queue files that cannot be used at present."""
    api: ASGIApp | None = None
    """Our own API, served at `/api/v1`."""
    ui: ASGIApp | None = None
    """The web page, served at `/ui`."""
    loop_age_seconds_max: float = 5.0
    """`/livez` fails if the last tick is longer ago."""
    further: Sequence[BaseRoute] = ()
    """Routes of other APIs. One that has a `path` is named to clients that ask for a path that is not there."""
    standby: Standby = field(default_factory=lambda: Standby(lambda: False))
    """Whether another replica leads, so that this daemon knows nothing of the cluster."""
    web_root: Path | None = None
    """Directory of static files that are served at `/`."""


def metrics_endpoint(scrapes: Scrapes) -> Endpoint:
    """The endpoint of `/metrics`; the REST API has it too."""

    async def metrics(request: Request) -> Response:
        text, content_type = await scrapes.text(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    return metrics


class LogLevelBody(BaseModel):
    """Body of `PUT /loglevel`."""

    model_config = ConfigDict(extra="forbid")

    level: LevelName


def build_app(sources: Sources) -> Starlette:
    """Builds the application with all routes. Every error is JSON and says what would be right."""
    routes: list[BaseRoute] = [
        StandbyRoute(sources.standby),
        Route("/metrics", metrics_endpoint(sources.scrapes)),
        Route("/livez", _livez(sources)),
        Route("/readyz", _readyz(sources)),
        Route("/loglevel", _loglevel(sources.log_level, sources.gate), methods=["GET", "PUT"]),
        Route("/debug/state", _debug_state(sources.looks, sources.gate)),
    ]
    if sources.api is not None:
        routes.append(api_mount(sources.api))
    routes += sources.further
    if sources.ui is not None:
        routes.append(Mount("/ui", app=sources.ui))
        if sources.web_root is None:
            routes.append(Route("/", _to_page))
    if sources.web_root is not None:  # the last one, because it takes every path
        routes.append(web_root_mount(sources.web_root))
    return Starlette(
        routes=routes,
        middleware=[Middleware(PlainBodies)],
        exception_handlers={HTTPException: _refusal(routes), Exception: _internal_error},
    )


def api_mount(api: ASGIApp) -> Mount:
    """Everything below `/api/v1`, paths with line breaks included: names may have any character."""
    mount = Mount("/api/v1", app=api)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


async def _to_page(_request: Request) -> Response:
    return RedirectResponse("/ui/", 307)


def _livez(sources: Sources) -> Endpoint:
    async def livez(_request: Request) -> Response:
        age = sources.loop_age_seconds()
        late = age > sources.loop_age_seconds_max
        body = {"status": "late" if late else "ok", "loop_age_seconds": round(age, 6)}
        return JSONResponse(body, status_code=503 if late else 200)

    return livez


def _readyz(sources: Sources) -> Endpoint:
    async def readyz(_request: Request) -> Response:
        reason, journal = sources.not_ready_because(), sources.journal_state()
        body: dict[str, Any] = {"status": "not ready", "reason": reason} if reason else {"status": "ok"}
        if journal:  # a daemon whose journal has failed is still ready
            body["journal"] = journal
        # Also still ready: the last valid text is in force. Everybody reads this, so nothing of the file is quoted.
        if broken := sources.broken_files()[:BROKEN_SHOWN]:
            body["queue_files"] = [one.sentence(one.problem_without_text) for one in broken]
        return JSONResponse(body, status_code=503 if reason else 200)

    return readyz


def _loglevel(log_level: LogLevel, gate: Gate) -> Endpoint:
    async def loglevel(request: Request) -> Response:
        if request.method == "PUT":
            gate.check("http_loglevel", request)
            try:
                wanted = LogLevelBody.model_validate_json(await _body(request))
            except ValidationError as error:
                raise HTTPException(400, _sentence(error, '{"level": "info"}')) from error
            log_level.set(wanted.level)
        return JSONResponse({"level": log_level.get(), "allowed": LEVELS})

    return loglevel


def _debug_state(looks: StateQueries, gate: Gate) -> Endpoint:
    """Each response shows one moment of the state."""

    async def debug_state(request: Request) -> Response:
        gate.check("http_debug_state", request)
        try:
            query = StateParameters.model_validate(dict(request.query_params))
        except ValidationError as error:
            raise HTTPException(400, _sentence(error, "?application=app-1&limit=100")) from error
        try:
            body = await _unless_gone(request, looks.take(query))
        except NoneLeft as error:
            raise HTTPException(503, f"{error}; try again when they are taken") from error
        return Response(body, media_type="application/json")

    return debug_state


async def _unless_gone(request: Request, work: Coroutine[Any, Any, ResultT]) -> ResultT | None:
    """The result of `work`. If the client closes its connection first, `work` is cancelled and the result is None."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _body(request: Request) -> bytes:
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise HTTPException(413, f"the body has more than {BODY_BYTES_MAX} bytes")
    except ClientDisconnect as error:
        raise HTTPException(400, "the connection was closed before the body had come") from error
    return body


def _sentence(error: ValidationError, example: str) -> str:
    problems = (
        f"{'.'.join(map(str, problem['loc'])) or 'body'}: {problem['msg']} (got {problem['input']!r:.100})"
        for problem in error.errors()
    )
    return f"{'; '.join(problems)}; write for example {example}"


def _error(status: int, message: str, description: str, headers: dict[str, str] | None = None) -> Response:
    """An error in the format of YuniKorn's REST API, which clients may know."""
    body = {"status_code": status, "message": message, "description": description}
    return JSONResponse(body, status_code=status, headers=headers)


def _refusal(routes: Sequence[BaseRoute]) -> Callable[[Request, Exception], Awaitable[Response]]:
    paths = ", ".join(filter(None, (getattr(route, "path", "") for route in routes)))

    async def refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        match error.status_code:
            case 404:
                description = f"there is no {request.url.path}; there are {paths}"
            case 405:
                description = f"{request.url.path} takes {headers.get('Allow', '')}, not {request.method}"
            case _:
                description = error.detail
        return _error(error.status_code, error.detail, description, headers)

    return refusal


async def _internal_error(request: Request, error: Exception) -> Response:
    """Responds with 500. The framework raises the error again, so that the server logs it with its traceback."""
    return _error(
        500, "Internal Server Error", f"{type(error).__name__} while answering {request.url.path}; see the log"
    )


def uvicorn_config(app: Starlette, connections: HttpConnections) -> uvicorn.Config:
    """The configuration of uvicorn: it serves `app` on a loop that already runs, and within our bounds."""
    return uvicorn.Config(
        app,
        loop="none",
        http=partial(HttpConnection, connections),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # warnings are about what clients send
        access_log=False,
        server_header=False,
        backlog=share(10, ACCEPTED_MAX),
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_keep_alive=IDLE_SECONDS_MAX,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )


class HttpServer:
    """Serves an application on a listening socket, on a loop that already runs."""

    def __init__(self, app: Starlette, listener: socket.socket, tell: Tell) -> None:
        self._listener = listener
        self._connections = HttpConnections(tell)
        self._server = _Server(uvicorn_config(app, self._connections))

    @classmethod
    def bind(cls, app: Starlette, host: str, port: int, tell: Tell = lambda _peer, _reason: None) -> HttpServer:
        """Opens the port (0: any free one). Clients can connect from now on; `serve` answers them.

        `tell` is called for each connection that is closed before its client is done. Raises `OSError` if the port
        cannot be opened.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return cls(app, socket.create_server((host, port), family=family), tell)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    async def serve(self) -> None:
        """Serves until `stop` is called, then finishes running requests within a bounded time, and closes."""
        await self._server.serve(sockets=[self._listener])
        if self._connections:
            await asyncio.sleep(LAST_WRITES_SECONDS)
            self._connections.abort()
            await asyncio.sleep(0)  # connections close in the next turn of the loop

    def stop(self) -> None:
        self._server.should_exit = True


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Installs no signal handlers: the daemon handles signals for both of its servers."""
        yield
