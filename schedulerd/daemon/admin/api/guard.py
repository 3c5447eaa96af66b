"""What every request of the API goes through first: the size of its body, and headers for browsers on its answer.

A body is JSON whatever its `Content-Type` says: `curl -d` calls it a form. This opens nothing to pages of other sites,
which may send forms and plain text without being asked: requests that change something are checked by their `Origin`.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schedulerd.daemon.admin.api.problems import problem

API_BODY_BYTES_MAX = 16_384
"""Maximum size of a request body."""

STREAMED_BODY = "/config/validate"
"""The route that reads its own, larger body, after it has checked the credentials of the client."""

_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Guard:
    """Wraps the API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        is_streamed = scope["path"] == scope.get("root_path", "") + STREAMED_BODY
        if scope["method"] not in ("GET", "HEAD", "OPTIONS") and not is_streamed:
            body = await _body(receive)
            if body is None:
                await problem(413, f"the body has more than {API_BODY_BYTES_MAX} bytes")(scope, receive, answer)
                return
            receive = _Replay(body, receive)
            MutableHeaders(scope=scope)["content-type"] = "application/json"
        await self._app(scope, receive, answer)


async def _body(receive: Receive) -> bytes | None:
    """The body; None if it is too large."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > API_BODY_BYTES_MAX:
            return None
    return body


class _Replay:
    """Gives a body that was read already, then what comes after it."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}
