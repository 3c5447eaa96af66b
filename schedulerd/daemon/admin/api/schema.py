"""Makes the OpenAPI schema from the models: `python -m schedulerd.daemon.admin.api.schema` writes `openapi.json`.

The file is a part of the package, because making it takes a second. A test compares it with the models.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args, get_type_hints

from schedulerd.config import Settings
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.api.app import SCHEMA_FILE, make_app
from schedulerd.daemon.admin.api.models import DOCUMENTED
from schedulerd.daemon.admin.api.routers import making_schema
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.admin.state_queries import StateQueries


def openapi() -> str:
    """The schema as JSON."""
    for cls in _all_dataclasses():
        cls.__pydantic_config__ = {"use_attribute_docstrings": True}
    unused: Any = None
    with making_schema():
        access = Access(Settings(), None)
        app = make_app(ApiSources(unused, StateQueries(lambda _query: None), _NoFeed(), access, unused, unused))  # type: ignore[arg-type]
        return json.dumps(app.openapi(), indent=1, sort_keys=True) + "\n"


class _NoFeed:
    """Stands for the feed of a daemon while the schema is made."""


def _all_dataclasses() -> list[Any]:
    """The dataclasses of the schema, with those that their fields are made of."""
    found: dict[Any, None] = {}
    left: list[Any] = list(DOCUMENTED)
    while left:
        one = left.pop()
        left += get_args(one)
        if dataclasses.is_dataclass(one) and one not in found:
            found[one] = None
            left += get_type_hints(one).values()
    return list(found)


if __name__ == "__main__":
    SCHEMA_FILE.write_text(openapi(), encoding="utf-8")
