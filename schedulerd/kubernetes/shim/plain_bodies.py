"""Bodies of requests to servers of aiohttp: coded ones are refused, malformed ones are a mistake of the client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from aiohttp import web

from schedulerd.request_bodies import ACCEPTS, REFUSED_UNREAD, UNSUPPORTED, coding_problem

CONNECTION_OPTIONS: Mapping[str, Any] = MappingProxyType({"auto_decompress": False})
"""Options of every connection: aiohttp itself would unpack a body while it comes, before anybody knows its size."""


@web.middleware
async def plain_bodies(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Of every application; its connections need `CONNECTION_OPTIONS`."""
    problem = coding_problem(request.headers.getall("Content-Encoding", ()))
    response: web.StreamResponse
    if problem:
        response = web.Response(status=UNSUPPORTED, text=f"{problem}\n", headers=ACCEPTS)
    else:
        try:
            response = await handler(request)
        except web.RequestPayloadError as error:
            response = web.Response(status=400, text=f"the body is malformed: {error}\n")
            response.force_close()
        except web.HTTPException as error:
            if error.status in REFUSED_UNREAD:
                error.force_close()
            raise
    if response.status in REFUSED_UNREAD:
        response.force_close()
    return response
