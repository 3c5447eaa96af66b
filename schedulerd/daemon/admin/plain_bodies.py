"""Bodies of requests to the HTTP port of the daemon: coded ones are refused, and what is not read ends a connection."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulerd.daemon.admin.api.problems import problem
from schedulerd.request_bodies import ACCEPTS, REFUSED_UNREAD, UNSUPPORTED, coding_problem


class PlainBodies:
    """Wraps the application of the port, with every route."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in REFUSED_UNREAD:
                MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        detail = coding_problem(Headers(scope=scope).getlist("content-encoding"))
        await (_refusal(scope, detail) if detail else self._app)(scope, receive, answer)


def _refusal(scope: Scope, detail: str) -> ASGIApp:
    """In the form of the errors of each API."""
    if scope["path"].lower().startswith("/api"):
        return problem(UNSUPPORTED, detail, ACCEPTS)
    body = {"status_code": UNSUPPORTED, "message": "Unsupported Media Type", "description": detail}
    return JSONResponse(body, UNSUPPORTED, headers=ACCEPTS)
