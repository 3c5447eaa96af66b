"""Keeps the views of open pages fresh: one task for all viewers, one view after the other.

A topic is a page with its parameters. All viewers of a topic get the same bytes, and a topic that nobody watches costs
nothing. The views are made in slices, within the share of the loop's time that state queries have; so the more topics
are watched, the less often each is refreshed, and the daemon is not slower for it.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from starlette.exceptions import HTTPException

from schedulerd.daemon.admin.ui.context import Context, CountsCache, place_of
from schedulerd.daemon.admin.ui.sources import UiSources
from schedulerd.daemon.admin.ui.texts import visible
from schedulerd.daemon.admin.ui.view import View, changes, whole

REFRESH_SECONDS = 1.0
"""A view is made at most so often."""
TOPICS_KEPT_MAX = 20
"""Topics that are remembered while nobody watches them, for a stream that follows."""
CHANGES_KEPT = 30
"""Changes of a topic that are kept for streams that resume."""
CHANGES_BYTES_MAX = 262_144
"""Size of the changes of a topic that are kept; a stream that is further behind gets everything."""
WORK_SECONDS_MAX = 30.0
"""How long a view may take to be made, pauses included."""

log = structlog.stdlib.get_logger(__name__)

MakeView = Callable[[Context], Generator[None, None, View]]


class Message(NamedTuple):
    """One server-sent event."""

    event: str
    """`whole`, `changes`, `form` (the page has to be loaded again) or `gone` (what it shows, or a way to make it)."""
    id: str
    """The version of the view that the page has after it."""
    data: bytes


@dataclass(frozen=True, slots=True)
class _Change:
    before: int
    after: int
    data: bytes


class Topic:
    """A page with parameters, and the last view of it."""

    def __init__(self, key: tuple[Any, ...], make: MakeView, params: Mapping[str, str]) -> None:
        self.key, self.make, self.params = key, make, params
        self.view: View | None = None
        self.version = 0
        self.made_ns = 0
        """When the last view was finished, in the scheduler's time; that of the last attempt if it failed."""
        self.problem: HTTPException | None = None
        """Why there is no view any more."""
        self.memo: dict[str, Any] = {}
        self.html: tuple[int, bytes] | None = None
        """The last version that was rendered."""
        self.changes: deque[_Change] = deque(maxlen=CHANGES_KEPT)
        self.watchers: dict[asyncio.Event, None] = {}
        self.lock = asyncio.Lock()

    @property
    def form(self) -> str:
        return self.view.form if self.view is not None else ""


