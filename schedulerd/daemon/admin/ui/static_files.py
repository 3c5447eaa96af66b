"""The style sheet and the script: read once, with entity tags, and cached for ever under the address with their tag."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).with_name("static")
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class StaticFile(NamedTuple):
    """A file of the package."""

    body: bytes
    media_type: str
    tag: str
    """Of its content."""


class StaticFiles:
    """The files of the folder `static`; no other file is ever opened."""

    def __init__(self) -> None:
        self._files = {
            path.name: StaticFile(body, _TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:16])
            for path in sorted(_FOLDER.iterdir())
            if path.suffix in _TYPES
            for body in [path.read_bytes()]
        }

    def url(self, name: str) -> str:
        """The address of a file, which changes with its content."""
        return f"/ui/static/{name}?v={self._files[name].tag}"

    def answer(self, request: Request, name: str) -> Response | None:
        """The file, or 304 if the browser has it; None if there is no such file."""
        file = self._files.get(name)
        if file is None:
            return None
        is_current = request.query_params.get("v") == file.tag
        caching = "public, max-age=31536000, immutable" if is_current else "no-cache"
        headers = {"etag": f'"{file.tag}"', "cache-control": caching}
        known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
        if headers["etag"] in known:
            return Response(status_code=304, headers=headers)
        return Response(file.body, headers=headers, media_type=file.media_type)
