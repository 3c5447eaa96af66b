"""Paths and methods, as the peer's router treats them.

A path that names no route is 404, unless it is one up to a trailing slash, double slashes or the case of its fixed
parts: then it is redirected to that route. Another method on a known path is 405 with `Allow`; HEAD is such a method.
These answers are plain text, and not the errors of `errors.py`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from html import escape
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

from starlette.responses import PlainTextResponse, Response


class Templated(Protocol):
    """A route: `path` is a template like `/ws/v1/partition/{partition}/nodes`."""

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...


RouteT = TypeVar("RouteT", bound=Templated)


class Match(NamedTuple, Generic[RouteT]):
    """A route, and what stands in the path for its variables."""

    route: RouteT
    variables: Mapping[str, str]


class Router(Generic[RouteT]):
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[RouteT]) -> None:
        self._routes = [(route, route.path.split("/")[1:]) for route in routes]
        self._methods = {route.method for route in routes}

    def match(self, method: str, path: str) -> Match[RouteT] | None:
        """The route of a decoded path; None if there is none. A variable may be empty, but not at the end."""
        parts = path.split("/")[1:]
        for route, template in self._routes:
            if route.method == method and (variables := _variables(template, parts)) is not None:
                return Match(route, variables)
        return None

    def refusal(self, method: str, path: str, query: str) -> Response:
        """The answer to a request without a route."""
        if method in self._methods and (better := self._corrected(method, path)) is not None:
            return _redirect(method, better, query)
        allowed = sorted({route.method for route, _ in self._routes if self.match(route.method, path)})
        if not allowed:
            return _text(404, "404 page not found\n")
        allow = ", ".join(sorted([*allowed, "OPTIONS"]))
        if method == "OPTIONS":
            return Response(status_code=200, headers={"allow": allow})
        return _text(405, "Method Not Allowed\n", {"allow": allow})

    def _corrected(self, method: str, path: str) -> str | None:
        if path.endswith("/") and (self.match(method, path[:-1]) or self._is_a_name(path)):
            return path[:-1]
        clean = posixpath.normpath(f"/{path.lstrip('/')}")
        parts = clean.split("/")[1:]
        for route, template in self._routes:
            if route.method == method and _variables(template, parts, ignore_case=True) is not None:
                return "/" + "/".join(
                    given if is_variable(fixed) else fixed for fixed, given in zip(template, parts, strict=True)
                )
        return None

    def _is_a_name(self, path: str) -> bool:
        """Whether the path lacks its last variable, as `.../node/` does where there is `.../nodes` too."""
        parts = path.split("/")[1:-1]
        last = len(parts) - 1
        return any(
            len(template) > len(parts)
            and is_variable(template[len(parts)])
            and _variables(template[: len(parts)], parts) is not None
            for _, template in self._routes
        ) and any(
            len(template) > last
            and template[last].startswith(parts[last])
            and template[last] != parts[last]
            and _variables(template[:last], parts[:last]) is not None
            for _, template in self._routes
        )


def is_variable(part: str) -> bool:
    """Whether a part of a template stands for a name."""
    return part.startswith("{")


def _variables(template: Sequence[str], parts: Sequence[str], *, ignore_case: bool = False) -> dict[str, str] | None:
    """What stands for the variables; None if the path is not of this template."""
    if len(template) != len(parts) or not parts[-1:] or not parts[-1]:
        return None
    found = {}
    for fixed, given in zip(template, parts, strict=True):
        if is_variable(fixed):
            found[fixed[1:-1]] = given
        elif fixed != (given.lower() if ignore_case else given):
            return None
    return found


def _redirect(method: str, path: str, query: str) -> Response:
    """A GET is redirected for good, other methods with their body."""
    location = quote(path, safe="/:@!$&'()*+,;=~") + (f"?{query}" if query else "")
    if method != "GET":
        return Response(status_code=307, headers={"location": location})
    text = f'<a href="{escape(location)}">Moved Permanently</a>.\n\n'
    return Response(text, status_code=301, headers={"location": location, "content-type": "text/html; charset=utf-8"})


def _text(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    given = {"x-content-type-options": "nosniff", **(headers or {})}
    return PlainTextResponse(text, status_code=status, headers=given)
