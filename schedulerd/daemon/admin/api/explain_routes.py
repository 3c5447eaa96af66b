"""Routes that explain: why an ask, an application or a queue waits, and whether a supposed ask would be placed."""

from __future__ import annotations

import sys
from collections.abc import Generator
from itertools import islice
from typing import Annotated, TypeAlias, TypeVar

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from schedulerd.core.explain.rules.ask import explain_ask
from schedulerd.core.explain.rules.fits import Supposed, fits
from schedulerd.core.explain.rules.reasons import explain_application, explain_queue
from schedulerd.core.explain.values import Reason, with_wall_times
from schedulerd.core.language.ask_tags import POD_NAME_TAG, pod_of
from schedulerd.core.language.checks import shown
from schedulerd.core.language.reading import INT64_MAX
from schedulerd.core.language.resources import Resources
from schedulerd.core.state.model.allocation import Ask
from schedulerd.core.state.model.application import Application
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.views.view import unclaimed
from schedulerd.daemon.admin.api import finding
from schedulerd.daemon.admin.api.answers import Answers
from schedulerd.daemon.admin.api.explain_answers import (
    ApplicationAnswer,
    AskAnswer,
    FitsAnswer,
    QueueAnswer,
    ReasonLine,
)
from schedulerd.daemon.admin.api.finding import Place, Where
from schedulerd.daemon.admin.api.listings import Name
from schedulerd.daemon.admin.api.routers import Router
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.observe import explain_sentences as sentences
from schedulerd.wire.callback import NoPodAnswer

RESOURCES_MAX = 50
"""Resources of a supposed ask."""
OTHER_ASKS_SEEN_MAX = 50_000
"""Asks of applications of other namespaces among which a pod is looked for."""
_ASKS_A_TURN = 512

ResultT = TypeVar("ResultT")
_Pair: TypeAlias = tuple[Application, Ask]


class AskWhere(Where):
    """Which ask."""

    application: Name
    """Its id, or the id that pods of one namespace give it."""
    namespace: Name = ""
    """Of these pods; may be left out if no other namespace has an application of that id."""
    ask: Name = ""
    """Its allocation key; may be left out if the application has one ask."""


class PodWhere(Where):
    """Which pod."""

    namespace: Name = "default"
    pod: Name


class ApplicationWhere(Where):
    """Which application."""

    application: Name
    """Its id, or the id that pods of one namespace give it."""
    namespace: Name = ""
    """Of these pods; may be left out if no other namespace has an application of that id."""


class QueueWhere(Where):
    """Which queue."""

    queue: Name
    """Its full path."""


def _whole(value: object) -> object:
    """2.0 is a whole number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Amount: TypeAlias = Annotated[int, Field(ge=0, le=INT64_MAX), BeforeValidator(_whole)]


class SupposedAsk(BaseModel):
    """An ask that nobody makes: of a new application, and the next one to be placed."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, strict=True)

    rm: str = Field(default="", max_length=finding.NAME_LENGTH_MAX)
    partition: str = Field(default="default", max_length=finding.NAME_LENGTH_MAX)
    queue: str = Field(max_length=finding.NAME_LENGTH_MAX)
    """Full path of a leaf queue."""
    resources: dict[Name, _Amount] = Field(min_length=1, max_length=RESOURCES_MAX)
    """`vcore` in thousandths of a core, `memory` in bytes."""
    user: str = Field(default="", max_length=finding.NAME_LENGTH_MAX)
    groups: list[Name] = Field(default=[], max_length=100)
    required_node: str = Field(default="", max_length=finding.NAME_LENGTH_MAX)


_NOT_KNOWN = "is not known here: it was never seen, or is no longer remembered"


