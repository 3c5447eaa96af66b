"""Routes that change something; they need the role `operate`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import structlog
from fastapi import Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from schedulerd.core.configuration.handlers.stops import stoppable
from schedulerd.core.language.checks import Mistake
from schedulerd.core.language.facts.fact import ItemIgnored
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.daemon.admin.api import finding
from schedulerd.daemon.admin.api.answers import WORK_SECONDS_MAX, Answers
from schedulerd.daemon.admin.api.finding import Where
from schedulerd.daemon.admin.api.models import QueueItem
from schedulerd.daemon.admin.api.problems import too_busy
from schedulerd.daemon.admin.api.projections import Projection
from schedulerd.daemon.admin.api.routers import Router
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.admin.api.tokens import Role

log = structlog.stdlib.get_logger(__name__)


def routes(sources: ApiSources, answers: Answers) -> Router:
    """The router of these routes."""
    router = Router(tags=["queues"])

    @router.post("/queues/{path:name}/stop", response_model=QueueItem)
    async def stop_queue(request: Request, path: str, where: Annotated[Where, Query()]) -> Response:
        """Stops a queue and all below it: they take no new applications, and finish those they have. A stop holds over
        new queue files, until the queue is started or the resource manager registers again."""
        return await _set_stopped(sources, answers, request, where, path, stopped=True)

    @router.post("/queues/{path:name}/start", response_model=QueueItem)
    async def start_queue(request: Request, path: str, where: Annotated[Where, Query()]) -> Response:
        """Starts a queue that was stopped. It stays stopped as long as a queue above it is."""
        return await _set_stopped(sources, answers, request, where, path, stopped=False)

    return router


async def _set_stopped(
    sources: ApiSources, answers: Answers, request: Request, where: Where, path: str, *, stopped: bool
) -> Response:
    """Answers with the queue as it is then. Setting what is set already is no mistake."""
    caller = sources.access.check(request, Role.OPERATE)
    found = finding.place(sources.scheduler, where)
    rm_id, partition = found.rm.rm_id, found.partition.name
    queue = finding.queue(found, path)
    known = stoppable(found.rm, partition, queue.path)
    if isinstance(known, Mistake):
        raise HTTPException(422, known.reason)
    command = SetQueueStopped(rm_id, queue.path, stopped, partition, by=caller.name)
    try:
        async with asyncio.timeout(WORK_SECONDS_MAX):
            facts = await (await sources.submit(command))
    except TimeoutError as error:
        raise too_busy("the scheduler has had no time for this yet; look at the queue again") from error
    refused = next((fact.reason for fact in facts if isinstance(fact, ItemIgnored)), None)
    if refused is not None or not finding.is_current(sources.scheduler, found):
        raise HTTPException(404, refused or f"the state of {rm_id!r} was dropped meanwhile")
    log.info("queue stopped" if stopped else "queue started", rm_id=rm_id, queue=queue.path, by=caller.name)
    shows = Projection(found, sources.clocks().epoch_ns)
    return await answers.fresh(shows.queue(queue))
