"""HTTP beside gRPC, on the same loop: metrics, probes, the log level, and a look at the state.

It shares the loop with the scheduler because then whatever is answered is one consistent moment of one state, without
locks. The price is that a blocked loop answers nothing at all: a liveness probe has to treat a timeout as a failure,
which Kubernetes and Docker do. What `/livez` itself can report is a loop that runs again but was held too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import uvicorn
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from schedulerd.daemon.debug_state import StateParameters
from schedulerd.daemon.http_access import Gate
from schedulerd.daemon.http_connections import HEAD_BYTES_MAX, IDLE_SECONDS_MAX, HttpConnection, HttpConnections, Tell
from schedulerd.daemon.logs import LEVELS, LevelName, LogLevel
from schedulerd.daemon.scrapes import Scrapes
from schedulerd.daemon.shares import NoneLeft
from schedulerd.daemon.state_queries import StateQueries

BODY_BYTES_MAX = 4096
"""No request that is served here needs more."""
ACCEPTED_MAX = 128
"""Connections that the system may have accepted for the daemon at a time: as many more descriptors may be open for a
moment."""
SHUTDOWN_TIMEOUT_SECONDS = 2
LAST_WRITES_SECONDS = 0.1
"""How long the connections have after that for what was written to them last."""

Endpoint = Callable[[Request], Awaitable[Response]]
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Sources:
    """What the HTTP side may ask the rest of the daemon. Everything is called on the loop."""

    scrapes: Scrapes
    """For `/metrics`."""
    log_level: LogLevel
    loop_age_seconds: Callable[[], float]
    """How long ago the loop last ticked."""
    not_ready_because: Callable[[], str]
    """'' while the daemon serves, else a sentence: starting, draining."""
    gate: Gate
    """Who may change the log level, and look at the state."""
    journal_state: Callable[[], str]
    """What the journal does; '' if none is wanted."""
    looks: StateQueries
    """For `/debug/state`."""
    loop_age_seconds_max: float = 5.0
    """`/livez` fails when the last tick is longer ago."""


class LogLevelBody(BaseModel):
    """Body of `/loglevel`."""

    model_config = ConfigDict(extra="forbid")

    level: LevelName


def build_app(sources: Sources) -> Starlette:
    """The application with all routes; every error is JSON and says what would be right."""
    metrics = _metrics(sources.scrapes)
    routes: list[BaseRoute] = [
        Route("/metrics", metrics),
        Route("/ws/v1/metrics", metrics),
        Route("/livez", _livez(sources)),
        Route("/readyz", _readyz(sources)),
        Route("/loglevel", _loglevel(sources.log_level, sources.gate), methods=["GET", "PUT"]),
        Route("/debug/state", _debug_state(sources.looks, sources.gate)),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _refusal(routes), Exception: _internal_error})


def _metrics(scrapes: Scrapes) -> Endpoint:
    async def metrics(request: Request) -> Response:
        text, content_type = await scrapes.text(request.headers.get("accept", ""))
        return Response(text, headers={"content-type": content_type})

    return metrics


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
        body = {"status": "not ready", "reason": reason} if reason else {"status": "ok"}
        if journal:  # a daemon serves without it as well
            body["journal"] = journal
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
    """All that one answer shows is of one moment."""

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
    """What comes of `work`, which is cancelled when the client goes away; the answer to that is read by nobody."""
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
    return f"{'; '.join(problems)}; right is for example {example}"


def _error(status: int, message: str, description: str, headers: dict[str, str] | None = None) -> Response:
    """An error in the shape that clients of the peer's REST API know."""
    body = {"status_code": status, "message": message, "description": description}
    return JSONResponse(body, status_code=status, headers=headers)


def _refusal(routes: Sequence[BaseRoute]) -> Callable[[Request, Exception], Awaitable[Response]]:
    paths = ", ".join(route.path for route in routes if isinstance(route, Route))

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
    """Answers; the framework raises the error again, so that the server logs it with its traceback."""
    return _error(
        500, "Internal Server Error", f"{type(error).__name__} while answering {request.url.path}; see the log"
    )


def uvicorn_config(app: Starlette, connections: HttpConnections) -> uvicorn.Config:
    """How uvicorn serves `app`: in a loop of somebody else, and within our bounds."""
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
        backlog=ACCEPTED_MAX,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_keep_alive=IDLE_SECONDS_MAX,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )


class HttpServer:
    """An application on a listening socket, run inside a loop that belongs to somebody else."""

    def __init__(self, app: Starlette, listener: socket.socket, tell: Tell) -> None:
        self._listener = listener
        self._connections = HttpConnections(tell)
        self._server = _Server(uvicorn_config(app, self._connections))

    @classmethod
    def bind(cls, app: Starlette, host: str, port: int, tell: Tell = lambda _peer, _reason: None) -> HttpServer:
        """Opens the port (0: a free one), so that clients can connect from here on; they are answered by `serve`.
        `tell` hears of connections that are closed before their clients are done.

        Raises `OSError` if it cannot be opened.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return cls(app, socket.create_server((host, port), family=family), tell)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    async def serve(self) -> None:
        """Answers until `stop`; then finishes the requests that are running, for a bounded time, and closes."""
        await self._server.serve(sockets=[self._listener])
        if self._connections:
            await asyncio.sleep(LAST_WRITES_SECONDS)
            self._connections.abort()
            await asyncio.sleep(0)  # they are closed in the next turn of the loop

    def stop(self) -> None:
        self._server.should_exit = True


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leaves signals alone: the daemon handles them for both of its servers."""
        yield