class _Explaining:
    """Finds what a request names, and makes the answer, over several turns of the loop."""

    def __init__(self, sources: ApiSources, answers: Answers) -> None:
        self.sources = sources
        self._answers = answers

    def place(self, where: Where) -> Place:
        """Raises `HTTPException` with 404."""
        return finding.place(self.sources.scheduler, where)

    async def application_id(self, found: Place, given: str, namespace: str) -> str:
        """The application that is meant, also of those that are remembered. Raises `HTTPException` with 404."""
        name = await self.finish(found, finding.application_id(found, given, namespace))
        if name in found.partition.applications or name in found.partition.terminated_by_id:
            return name
        rm_id, partition = found.rm.rm_id, found.partition.name
        ids = self.sources.ended.ids_of_namespaces(rm_id, partition, given, namespace)
        return finding.only(ids, given) if ids else name

    async def finish(self, found: Place, work: Generator[None, None, ResultT]) -> ResultT:
        """Runs work on a partition. Raises `HTTPException` with 404 if it is dropped meanwhile, or 503."""
        return await self._answers.finish(_while_current(self.sources, found, work))

    async def written(self, answer: object) -> Response:
        return await self._answers.fresh(answer)

    async def ask(self, found: Place, application: Application, ask: Ask) -> Response:
        """Why an ask waits."""
        now = self.sources.clocks()
        work = explain_ask(found.rm, found.partition, application, ask, now.monotonic_ns)
        explanation = with_wall_times(await self.finish(found, work), now.epoch_ns)
        answer = AskAnswer(sentences.ask_summary(explanation), sentences.ask_details(explanation), explanation)
        return await self.written(answer)

    async def application(self, found: Place, application: Application) -> Response:
        """What an application waits for."""
        now = self.sources.clocks()
        work = explain_application(found.rm, found.partition, application, now.monotonic_ns, surveys=True)
        explanation = with_wall_times(await self.finish(found, work), now.epoch_ns)
        first = explanation.next_ask
        answer = ApplicationAnswer(
            [*sentences.application_summary(explanation), *self.unclaimed(found, application.application_id)],
            _lines(explanation.reasons, explanation.now_ns),
            [*sentences.ask_summary(first), *sentences.ask_details(first)] if first is not None else [],
            explanation,
        )
        return await self.written(answer)

    async def ended_ask(self, found: Place, application_id: str, key: str) -> Response | None:
        """What has become of an ask that is not there; None if it was never seen."""
        rm_id, partition, now_ns = found.rm.rm_id, found.partition.name, self.sources.clocks().wall_ns
        said = self.sources.ended.ask(rm_id, partition, application_id, key, now_ns)
        summary = [*([said] if said else []), *self.unclaimed(found, application_id, key)]
        return await self.written(AskAnswer(summary, [], None)) if summary else None

    def unclaimed(self, found: Place, application_id: str, key: str = "") -> list[str]:
        """What is said of the unclaimed allocations of an application, or of one of its keys."""
        held = found.partition.unclaimed
        there = held.of_key(application_id, key) if key else held.of_application(application_id)
        return sentences.unclaimed([unclaimed(found.partition, one) for one in there])

    async def ended_application(self, found: Place, application_id: str) -> Response | None:
        """What has become of an application that is not there; None if it was never seen."""
        gone, now = found.partition.terminated_by_id.get(application_id), self.sources.clocks()
        if gone is not None:
            said = sentences.ended_application(gone, now.monotonic_ns)
        else:
            rm_id, partition = found.rm.rm_id, found.partition.name
            said = self.sources.ended.application(rm_id, partition, application_id, now.wall_ns)
        summary = [*([said] if said else []), *self.unclaimed(found, application_id)]
        return await self.written(ApplicationAnswer(summary, [], [], None)) if summary else None

    def living(self, found: Place, application_id: str) -> Application:
        """The application. Raises `HTTPException` with 404 and what has become of it, if that is known."""
        known = found.partition
        if application_id not in known.applications and application_id not in known.terminated_by_id:
            wall_ns = self.sources.clocks().wall_ns
            said = self.sources.ended.application(found.rm.rm_id, known.name, application_id, wall_ns)
            if not said:
                raise HTTPException(404, f"application: {shown(application_id)} {_NOT_KNOWN}")
            raise HTTPException(404, f"application: {said}")
        return finding.application(found, application_id)

    async def pod(self, found: Place, namespace: str, pod: str, *, saw_all: bool) -> Response:
        """What the resource manager says of a pod of which no ask was found. Raises `HTTPException` with 404."""
        wanted = shown(f"{namespace}/{pod}")
        try:
            said = await self.sources.pod_said(found.rm.rm_id, namespace, pod)
        except NoPodAnswer as error:
            why = f"the resource manager could not be asked about it: {error}"
            raise HTTPException(404, f"pod: there is no ask of {wanted}, and {why}") from error
        if not said:
            told = f"{_NOT_KNOWN}; is its schedulerName right?"
            if not saw_all:
                others = f"the first {OTHER_ASKS_SEEN_MAX:,} asks of others"
                told = f"is not among the asks of its namespace, nor {others}; name its application and its ask"
            raise HTTPException(404, f"pod: {wanted} {told}")
        return await self.written(AskAnswer([said], [], None))

    async def queue(self, found: Place, queue: Queue) -> Response:
        """What waits in a queue and below."""
        now = self.sources.clocks()
        work = explain_queue(found.rm, found.partition, queue, now.monotonic_ns)
        explanation = await self.finish(found, work)
        answer = QueueAnswer(
            sentences.queue_summary(explanation),
            _lines(explanation.reasons, explanation.now_ns),
            with_wall_times(explanation, now.epoch_ns),
        )
        return await self.written(answer)

    async def fits(self, found: Place, queue: Queue, supposed: SupposedAsk) -> Response:
        """Whether a supposed ask would be placed."""
        now = self.sources.clocks()
        ask = Supposed(Resources(supposed.resources), supposed.user, tuple(supposed.groups), supposed.required_node)
        work = fits(found.rm, found.partition, queue, ask, now.monotonic_ns)
        result = await self.finish(found, work)
        answer = FitsAnswer(
            sentences.fits_summary(result), sentences.fits_details(result), with_wall_times(result, now.epoch_ns)
        )
        return await self.written(answer)


