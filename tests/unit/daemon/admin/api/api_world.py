"""The API over a scheduler that a conversation has brought somewhere, called without a network."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from schedulerd.config import QueueFile, Settings, load_queue_file
from schedulerd.core.language.commands import Command
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.resources import Limits
from schedulerd.core.language.specs import LimitSpec
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.api.app import PREFIX, build_api
from schedulerd.daemon.admin.api.sources import ApiSources
from schedulerd.daemon.admin.api.tokens import Tokens
from schedulerd.daemon.admin.http import api_mount
from schedulerd.daemon.admin.state_queries import StateQueries
from schedulerd.instant import Instant
from schedulerd.observe.ended import Ended
from schedulerd.wire.callback import NoPodAnswer
from tests.unit import virtual_loop
from tests.unit.core.builders import Conversation, a_conversation, a_node, a_queue_spec, a_root, an_app, an_ask
from tests.unit.daemon.event_world import EventWorld

EPOCH_NS = 1_700_000_000_000_000_000
VIEW_TOKEN, OPERATE_TOKEN = "view-token-0123456789", "operate-token-0123456789"
TOKENS = f"# tokens\nann view {VIEW_TOKEN}\nbob operate {OPERATE_TOKEN}\n"


def a_cluster() -> Conversation:
    """Two nodes; `app` has one ask that its quota blocks, `big` one that no node fits."""
    limit = LimitSpec(users=("somebody",), groups=(), max=Limits({"memory": 1_000}))
    root = a_root(a_queue_spec("a", max={"memory": 50}, limits=(limit,)), a_queue_spec("b"))
    talk = a_conversation(a_node("n1", {"memory": 100}), a_node("n2", {"memory": 60}), root=root)
    talk.apps(an_app("big", "root.b"))
    tags = {"kubernetes.io/meta/namespace": "ns", "kubernetes.io/meta/podName": "pod-1"}
    talk.asks(an_ask("k", 30, count=2, tags=tags), an_ask("k", 500, app="big"))
    talk.schedule()
    return talk


class ApiWorld:
    """Requests are made one after the other, each on a loop of its own unless a test brings one."""

    def __init__(self, talk: Conversation | None = None, tokens: Path | None = None, **settings: Any) -> None:
        self.talk = talk or a_cluster()
        self.events = EventWorld()
        self._settings = Settings(**settings)
        self.ended = Ended()
        self.pods: dict[tuple[str, str], str | NoPodAnswer] = {}
        """What the resource manager says of pods that it has not asked for."""
        self._tokens = tokens
        self.commands: list[Command] = []
        """Those of the API."""
        self.client = ("127.0.0.1", 5_000)
        self._app: Starlette | None = None

    async def app(self) -> Starlette:
        """Made once: it takes longer than most requests."""
        self._app = self._app or self._new_app()
        return self._app

    def _new_app(self) -> Starlette:
        access = Access(self._settings, Tokens(self._tokens) if self._tokens is not None else None)
        queries = StateQueries(lambda _query: None, clock=lambda: asyncio.get_running_loop().time())
        sources = ApiSources(
            self.talk.scheduler,
            queries,
            self.events.feed,
            access,
            self.submit,
            self.validate,
            lambda: Instant(self.talk.now_ns, EPOCH_NS + self.talk.now_ns),
            self.ended,
            self.pod_said,
        )
        return Starlette(routes=[api_mount(build_api(sources))])

    async def submit(self, command: Command) -> asyncio.Future[list[Fact]]:
        self.commands.append(command)
        done: asyncio.Future[list[Fact]] = asyncio.get_running_loop().create_future()
        done.set_result(self.talk.step(command))
        return done

    def step(self, *facts: Fact) -> None:
        """What a sink of the owner is given."""
        self.ended.observe(facts, Instant(self.talk.now_ns, EPOCH_NS + self.talk.now_ns))

    async def pod_said(self, rm_id: str, namespace: str, name: str) -> str:
        said = self.pods.get((namespace, name), "") if rm_id == self.talk.rm_id else ""
        if isinstance(said, NoPodAnswer):
            raise said
        return said

    async def validate(self, text: str, source: str) -> QueueFile:
        return load_queue_file(text, source)

    async def client_of(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(await self.app(), raise_app_exceptions=False, client=self.client)
        return httpx.AsyncClient(transport=transport, base_url=f"http://localhost:9080{PREFIX}")

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def answer() -> httpx.Response:
            async with await self.client_of() as client:
                return await client.request(method, path, **options)

        return virtual_loop.run(answer())

    def get(self, path: str, **query: Any) -> Any:
        """The answer of a request that succeeds."""
        response = self.request("GET", path, params=query)
        assert response.status_code == 200, response.text
        return response.json()

    def refused(self, path: str, **query: Any) -> tuple[int, str]:
        """Status and detail of a request that fails."""
        response = self.request("GET", path, params=query)
        assert response.headers["content-type"] == "application/problem+json"
        return response.status_code, response.json()["detail"]
