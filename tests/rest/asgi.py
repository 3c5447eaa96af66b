"""One request to an ASGI application, exactly as it stands in a recording.

A library for HTTP would correct the path before it is sent, and the corrections are what is compared.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

STREAM_TURNS = 50
"""Turns of the loop after which a client of an endless answer closes its connection."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes
    is_complete: bool = True

    @property
    def text(self) -> str:
        """The body, unpacked."""
        packed = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.body) if packed else self.body).decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)


async def ask(
    app: ASGIApp,
    method: str,
    path: str,
    query: str = "",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    leaves_after: int | None = None,
) -> Answer:
    """Sends a request. `leaves_after`: the client goes after so many turns of the loop, answered or not."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), text.encode("latin-1")) for name, text in (headers or {}).items()],
        "client": ("10.1.2.3", 4711),
        "server": ("127.0.0.1", 9080),
    }
    gone = asyncio.Event()
    messages: list[Message] = []
    requests = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if requests:
            return requests.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)

    call = asyncio.ensure_future(app(scope, receive, send))
    if leaves_after is not None:
        for _ in range(leaves_after):
            await asyncio.sleep(0)
        gone.set()
    await call
    gone.set()
    start, *parts = messages
    return Answer(
        start["status"],
        {name.decode().lower(): text.decode("latin-1") for name, text in start["headers"]},
        b"" if method == "HEAD" else b"".join(one.get("body", b"") for one in parts),
        not parts[-1].get("more_body", False) if parts else False,
    )
