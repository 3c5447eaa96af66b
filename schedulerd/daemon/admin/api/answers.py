"""Answers that are one object: of one moment, with an entity tag, or an explanation that took several turns."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Generator, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from schedulerd.daemon.admin.api.problems import too_busy
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.runtime.shares import NoneLeft, Shared

OPEN_MAX = 50
"""Requests for single objects and explanations at a time, of all clients."""
BYTES_A_TURN = 8_192
"""Bytes of an answer that are written without a stop, if its items are not larger: about 0.05 ms."""
ETAG_BYTES_MAX = 65_536
"""Largest answer that has an entity tag."""
WORK_SECONDS_MAX = 30.0
"""How long an explanation may take, its pauses included."""

ResultT = TypeVar("ResultT")


class Answers:
    """Makes answers, within a bound on how many are made at a time."""

    def __init__(self, sources: ApiSources) -> None:
        self._queries = sources.queries
        self._open = Shared(OPEN_MAX, "requests are open")

    async def one(self, request: Request, adapter: TypeAdapter[Any], value: object) -> Response:
        """The object as JSON, or 304 if the client has it; a large one has no entity tag. Waits for its share of the
        loop's time."""
        body = await self.finish(_dumped(adapter, value))
        if len(body) > ETAG_BYTES_MAX:
            return Response(body, headers={"cache-control": "no-store"}, media_type="application/json")
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
        if tag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="application/json")

    async def fresh(self, adapter: TypeAdapter[Any], value: object) -> Response:
        """The object as JSON, which is never the same again."""
        body = await self.finish(_dumped(adapter, value))
        return Response(body, headers={"cache-control": "no-store"}, media_type="application/json")

    async def finish(self, work: Generator[None, None, ResultT]) -> ResultT:
        """Runs work in slices, ahead of pages and lists. Raises `HTTPException` with 503 if too much is under way, or
        if it takes too long."""
        try:
            with self._open.held(None):
                return await asyncio.wait_for(self._queries.finish(work, ahead=True), WORK_SECONDS_MAX)
        except NoneLeft as error:
            raise too_busy(f"{error}; try again") from error
        except TimeoutError as error:
            raise too_busy("the scheduler has had no time for this answer; try again") from error


def _dumped(adapter: TypeAdapter[Any], value: object) -> Generator[None, None, bytes]:
    """The JSON text of a model; stops after each `BYTES_A_TURN`, between two items of its lists of models."""
    if not _has_items(value):
        yield
        return adapter.dump_json(value)
    parts, left = [], BYTES_A_TURN
    for part in json_parts(value):
        parts.append(part)
        left -= len(part)
        if left <= 0:
            left = BYTES_A_TURN
            yield
    return b"".join(parts)


def json_parts(value: object, before: bytes = b"") -> Iterator[bytes]:
    """The JSON text of a value, an item of a list of models at a time. `before` is text in front of it."""
    if isinstance(value, list) and value and is_dataclass(value[0]):
        separator = before + b"["
        for one in value:
            yield from json_parts(one, separator)
            separator = b","
        yield b"]"
    elif is_dataclass(value) and not isinstance(value, type) and _has_items(value):
        separator = before + b"{"
        for field in fields(value):
            yield from json_parts(getattr(value, field.name), b'%s"%s":' % (separator, field.name.encode()))
            separator = b","
        yield b"}"
    else:
        yield before + to_json(value)


def _has_items(value: object) -> bool:
    """Whether there is a list of models in it."""
    if isinstance(value, list):
        return bool(value) and is_dataclass(value[0])
    if not is_dataclass(value) or isinstance(value, type):
        return False
    return any(_has_items(getattr(value, field.name)) for field in fields(value))
