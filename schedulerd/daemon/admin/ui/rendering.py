"""Views as HTML: every value is escaped, a value that is not there is an error, and nothing is written in one go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.ui.static_files import StaticFiles
from schedulerd.daemon.admin.ui.view import NoFields

_FOLDER = Path(__file__).with_name("templates")


@cache
def environment() -> Environment:
    """All templates of the package, compiled: it takes a tenth of a second, so no request waits for it."""
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(pattern=NoFields())
    for path in _FOLDER.glob("*.html"):
        made.get_template(path.name)
    return made


class Rendering:
    """Writes pages."""

    def __init__(self, static: StaticFiles) -> None:
        self._environment = environment()
        self._static = static

    async def html(self, queries: StateQueries, template: str, values: Mapping[str, Any]) -> bytes:
        """The page, made in slices."""
        work = self._pieces(template, values)
        return b"".join([piece async for piece in queries.pieces(work)])

    def _pieces(self, template: str, values: Mapping[str, Any]) -> Iterator[bytes]:
        for piece in self._environment.get_template(template).generate(static=self._static.url, **values):
            yield piece.encode("utf-8", "replace")
