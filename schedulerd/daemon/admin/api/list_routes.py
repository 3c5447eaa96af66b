"""Routes of lists and of single objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from schedulerd.core.language.checks import shown
from schedulerd.daemon.admin.api import finding, listings
from schedulerd.daemon.admin.api import models as m
from schedulerd.daemon.admin.api.answers import Answers
from schedulerd.daemon.admin.api.finding import Where
from schedulerd.daemon.admin.api.pages import Listing, Page, PageAnswer, PageQuery
from schedulerd.daemon.admin.api.projections import Projection
from schedulerd.daemon.admin.api.routers import Router
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.runtime.shares import Shared

MakeListing = Callable[..., Listing[Any]]


class _ApplicationWhere(Where):
    """In which partition and namespace."""

    namespace: str = Field(default="", max_length=finding.NAME_LENGTH_MAX)
    """Of its pods; may be left out if no other namespace has an application of that id."""


class _Pages:
    """Answers lists."""

    def __init__(self, sources: ApiSources, answers: Answers, lists: Shared) -> None:
        self._sources = sources
        self._answers = answers
        self._lists = lists

    async def of(self, query: PageQuery, make: MakeListing) -> Response:
        """A page of the listing that `make` makes."""
        found = finding.place(self._sources.scheduler, query)
        if path := getattr(query, "queue", ""):
            finding.queue(found, path)  # a queue that is mistyped is no queue without anything in it
        if isinstance(query, listings.ApplicationQuery) and query.application:
            work = finding.application_id(found, query.application, getattr(query, "namespace", ""))
            query = query.model_copy(update={"application": await self._answers.finish(work)})
        projection = Projection(found, self._sources.clocks().epoch_ns)
        listing = make(found, query, projection, partial(finding.is_current, self._sources.scheduler, found))
        return PageAnswer(self._sources.queries, self._lists, listing, query)


def routes(sources: ApiSources, answers: Answers, lists: Shared) -> Router:
    """The router of these routes. `lists` bounds the pages that are written at a time."""
    router = Router()
    pages = _Pages(sources, answers, lists)
    _add_lists(router, pages)
    _add_objects(router, sources, answers)
    return router


def _add_lists(router: Router, pages: _Pages) -> None:
    @router.get("/queues", response_model=Page[m.QueueItem], tags=["queues"])
    async def list_queues(query: Annotated[listings.QueueQuery, Query()]) -> Response:
        """The queue tree, parents before their children."""
        return await pages.of(query, listings.queues)

    @router.get("/limits", response_model=Page[m.LimitItem], tags=["queues"])
    async def list_limits(query: Annotated[listings.QueueQuery, Query()]) -> Response:
        """Limits of users and groups, by queue."""
        return await pages.of(query, listings.limits)

    @router.get("/users", response_model=Page[m.UserItem], tags=["queues"])
    async def list_users(query: Annotated[listings.UserQuery, Query()]) -> Response:
        """What users, and groups that count for limits, use in each queue."""
        return await pages.of(query, listings.users)

    @router.get("/applications", response_model=Page[m.ApplicationItem], tags=["applications"])
    async def list_applications(query: Annotated[listings.ApplicationListQuery, Query()]) -> Response:
        """Applications in the order of submission."""
        return await pages.of(query, listings.applications)

    @router.get("/asks", response_model=Page[m.AskItem], tags=["applications"])
    async def list_asks(query: Annotated[listings.AskQuery, Query()]) -> Response:
        """Asks in the order of submission of their applications."""
        return await pages.of(query, listings.asks)

    @router.get("/gangs", response_model=Page[m.GangItem], tags=["applications"])
    async def list_gangs(query: Annotated[listings.GangQuery, Query()]) -> Response:
        """Gangs in the order of submission of their applications."""
        return await pages.of(query, listings.gangs)

    @router.get("/nodes", response_model=Page[m.NodeItem], tags=["nodes"])
    async def list_nodes(query: Annotated[listings.NodeQuery, Query()]) -> Response:
        """Nodes by id."""
        return await pages.of(query, listings.nodes)

    @router.get("/reservations", response_model=Page[m.ReservationItem], tags=["nodes"])
    async def list_reservations(query: Annotated[listings.ReservationQuery, Query()]) -> Response:
        """Reservations, oldest first."""
        return await pages.of(query, listings.reservations)

    @router.get("/preemptions", response_model=Page[m.PreemptionItem], tags=["nodes"])
    async def list_preemptions(query: Annotated[listings.ReservationQuery, Query()]) -> Response:
        """Allocations that are being preempted, and for which asks."""
        return await pages.of(query, listings.preemptions)


def _add_objects(router: Router, sources: ApiSources, answers: Answers) -> None:
    def projection(where: BaseModel) -> tuple[finding.Place, Projection]:
        assert isinstance(where, Where)
        found = finding.place(sources.scheduler, where)
        return found, Projection(found, sources.clocks().epoch_ns)

    @router.get("/queues/{path:name}", response_model=m.QueueItem, tags=["queues"])
    async def get_queue(request: Request, path: str, where: Annotated[Where, Query()]) -> Response:
        """One queue by its full path."""
        found, shows = projection(where)
        return await answers.one(request, shows.queue(finding.queue(found, path)))

    @router.get("/applications/{application:name}", response_model=m.ApplicationDetail, tags=["applications"])
    async def get_application(
        request: Request, application: str, where: Annotated[_ApplicationWhere, Query()]
    ) -> Response:
        """One application with its state log, by its id, or by the id that pods of one namespace give it."""
        found = finding.place(sources.scheduler, where)
        name = await answers.finish(finding.application_id(found, application, where.namespace))
        found, shows = projection(where)  # it may be dropped by now
        one = shows.application_detail(finding.application(found, name))
        return await answers.one(request, one)

    @router.get("/nodes/{node:name}", response_model=m.NodeItem, tags=["nodes"])
    async def get_node(request: Request, node: str, where: Annotated[Where, Query()]) -> Response:
        """One node by its id."""
        found, shows = projection(where)
        one = found.partition.nodes.get(node)
        if one is None:
            raise HTTPException(404, f"node: {shown(node)} is not registered")
        return await answers.one(request, shows.node(one))
