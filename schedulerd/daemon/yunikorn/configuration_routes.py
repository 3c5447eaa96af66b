"""Routes of the queue file: how it reads, and whether another one would do."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect

from schedulerd.config import QueueFileInvalid
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.daemon.yunikorn import lookup
from schedulerd.daemon.yunikorn.answers import CHUNK_BYTES, JSON_TYPE, Text, busy
from schedulerd.daemon.yunikorn.call import Call
from schedulerd.daemon.yunikorn.configuration_projections import configuration_json, configuration_yaml
from schedulerd.daemon.yunikorn.errors import PeerError
from schedulerd.daemon.yunikorn.go_json import GO_JSON
from schedulerd.settings.document import TEXT_BYTES_MAX

YAML_TYPE = "application/x-yaml; charset=UTF-8"

BODY_SECONDS_MAX = 10.0
"""How long a client may take to send a queue file."""

BODIES_MAX = 4
"""Queue files that are received at a time."""


async def configuration(call: Call) -> object:
    """The queue file of a resource manager; JSON only for exactly this `Accept`."""
    managers = call.rest.cluster.resource_managers
    rm = lookup.resource_manager(call) if managers else None
    shown = await call.rest.configurations.of(rm) if rm is not None else None
    if call.request.headers.get("accept") == "application/json":
        return Text(GO_JSON.pieces(configuration_json(rm, shown)), JSON_TYPE)
    text = configuration_yaml(rm, shown)
    return Text((text[at : at + CHUNK_BYTES] for at in range(0, len(text), CHUNK_BYTES)), YAML_TYPE)


async def validate(call: Call) -> object:
    """Whether a queue file could be loaded. The answer is 200 in any case."""
    try:
        with call.bodies.held(None):
            text = (await _body(call)).decode("utf-8")
        await call.rest.validate(text, "config")
    except UnicodeDecodeError as error:
        return {"allowed": False, "reason": f"not valid UTF-8 at byte {error.start}"}
    except QueueFileInvalid as error:
        return {"allowed": False, "reason": str(error)}
    except Busy as error:
        raise busy(str(error)) from error
    return {"allowed": True}


async def _body(call: Call) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in call.request.stream():
                size += len(chunk)
                if size > TEXT_BYTES_MAX:
                    raise PeerError(413, f"the body has more than {TEXT_BYTES_MAX} bytes")
                parts.append(chunk)
    except TimeoutError as error:
        raise PeerError(408, f"the body did not come within {BODY_SECONDS_MAX:g} s") from error
    except ClientDisconnect as error:
        raise PeerError(400, "the connection was closed before the body had come") from error
    return b"".join(parts)
