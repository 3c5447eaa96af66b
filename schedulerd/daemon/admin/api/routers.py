"""A router that knows the models of answers only while the schema is made.

Answers are written by the routes themselves, so FastAPI needs their models for nothing but the schema. Preparing them
takes a second, which would be added to every start of the daemon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter
from starlette.convertors import PathConvertor, register_url_convertor


class _NameConvertor(PathConvertor):
    """The rest of a path, line breaks included: names may have any character."""

    regex = "(?s:.*)"


register_url_convertor("name", _NameConvertor())


class Router(APIRouter):
    """Leaves the models of answers out, unless `with_models` is set."""

    with_models = False

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As that of FastAPI."""
        if not type(self).with_models:
            options.update(response_model=None, responses=None)
        super().add_api_route(path, endpoint, **options)