class Live:
    """All topics."""

    def __init__(self, sources: UiSources) -> None:
        self._sources = sources
        self._cache = CountsCache()
        self._topics: OrderedDict[tuple[Any, ...], Topic] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._boot = secrets.token_hex(4)
        self._version = 0
        self.closed = False

    def topic(self, name: str, make: MakeView, params: Mapping[str, str]) -> Topic:
        """The topic of a page with these parameters."""
        key = (name, *sorted(params.items()))
        found = self._topics.get(key)
        if found is None:
            found = self._topics[key] = Topic(key, make, dict(params))
        self._topics.move_to_end(key)
        idle = [one for one in self._topics.values() if not one.watchers and one is not found]
        for one in idle[: max(0, len(idle) - TOPICS_KEPT_MAX)]:
            del self._topics[one.key]
        return found

    def id_of(self, topic: Topic) -> str:
        """The id of the topic's version, which a stream can resume from."""
        return f"{self._boot}:{topic.version}"

    async def fresh(self, topic: Topic) -> View:
        """A view that is at most `REFRESH_SECONDS` old. Raises `HTTPException` if there is none."""
        async with topic.lock:
            age_ns = self._sources.clocks().monotonic_ns - topic.made_ns
            if (topic.view is None and topic.problem is None) or age_ns > REFRESH_SECONDS * 1e9:
                await self._refresh(topic)
        if topic.view is None:
            assert topic.problem is not None
            raise HTTPException(topic.problem.status_code, topic.problem.detail, topic.problem.headers)
        return topic.view

    async def _refresh(self, topic: Topic) -> None:
        """Makes a view and what changed since the one before."""
        queries = self._sources.queries
        try:
            place, links = place_of(self._sources, topic.params)
            now = self._sources.clocks()
            context = Context(self._sources, place, links, topic.params, now, self._cache, topic.memo)
            new = await asyncio.wait_for(queries.finish(self._made(topic, context)), WORK_SECONDS_MAX)
            await self._publish(topic, new)
        except HTTPException as error:
            topic.problem, topic.view = error, None
            topic.memo.clear()
        except TimeoutError:
            if topic.view is None:  # otherwise the page shows how old it is
                topic.problem = HTTPException(503, "the scheduler has had no time for this page; try again")
        finally:
            topic.made_ns = self._sources.clocks().monotonic_ns

    def _made(self, topic: Topic, context: Context) -> Generator[None, None, View]:
        """The view; 404 if the partition is dropped meanwhile."""
        work = topic.make(context)
        while True:
            if not context.is_current():
                raise HTTPException(404, "the state of this resource manager was dropped meanwhile")
            try:
                next(work)
            except StopIteration as end:
                made: View = end.value
                return made
            yield

    async def _publish(self, topic: Topic, new: View) -> None:
        old = topic.view
        if old is not None and old.form == new.form:
            data = await self._sources.queries.finish(changes(old, new))
            if not data:
                return
            before = topic.version
            self._version += 1
            topic.changes.append(_Change(before, self._version, data))
            while sum(len(one.data) for one in topic.changes) > CHANGES_BYTES_MAX:
                topic.changes.popleft()
        else:
            self._version += 1
            topic.changes.clear()
        topic.view, topic.version, topic.problem = new, self._version, None
        for woken in topic.watchers:
            woken.set()

    @contextmanager
    def watching(self, topic: Topic) -> Iterator[asyncio.Event]:
        """While the context lasts, the topic is kept fresh. The event is set when there is a new version."""
        woken = asyncio.Event()
        self._topics[topic.key] = topic
        topic.watchers[woken] = None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep_fresh())
        try:
            yield woken
        finally:
            del topic.watchers[woken]

    async def _keep_fresh(self) -> None:
        """Refreshes the topic that is oldest, as long as any is watched."""
        while watched := [one for one in self._topics.values() if one.watchers]:
            oldest = min(watched, key=lambda one: one.made_ns)
            age_ns = self._sources.clocks().monotonic_ns - oldest.made_ns
            if age_ns < REFRESH_SECONDS * 1e9:
                await asyncio.sleep(max(0.001, REFRESH_SECONDS - age_ns / 1e9))
                continue
            try:
                async with oldest.lock:
                    await self._refresh(oldest)
            except Exception as error:  # a bug in one page must not end all others
                log.error("a page could not be refreshed", page=str(oldest.key[0]), exc_info=error)
                oldest.problem = HTTPException(500, "this page could not be made; see the log")
            if oldest.problem is not None:
                for woken in oldest.watchers:
                    woken.set()

    async def since(self, topic: Topic, known: str, form: str) -> list[Message]:
        """What a page has to be told that has the version `known` and this form; empty if it has everything."""
        if topic.problem is not None:
            detail = json.dumps({"detail": visible(str(topic.problem.detail))})
            return [Message("gone", known, detail.encode())]
        if topic.view is None:
            return []
        current = self.id_of(topic)
        if known == current:
            return []
        if form != topic.form:
            return [Message("form", current, b"{}")]
        boot, _, number = known.partition(":")
        if boot == self._boot and number.isdecimal() and len(number) < 18:
            kept = list(topic.changes)
            for at, one in enumerate(kept):
                if one.before == int(number):
                    return [Message("changes", f"{self._boot}:{each.after}", each.data) for each in kept[at:]]
        view = topic.view
        return [Message("whole", current, await self._sources.queries.finish(whole(view)))]

    def close(self) -> None:
        """The daemon ends: so do all streams."""
        self.closed = True
        for topic in self._topics.values():
            for woken in topic.watchers:
                woken.set()
        if self._task is not None:
            self._task.cancel()
