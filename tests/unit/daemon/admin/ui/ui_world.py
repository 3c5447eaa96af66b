"""The page over a scheduler that a conversation has brought somewhere, called without a network or a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from schedulerd.config import Settings
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.api.tokens import Tokens
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.daemon.admin.ui.app import Ui
from schedulerd.daemon.admin.ui.history import UseHistory
from schedulerd.daemon.admin.ui.queue_file_log import QueueFileLog
from schedulerd.daemon.admin.ui.sources import UiSources
from schedulerd.instant import Instant
from tests.unit import virtual_loop
from tests.unit.core.builders import Conversation
from tests.unit.daemon.admin.api.api_world import EPOCH_NS, a_cluster
from tests.unit.daemon.event_world import EventWorld

ResultT = TypeVar("ResultT")


class UiWorld:
    """Its clock is that of the loop, which passes when everything waits."""

    def __init__(self, talk: Conversation | None = None, tokens: Path | None = None, **settings: Any) -> None:
        self.talk = talk or a_cluster()
        self.events = EventWorld()
        self.queue_files = QueueFileLog()
        self.client = ("127.0.0.1", 5_000)
        self._settings, self._tokens = Settings(**settings), tokens
        self.placements = 0
        self.ui: Ui
        self.sources: UiSources
        self.app: Starlette

    def _now(self) -> Instant:
        passed_ns = self.talk.now_ns + int(asyncio.get_running_loop().time() * 1e9)
        return Instant(passed_ns, EPOCH_NS + passed_ns)

    def _build(self) -> None:
        queries = StateQueries(lambda _query: None, clock=asyncio.get_running_loop().time)
        scheduler = self.talk.scheduler
        history = UseHistory(scheduler.cluster, queries, lambda _rm, _partition: self.placements, self._now)
        access = Access(self._settings, Tokens(self._tokens) if self._tokens is not None else None)
        self.sources = UiSources(
            scheduler,
            queries,
            self.events.feed,
            access,
            history,
            self.queue_files,
            has_tokens=self._tokens is not None,
            clocks=self._now,
            host="host-1",
        )
        self.ui = Ui(self.sources)
        self.app = Starlette(routes=[Mount("/ui", app=self.ui.app())])

    def run(self, act: Callable[[httpx.AsyncClient], Awaitable[ResultT]]) -> ResultT:
        """Runs something on a virtual loop, with a browser that does not follow redirects."""

        async def whole() -> ResultT:
            self._build()
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=self.client)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9080") as client:
                try:
                    return await act(client)
                finally:
                    self.ui.live.close()

        return virtual_loop.run(whole())

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def act(client: httpx.AsyncClient) -> httpx.Response:
            return await client.request(method, path, **options)

        return self.run(act)

    def page(self, path: str) -> str:
        """The HTML of a page that is there."""
        response = self.request("GET", path)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        return response.text
