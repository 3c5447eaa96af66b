"""Lists the objects of one resource, watches them, and lists and compares again whenever the watch has a gap.

    list (or a watch that begins with all objects) ──▶ watch from its version ──▶ ended: watch from the last version
         ▲                                                   │
         └──────────────── 410, unusable answer ─────────────┘

Every list is consistent and in pages. Reads from the API server's cache (`resourceVersion=0`) are cheaper for the
server, but may be older than what was told before, and then every bound pod would look unbound for a moment.

Servers that can send the list as the beginning of a watch are asked to (`sendInitialEvents`): it costs them the least.
Those that cannot answer 422, 400, or send no end of the initial events, and are listed from then on.
"""

from __future__ import annotations

import asyncio
import logging
import random as random_module
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic

import aiohttp

from schedulerd.kubernetes.api.backoff import Backoff, BackoffSettings, Random
from schedulerd.kubernetes.api.decoding import Bookmark, Decoder, Passed, WatchError, WatchLine
from schedulerd.kubernetes.api.errors import AnswerUnusable, ApiError, Refused, Unreachable
from schedulerd.kubernetes.api.object_cache import ObjectCache, key_of
from schedulerd.kubernetes.api.resources import Resource
from schedulerd.kubernetes.api.transport import Request, Transport
from schedulerd.kubernetes.api.watch_events import ObjectT, Synced, WatchEvent

LIST_BYTES_MAX = 1024 * 1024 * 1024
"""Of one page; a list without pages, which is the last resort, is one page."""
LIST_SECONDS = 120.0
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
PACED_BYTES = 64 * 1024
"""A watch that has said more at once is read again at once."""
LOG = logging.getLogger(__name__)

