"""Views as HTML: every value is escaped, a value that is not there is an error, and nothing is written in one go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.ui.static_files import StaticFiles
from schedulerd.daemon.admin.ui.view import NoFields

_FOLDER = Path(__file__).with_name("templates")


class Rendering:
    """The templates of the package, compiled once."""

    def __init__(self, static: StaticFiles) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.globals.update(static=static.url, pattern=NoFields())
        for path in _FOLDER.glob("*.html"):
            self._environment.get_template(path.name)

    async def html(self, queries: StateQueries, template: str, values: Mapping[str, Any]) -> bytes:
        """The page, made in slices."""
        work = self._pieces(template, values)
        return b"".join([piece async for piece in queries.pieces(work)])

    def _pieces(self, template: str, values: Mapping[str, Any]) -> Iterator[bytes]:
        for piece in self._environment.get_template(template).generate(**values):
            yield piece.encode("utf-8", "replace")
