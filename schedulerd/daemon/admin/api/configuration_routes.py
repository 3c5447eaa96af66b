"""Routes of the queue file: the one in effect, and what another one would change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from schedulerd.config import Problem, QueueFile, QueueFileInvalid, shorten
from schedulerd.core.configuration.rules.reload import assess
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.admin.api import finding
from schedulerd.daemon.admin.api.answers import ETAG_BYTES_MAX, Answers
from schedulerd.daemon.admin.api.finding import NAME_LENGTH_MAX
from schedulerd.daemon.admin.api.models import documented
from schedulerd.daemon.admin.api.problems import too_busy
from schedulerd.daemon.admin.api.routers import Router
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.runtime.shares import NoneLeft, Shared
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.settings.document import TEXT_BYTES_MAX

BODY_SECONDS_MAX = 10.0
"""How long a client may take to send a queue file."""
BODIES_MAX = 4
"""Queue files that are received and validated at a time."""
LISTED_MAX = 1_000
"""Problems, warnings and impacts that one answer lists of each."""
_MESSAGE_LENGTH_MAX = 2_000
_CHUNK = 4_096
"""Characters of a queue file that are written at a time."""


class ConfigurationQuery(BaseModel):
    """Whose queue file is meant."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    rm: str = Field(default="", max_length=NAME_LENGTH_MAX)
    """Id of the resource manager; may be left out if only one is registered."""


@documented
@dataclass(frozen=True, slots=True)
class Configuration:
    """The queue file in effect for a resource manager."""

    rm: str
    policy_group: str
    """The policy group whose file it is; '' for a text that was sent."""
    checksum: str
    """SHA-256 of the text without its own checksum, in upper-case hexadecimal."""
    since_ns: int
    """Since when it is in effect."""
    text: str


@documented
@dataclass(frozen=True, slots=True)
class ProblemItem:
    """Something that is wrong in a queue file, or is to be known of it."""

    path: str
    """Like `partitions[0].queues[2].resources.max.memory`; '' for the whole file."""
    line: int | None
    value: str | None
    message: str


@documented
@dataclass(frozen=True, slots=True)
class BrokenFileItem:
    """A queue file whose present content cannot be used."""

    policy_group: str
    source: str
    """Path of the file."""
    problem: str
    """The first problem."""
    has_text_in_force: bool
    """Whether the last valid text stays in force."""
    message: str
    """What is wrong, and what follows from it."""


@documented
@dataclass(frozen=True, slots=True)
class BrokenFiles:
    """The queue files that cannot be used at present."""

    items: list[BrokenFileItem]


@documented
@dataclass(frozen=True, slots=True)
class ImpactItem:
    """What a queue file would change for queues and work that is there."""

    kind: str
    """Such as queue_added, queue_drains, over_max, over_limit or no_place."""
    partition: str
    queue: str
    """'' for the partition as a whole."""
    harms: bool
    """Whether running or waiting work would be worse off."""
    message: str


@documented
@dataclass(frozen=True, slots=True)
class Validation:
    """Whether a queue file could be applied, and what it would change. Nothing is applied."""

    allowed: bool
    reason: str
    """Why it could not be applied; '' if it could."""
    checksum: str
    problems: list[ProblemItem]
    warnings: list[ProblemItem]
    rm: str
    """The resource manager whose queues `impact` is about; '' if none is registered."""
    impact: list[ImpactItem]
    """What harms comes first; the same sentences as when the file is applied."""


_TEXT_BODY = {
    "requestBody": {
        "required": True,
        "description": f"A queue file, YAML or JSON, of at most {TEXT_BYTES_MAX} bytes.",
        "content": {"application/yaml": {"schema": {}}},
    }
}


