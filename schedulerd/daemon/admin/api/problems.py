"""Errors of the API: `application/problem+json` (RFC 9457), with a sentence that says what would be right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

_VALUE_LENGTH_MAX = 100
"""Characters of a wrong value that an error repeats."""
_MISTAKES_MAX = 10
"""Mistakes that one error lists."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request is not answered."""

    status: int
    title: str
    """The words of the status."""
    detail: str
    """What is wrong, with field and value, and what would be right."""


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": HTTPStatus(status).phrase, "content": {"application/problem+json": {}}}
    for status in (400, 401, 403, 404, 408, 413, 421, 422, 503)
}
"""For the schema: the errors that any route may answer with."""
PROBLEMS[400]["content"]["text/plain"] = {"schema": {"type": "string"}}
PROBLEMS[400]["description"] = "Bad Request; as plain text if the request line and the headers are too large"


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    body = {"status": status, "title": HTTPStatus(status).phrase, "detail": detail}
    return Response(json.dumps(body), status, headers, media_type="application/problem+json")


def too_busy(detail: str) -> HTTPException:
    """The answer when a bound is reached: the client may come again in a second."""
    return HTTPException(503, detail, {"Retry-After": "1"})


def install(app: FastAPI) -> None:
    """Makes all errors of the application problems."""

    @app.exception_handler(HTTPException)
    async def refusal(request: Request, error: HTTPException) -> Response:
        detail = error.detail
        if error.status_code == 404 and detail == HTTPStatus(404).phrase:
            detail = f"there is no {request.url.path[:_VALUE_LENGTH_MAX]}; /api/v1/docs lists what there is"
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            detail = f"{request.url.path[:_VALUE_LENGTH_MAX]} takes {allowed}, not {request.method}"
        return problem(error.status_code, detail, dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:
        said = [_mistake(one) for one in error.errors()[:_MISTAKES_MAX]]
        return problem(422, "; ".join(said))

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        """The framework raises the error again, so that it is logged with its traceback."""
        return problem(500, f"{type(error).__name__} while answering {request.url.path}; see the log")


def _mistake(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"][1:]) or str(error["loc"][0])
    value = repr(error.get("input"))
    message = error["msg"].replace("Input should be", "must be", 1)
    return f"{where}: {message} (got {value[:_VALUE_LENGTH_MAX]})"
