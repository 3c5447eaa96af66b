"""Static files at `/`: the peer's web page, or any other that the operator puts there.

Regular files only, none outside the directory, no listing. The page may load from its own origin only, and may have
styles in line, which the peer's page has. Of scripts in line one is allowed, by its hash: Angular builds load their
style sheet with `onload="this.media='all'"`, and would have no styles without it.
"""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import PathLike, StaticFiles
from starlette.types import Scope

STYLES_LOADED = "this.media='all'"
_STYLES_LOADED_HASH = b64encode(sha256(STYLES_LOADED.encode()).digest()).decode()

POLICY = (
    f"default-src 'self'; script-src 'self' 'unsafe-hashes' 'sha256-{_STYLES_LOADED_HASH}'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)

HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


def web_root_mount(directory: Path) -> Mount:
    """The route, which takes every path: it comes behind all others. `index.html` stands for its directory."""
    return Mount("/", _Files(directory=directory, html=True))


class _Files(StaticFiles):
    def file_response(
        self, full_path: PathLike, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        return response