Deliver = Callable[[Resource, list[WatchEvent]], Awaitable[None]]
"""Takes a batch of events; nothing more is read until it returns. `EventQueue.put` is one."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    page_objects: int = 500
    watch_s: tuple[float, float] = (300.0, 600.0)
    """Between these the server is asked to end each watch."""
    silent_s: float = 150.0
    """A watch that says nothing for so long is opened again; bookmarks come about once a minute."""
    short_s: float = 1.0
    """A watch that ends sooner, without a single event, is a failure."""
    absent_s: float = 60.0
    """Between two looks for a resource that the server does not know yet."""
    pace_s: float = 0.005
    """A watch that says something again so soon is read that much later. What comes meanwhile is taken together, which
    is cheaper; what comes alone is not kept waiting."""
    watch_list: bool = True
    """Ask for the list as the beginning of a watch, where the server can."""
    backoff: BackoffSettings = field(default_factory=BackoffSettings)


class _Expired(Exception):
    """The server has forgotten what comes after the version: what was missed can only be found by a list."""


class _Stalled(Exception):
    """The connection says nothing any longer."""


class Reflector(Generic[ObjectT]):
    """`run` it as a task. `problem` says why nothing new comes, if that is so; `is_synced` if a list was told."""

    def __init__(
        self,
        transport: Transport,
        resource: Resource,
        type_: type[ObjectT],
        deliver: Deliver,
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
        may_be_absent: bool = False,
        may_be_forbidden: bool = False,
        metadata_only: bool = False,
        settings: WatchSettings | None = None,
        random: Random = random_module.random,
    ) -> None:
        """With `may_be_absent` a resource that the server does not know (a CRD) has no objects; else it is an error.
        With `may_be_forbidden` one that it does not let this process see has none either, and `problem` says so.
        With `metadata_only` the server sends nothing else of the objects."""
        self.resource = resource
        self.is_synced = False
        self.is_absent = False
        self.is_forbidden = False
        self.problem: ApiError | None = None
        self._transport = transport
        self._metrics = transport.metrics
        self._deliver = deliver
        self._path = resource.path(namespace)
        selectors = (("fieldSelector", field_selector), ("labelSelector", label_selector))
        self._selectors = [(name, text) for name, text in selectors if text]
        self._may_be_absent = may_be_absent
        self._may_be_forbidden = may_be_forbidden
        self._accept = (METADATA_LIST, METADATA) if metadata_only else ("", "")
        self._settings = settings or WatchSettings()
        self._random = random
        self._backoff = Backoff(self._settings.backoff, random)
        self._decoder: Decoder[ObjectT] = Decoder(type_)
        self._cache: ObjectCache[ObjectT] = ObjectCache()
        self._version = ""
        """Where to go on; empty if a list is needed."""
        self._cause = "start"
        self._watch_list = self._settings.watch_list
        self._gaps = 0
        """In a row, without an event in between."""

    async def run(self) -> None:
        """Forever; ends with the cancellation of its task."""
        while True:
            try:
                if self._version:
                    await self._watch(self._version, is_list=False)
                else:
                    await self._start_over()
            except _Expired:
                await self._expired(None)
            except Refused as error:
                await self._refused(error)
            except AnswerUnusable as error:
                self._version, self._cause = "", "unusable"
                self._note(error)
                await self._wait(None)
            except ApiError as error:  # unreachable
                self._note(error)
                await self._wait(None)

    async def _start_over(self) -> None:
        self._metrics.lists[self.resource.plural, self._cause] += 1
        self._cache.begin_list()
        if self._watch_list:
            try:
                await self._watch("", is_list=True)
                return
            except Refused as error:
                if error.status.code not in (400, 422):
                    raise
                self._watch_list = False
            self._cache.begin_list()
        await self._list()

    async def _list(self) -> None:
        """All objects, page by page; each page is told when it comes, deletions when the last one has come."""
        token, limit = "", self._settings.page_objects
        while True:
            query = [*self._selectors]
            if limit:
                query.append(("limit", str(limit)))
            if token:
                query.append(("continue", token))
            request = Request(
                "GET",
                self.resource,
                self._path,
                query,
                accept=self._accept[0],
                bytes_max=LIST_BYTES_MAX,
                seconds_max=LIST_SECONDS,
            )
            try:
                answer = await self._transport.request(request)
            except Refused as error:
                if token and error.status.is_expired:  # pages took too long: all in one
                    token, limit = "", 0
                    self._cache.begin_list()
                    continue
                raise
            page = self._decoder.page(answer.body)
            told: list[WatchEvent] = []
            for item in page.items:
                self._cache.listed(item, told)
            for passed in page.passed:
                self._pass(passed, is_listed=True)
            await self._tell(told)
            token = page.continue_token
            if not token:
                if not page.resource_version:
                    raise AnswerUnusable(f"list of {self.resource.plural}: it has no resourceVersion")
                await self._end_list(page.resource_version)
                return

    async def _end_list(self, version: str, *, is_forbidden: bool = False) -> None:
        gone = self._cache.end_list()
        self._metrics.replaced[self.resource.plural] += len(gone)
        await self._tell([*gone, Synced(not self.is_synced, is_forbidden)])
        self.is_synced = True
        self.is_absent = False
        self.is_forbidden = is_forbidden
        self.problem = None
        self._version = version

    async def _watch(self, version: str, *, is_list: bool) -> None:
        """Reads one watch to its end. `_version` is kept where to go on, whatever happens."""
        settings, loop, name = self._settings, asyncio.get_running_loop(), self.resource.plural
        least_s, most_s = settings.watch_s
        seconds = least_s + (most_s - least_s) * self._random()
        query = [
            *self._selectors,
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(int(seconds))),
        ]
        if is_list:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if version:
            query.append(("resourceVersion", version))
        request = Request("GET", self.resource, self._path, query, accept=self._accept[1])
        self._decoder.reset()
        opened_s, events, how = loop.time(), 0, "cut"
        try:
            async with self._transport.stream(request) as content:
                opened_s = heard_s = self._heard()
                if not is_list:
                    self.problem = None
                # Servers end watches on their own; one that does not is as good as silent.
                last_s = opened_s + seconds + settings.silent_s
                while chunk := await self._chunk(content, last_s):
                    self._metrics.watch_bytes[name] += len(chunk)
                    before_s, heard_s = heard_s, self._heard()
                    lines = self._decoder.feed(chunk)
                    events += len(lines)
                    is_list = await self._lines(lines, is_list)
                    if heard_s - before_s < settings.pace_s and len(chunk) < PACED_BYTES and not is_list:
                        await asyncio.sleep(settings.pace_s)
            how = "closed"
        except _Stalled:
            how = "stalled"
        except _Expired:
            how = "expired"
            raise
        except Refused:
            how = "refused"
            raise
        except AnswerUnusable:
            how = "unusable"
            raise
        except Unreachable:  # what has lived is opened again at once
            if is_list or (events == 0 and loop.time() - opened_s < settings.short_s):
                raise
        finally:
            if how == "closed" and events == 0 and loop.time() - opened_s < settings.short_s:
                how = "short"
            self._metrics.watches[name, how] += 1
        if is_list:  # parameters unknown to the server, which passed over them
            self._watch_list = False
        if how == "short":
            self._note(Unreachable("ended at once, without an event", f"watch of {name}", has_left=True))
            await self._wait(None)

    async def _chunk(self, content: aiohttp.StreamReader, last_s: float) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(last_s, loop.time() + self._settings.silent_s)):
                return await content.readany()
        except TimeoutError:
            raise _Stalled from None

    async def _lines(self, lines: list[WatchLine[ObjectT] | Bookmark | WatchError | Passed], is_list: bool) -> bool:
        """Tells what the lines say; whether the initial events are still to end."""
        told: list[WatchEvent] = []
        cache, counts, name = self._cache, self._metrics.watch_events, self.resource.plural
        version = ""
        for line in lines:
            if isinstance(line, WatchLine):
                counts[name, line.type] += 1
                version = line.object.metadata.resource_version
                if line.type == "DELETED":
                    cache.delete(line.object, told)
                    if is_list:
                        cache.unlisted(key_of(line.object.metadata))
                elif is_list:
                    cache.listed(line.object, told)
                else:
                    cache.upsert(line.object, told)
            elif isinstance(line, Bookmark):
                counts[name, "BOOKMARK"] += 1
                version = line.resource_version
                if is_list and line.ends_list:
                    await self._tell(told)
                    told = []
                    await self._end_list(version)
                    is_list = False
            elif isinstance(line, Passed):
                version = line.metadata.metadata.resource_version
                self._pass(line, is_listed=is_list)
            else:
                counts[name, "ERROR"] += 1
                await self._tell(told)
                self._go_on(version, is_list)
                self._ended_by(line)
        await self._tell(told)
        self._go_on(version, is_list)
        return is_list

    def _go_on(self, version: str, is_list: bool) -> None:
        if version and not is_list:
            self._version = version
            self._gaps = 0
            self.problem = None

    def _ended_by(self, line: WatchError) -> None:
        status = line.status
        if status.is_expired:
            raise _Expired
        raise Refused(f"watch of {self.resource.plural}", status, None)

    async def _refused(self, error: Refused) -> None:
        status = error.status
        if status.is_expired:
            await self._expired(error.retry_after_s)
            return
        if status.code == 404 and self._may_be_absent:
            if not (self.is_absent and self.is_synced):
                self._cache.begin_list()
                await self._end_list("")
                self.is_absent = True
            self._version, self._cause = "", "absent"
            await asyncio.sleep(self._settings.absent_s)
            return
        if status.code == 403 and self._may_be_forbidden:
            if not (self.is_forbidden and self.is_synced):
                self._cache.begin_list()
                await self._end_list("", is_forbidden=True)
            self._note(error)
            self._version, self._cause = "", "forbidden"
            await asyncio.sleep(self._settings.absent_s)
            return
        self._note(error)
        if status.is_from_the_future:
            self._version, self._cause = "", "future"
        elif status.code != 429 and status.code < 500 and status.code not in (401, 403):
            self._version, self._cause = "", "refused"
        await self._wait(error.retry_after_s)

    async def _expired(self, retry_after_s: float | None) -> None:
        """Lists at once: nobody failed. If it happens again before an event came, something is wrong, and it waits."""
        self._version, self._cause = "", "expired"
        self._gaps += 1
        if self._gaps > 1:
            await self._wait(retry_after_s)

    async def _wait(self, retry_after_s: float | None) -> None:
        wait_s = self._backoff.failed(asyncio.get_running_loop().time())
        if retry_after_s is not None:
            wait_s = retry_after_s + wait_s - self._settings.backoff.first_s
        await asyncio.sleep(wait_s)

    async def _tell(self, events: list[WatchEvent]) -> None:
        if events:
            await self._deliver(self.resource, events)
            self._metrics.objects[self.resource.plural] = len(self._cache.objects)

    def _pass(self, passed: Passed, *, is_listed: bool) -> None:
        if is_listed:
            self._cache.passed(passed.metadata)
        self._metrics.undecodable[self.resource.plural] += 1
        metadata = passed.metadata.metadata
        LOG.warning("%s %s/%s is passed over: %s", self.resource, metadata.namespace, metadata.name, passed.error)

    def _heard(self) -> float:
        """When it was: now."""
        now_s = asyncio.get_running_loop().time()
        self._metrics.last_contact[self.resource.plural] = now_s
        return now_s

    def _note(self, problem: ApiError) -> None:
        if self.problem is None:
            LOG.warning("%s: %s", self.resource, problem)
        self.problem = problem