def routes(sources: ApiSources, answers: Answers) -> Router:
    """The router of these routes."""
    router = Router(tags=["explain"])
    explaining = _Explaining(sources, answers)

    @router.get("/explain/ask", response_model=AskAnswer)
    async def explain_an_ask(where: Annotated[AskWhere, Query()]) -> Response:
        """Why an ask waits."""
        found = explaining.place(where)
        name = await explaining.application_id(found, where.application, where.namespace)
        application = found.partition.applications.get(name)
        if where.ask and (application is None or where.ask not in application.asks):
            ended = await explaining.ended_ask(found, name, where.ask)
            if ended is not None:
                return ended
        application = explaining.living(found, name)
        if not where.ask and len(application.asks) != 1:
            raise HTTPException(422, f"ask: the application has {len(application.asks)} asks; name one of them")
        key = where.ask or next(iter(application.asks))
        return await explaining.ask(found, application, finding.ask(application, key))

    @router.get("/explain/pod", response_model=AskAnswer)
    async def explain_a_pod(where: Annotated[PodWhere, Query()]) -> Response:
        """Why a Kubernetes pod waits: the ask with its namespace and name in the tags. Of a pod without an ask, such as
        one that waits for its PodGroup or has ended, its resource manager is asked."""
        found = explaining.place(where)
        pair, saw_all = await explaining.finish(found, _find_pod(found, where.namespace, where.pod))
        if pair is not None:
            return await explaining.ask(found, *pair)
        return await explaining.pod(found, where.namespace, where.pod, saw_all=saw_all)

    @router.get("/explain/application", response_model=ApplicationAnswer)
    async def explain_an_application(where: Annotated[ApplicationWhere, Query()]) -> Response:
        """What an application waits for, or what has become of it."""
        found = explaining.place(where)
        name = await explaining.application_id(found, where.application, where.namespace)
        if name not in found.partition.applications:
            ended = await explaining.ended_application(found, name)
            if ended is not None:
                return ended
        return await explaining.application(found, explaining.living(found, name))

    @router.get("/explain/queue", response_model=QueueAnswer)
    async def explain_a_queue(where: Annotated[QueueWhere, Query()]) -> Response:
        """What waits in a queue and below, by reason, and what uses it."""
        found = explaining.place(where)
        return await explaining.queue(found, finding.queue(found, where.queue))

    @router.post("/whatif/fits", response_model=FitsAnswer)
    async def would_fit(supposed: SupposedAsk) -> Response:
        """Would this ask be placed now, where, and if not why not. Nothing is placed."""
        found = explaining.place(Where(rm=supposed.rm, partition=supposed.partition))
        queue = finding.queue(found, supposed.queue)
        if not queue.is_leaf:
            raise HTTPException(422, f"queue: {queue.written} has child queues; name a leaf")
        return await explaining.fits(found, queue, supposed)

    return router


def _while_current(
    sources: ApiSources, found: Place, work: Generator[None, None, ResultT]
) -> Generator[None, None, ResultT]:
    """The same work, which ends with 404 when the partition is dropped meanwhile."""
    while True:
        if not finding.is_current(sources.scheduler, found):
            raise HTTPException(404, f"the state of {found.rm.rm_id!r} was dropped meanwhile")
        try:
            next(work)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        yield


def _find_pod(found: Place, namespace: str, pod: str) -> Generator[None, None, tuple[_Pair | None, bool]]:
    """Looks at the asks of applications of this namespace, and then at some of all others, in stops of `_ASKS_A_TURN`:
    a pending ask if there are several of that name. So a pod is found at once among however many of other namespaces.
    Also whether all asks were looked at."""
    own: list[Application] = []
    others: list[Application] = []
    for number, one in enumerate(list(found.partition.applications.values()), 1):
        if number % _ASKS_A_TURN == 0:
            yield
        (own if one.spec.tags.get("namespace", "") == namespace else others).append(one)
    wanted = f"{namespace}/{pod}"  # as one text: with another resource manager either may have a slash
    pair, _ = yield from _pod_among(own, wanted, sys.maxsize)
    if pair is not None:
        return pair, True
    return (yield from _pod_among(others, wanted, OTHER_ASKS_SEEN_MAX))


def _pod_among(
    applications: list[Application], wanted: str, most: int
) -> Generator[None, None, tuple[_Pair | None, bool]]:
    turn, best = 0, None
    for application in applications:
        asks = iter(list(application.asks.values()))
        while some := list(islice(asks, _ASKS_A_TURN)):
            most -= len(some)
            if most < 0:
                return best, False
            turn += len(some)
            if turn >= _ASKS_A_TURN:
                turn = 0
                yield
            named = [one for one in some if (tags := one.spec.tags) and wanted.endswith(tags.get(POD_NAME_TAG, "/"))]
            for ask in named:
                if pod_of(ask.spec.tags) != wanted:
                    continue
                if ask.pending or ask.swaps:
                    return (application, ask), True
                best = application, ask
    return best, True


def _lines(reasons: list[Reason], now_ns: int) -> list[ReasonLine]:
    return [
        ReasonLine(
            one.allocations,
            one.applications,
            sentences.reason_clause(one, now_ns),
            one.application_id,
            one.allocation_key,
            one.pod,
        )
        for one in reasons
    ]
