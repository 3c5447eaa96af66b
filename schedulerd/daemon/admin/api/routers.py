"""A router that knows the models of answers only while the schema is made.

Answers are written by the routes themselves, so FastAPI needs their models for nothing but the schema. Preparing them
takes a second, which would be added to every start of the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fastapi import APIRouter
from starlette.convertors import PathConvertor, register_url_convertor


class _NameConvertor(PathConvertor):
    """The rest of a path, line breaks included: names may have any character."""

    regex = "(?s:.*)"


register_url_convertor("name", _NameConvertor())


_with_models: ContextVar[bool] = ContextVar("with_models", default=False)


@contextmanager
def making_schema() -> Iterator[None]:
    """Routers that are made inside know the models."""
    token = _with_models.set(True)
    try:
        yield
    finally:
        _with_models.reset(token)


def is_making_schema() -> bool:
    return _with_models.get()


class Router(APIRouter):
    """Leaves the models of answers out, unless the schema is made."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """As that of FastAPI."""
        if not is_making_schema():
            options.update(response_model=None, responses=None)
        super().add_api_route(path, endpoint, **options)