def routes(sources: ApiSources, answers: Answers) -> Router:
    """The router of these routes."""
    router = Router(tags=["configuration"])
    bodies = Shared(BODIES_MAX, "queue files are being validated")

    @router.get("/config", response_model=Configuration)
    async def get_configuration(request: Request, query: Annotated[ConfigurationQuery, Query()]) -> Response:
        """The queue file in effect."""
        rm = _registered(sources, query.rm)
        used = rm.configuration
        since_ns = sources.clocks().epoch_ns + rm.configured_at_ns
        shown = Configuration(rm.rm_id, used.policy_group or "", used.checksum, since_ns, used.text)
        if len(used.text) > ETAG_BYTES_MAX // 6:  # a character has up to six bytes
            pieces = sources.queries.pieces(_written(shown))
            return StreamingResponse(pieces, media_type="application/json", headers={"cache-control": "no-store"})
        return await answers.one(request, shown)

    @router.get("/config/broken", response_model=BrokenFiles)
    async def list_broken_files(request: Request) -> Response:
        """The queue files that cannot be used at present: broken, removed or unreadable."""
        items = [
            BrokenFileItem(one.policy_group, one.source, one.problem, one.has_text_in_force, one.sentence(one.problem))
            for one in islice(sources.broken_files(), LISTED_MAX)
        ]
        return await answers.one(request, BrokenFiles(items))

    @router.post("/config/validate", response_model=Validation, openapi_extra=_TEXT_BODY)
    async def validate_configuration(request: Request, query: Annotated[ConfigurationQuery, Query()]) -> Response:
        """Whether a queue file could be applied, and what it would change: queues added or draining, queues and limits
        that would be exceeded, gangs that could never start, applications that would have no place."""
        try:
            with bodies.held(None):
                text = await _text(request)
                queue_file = await sources.validate(text, "config")
        except QueueFileInvalid as error:
            refused = Validation(False, _cut(str(error)), "", _problems(error.problems), [], "", [])
            return await answers.fresh(refused)
        except (NoneLeft, Busy) as error:
            raise too_busy(str(error)) from error
        is_asked = bool(query.rm or sources.scheduler.cluster.resource_managers)
        rm = _registered(sources, query.rm) if is_asked else None
        return await answers.fresh(_assessed(queue_file, rm, sources))

    return router


def _registered(sources: ApiSources, rm_id: str) -> ResourceManager:
    return finding.resource_manager(sources.scheduler, rm_id)


def _assessed(queue_file: QueueFile, rm: ResourceManager | None, sources: ApiSources) -> Validation:
    """On one moment of the state."""
    warnings = _problems(queue_file.warnings)
    if rm is None:
        return Validation(True, "", queue_file.checksum, [], warnings, "", [])
    found = assess(rm, queue_file.partitions, sources.scheduler.cluster.matches)
    impact = [
        ImpactItem(one.kind.value, one.partition, one.queue, one.harms, one.message)
        for one in islice(found.impact, LISTED_MAX)
    ]
    reason = _cut("; ".join(found.refusals))
    return Validation(not found.refusals, reason, queue_file.checksum, [], warnings, rm.rm_id, impact)


async def _text(request: Request) -> str:
    """The body. Raises `HTTPException` if it is too large, too slow or no text."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.stream():
                size += len(chunk)
                if size > TEXT_BYTES_MAX:
                    raise HTTPException(413, f"the body has more than {TEXT_BYTES_MAX} bytes")
                parts.append(chunk)
        if not size:
            raise HTTPException(422, "body: is empty; send the text of a queue file")
        return b"".join(parts).decode("utf-8")
    except TimeoutError as error:
        raise HTTPException(408, f"the body did not come within {BODY_SECONDS_MAX:g} s") from error
    except ClientDisconnect as error:
        raise HTTPException(400, "the connection was closed before the body had come") from error
    except UnicodeDecodeError as error:
        raise HTTPException(422, f"body: is no UTF-8 text at byte {error.start}") from error


def _problems(problems: Iterable[Problem]) -> list[ProblemItem]:
    return [
        ProblemItem(one.path, one.line, None if one.value is None else shorten(one.value), one.message)
        for one in islice(problems, LISTED_MAX)
    ]


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE_LENGTH_MAX else f"{text[:_MESSAGE_LENGTH_MAX]}..."


def _written(shown: Configuration) -> Iterator[bytes]:
    """A large configuration as JSON, a part of its text at a time."""
    head = to_json(replace(shown, text=""))
    yield head.removesuffix(b'""}') + b'"'
    for at in range(0, len(shown.text), _CHUNK):
        yield json.dumps(shown.text[at : at + _CHUNK])[1:-1].encode()
    yield b'"}'
