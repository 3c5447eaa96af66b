"""Answers that are one object: of one moment, with an entity tag, or an explanation that took several turns."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Generator
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from schedulerd.daemon.admin.api.problems import too_busy
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.runtime.json_stream import JsonWriter, compact
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

    async def one(self, request: Request, value: object) -> Response:
        """The object as JSON, or 304 if the client has it; a large one has no entity tag. Waits for its share of the
        loop's time."""
        body = await self.finish(API_JSON.whole(value))
        if len(body) > ETAG_BYTES_MAX:
            return Response(body, headers={"cache-control": "no-store"}, media_type="application/json")
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
        if tag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="application/json")

    async def fresh(self, value: object) -> Response:
        """The object as JSON, which is never the same again."""
        body = await self.finish(API_JSON.whole(value))
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


API_JSON = JsonWriter(compact, ",", ":", chars=8_192)
