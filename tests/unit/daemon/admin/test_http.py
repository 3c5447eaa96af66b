"""Each route answers what an operator, a probe or Prometheus expects of it, wrong requests included."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter, PlatformCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from schedulerd.config import Settings
from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.views.values import NodeView
from schedulerd.daemon.admin import scrapes, state_queries
from schedulerd.daemon.admin.api.access import Access
from schedulerd.daemon.admin.debug_state import LIMIT_MAX, StateParameters
from schedulerd.daemon.admin.http import (
    BODY_BYTES_MAX,
    LAST_WRITES_SECONDS,
    SHUTDOWN_TIMEOUT_SECONDS,
    HttpServer,
    Sources,
    build_app,
)
from schedulerd.daemon.admin.http_access import Gate
from schedulerd.daemon.admin.scrapes import Scrapes
from schedulerd.daemon.admin.state_queries import LOOP_SHARE_MAX, StateQueries
from schedulerd.daemon.runtime.logs import LogLevel
from schedulerd.daemon.runtime.slices import GAP_SECONDS, Slices
from tests.unit import virtual_loop


@dataclass
class Daemon:
    """What the rest of the daemon says when it is asked."""

    loop_age_seconds: float = 0.25
    not_ready_because: str = ""
    journal: str = ""
    debug_state: object = field(default_factory=dict)
    look_seconds: float = 0.0
    """How long a look holds the loop, by the clock that looks are measured with."""
    queries: list[StateParameters] = field(default_factory=list)
    gate: Gate = field(default_factory=lambda: Gate(Settings(), Access(Settings(), None)))
    client: str = "127.0.0.1"
    """Address of the client."""
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def look(self, query: StateParameters) -> object:
        self.queries.append(query)
        return self.debug_state

    def clock(self) -> float:
        return asyncio.get_running_loop().time() + self.look_seconds * len(self.queries)

    def sources(self) -> Sources:
        return Sources(
            scrapes=Scrapes(lambda pace: iter([self.registry.collect()])),
            log_level=LogLevel(),
            loop_age_seconds=lambda: self.loop_age_seconds,
            not_ready_because=lambda: self.not_ready_because,
            gate=self.gate,
            journal_state=lambda: self.journal,
            looks=StateQueries(self.look, clock=self.clock),
            loop_age_seconds_max=5.0,
        )

    def request(self, method: str, path: str, *, peer: str = "127.0.0.1", **options: Any) -> httpx.Response:
        """`peer` is the address of the client."""

        async def answer() -> httpx.Response:
            app = build_app(self.sources())
            transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(self.client, 5_000))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, **options)

        return asyncio.run(answer())


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


def test_the_page_is_at_ui_and_the_root_leads_there(daemon: Daemon, tmp_path: Path) -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await Response("the page")(scope, receive, send)

    (tmp_path / "index.html").write_text("of others")

    async def answers(web_root: Path | None) -> list[tuple[int, str]]:
        app = build_app(replace(daemon.sources(), ui=page, web_root=web_root))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://daemon") as client:
            found = [await client.get("/"), await client.get("/ui/")]
            return [(one.status_code, one.headers.get("location", one.text)) for one in found]

    assert asyncio.run(answers(None)) == [(307, "/ui/"), (200, "the page")]
    assert asyncio.run(answers(tmp_path)) == [(200, "of others"), (200, "the page")]


def test_an_unknown_path_learns_of_the_page_and_the_api(daemon: Daemon) -> None:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        await Response()(scope, receive, send)

    async def told() -> str:
        app = build_app(replace(daemon.sources(), ui=nothing, api=nothing))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return str((await client.get("/foo")).json()["description"])

    paths = asyncio.run(told()).partition("there are ")[2].split(", ")
    assert {"/api/v1", "/ui", "/metrics", "/"} <= set(paths)


@pytest.mark.parametrize("path", ["/metrics"])
def test_metrics_as_text(daemon: Daemon, path: str) -> None:
    Counter("schedulerd_tests", "Tests.", registry=daemon.registry).inc(3)
    response = daemon.request("GET", path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    values = {s.name: s.value for family in text_string_to_metric_families(response.text) for s in family.samples}
    assert values["schedulerd_tests_total"] == 3


def test_metrics_as_openmetrics_on_request(daemon: Daemon) -> None:
    Counter("schedulerd_tests", "Tests.", registry=daemon.registry).inc(3)
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
    response = daemon.request("GET", "/metrics", headers={"accept": accept})
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    (family,) = parse_openmetrics(response.text)  # type: ignore[no-untyped-call]
    assert (family.name, family.samples[0].value) == ("schedulerd_tests", 3)


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text;version=1.0.0"])
def test_metrics_are_written_in_slices(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, accept: str) -> None:
    metric = Counter("schedulerd_tests", "Tests.", ["kind"], registry=daemon.registry)
    for number in range(50):
        metric.labels(f"kind {number}").inc()
    PlatformCollector(registry=daemon.registry)  # it gives the same objects each time
    in_one_go = choose_encoder(accept)[0](daemon.registry)
    gaps: list[float] = []
    seconds = count()
    monkeypatch.setattr(scrapes, "Slices", partial(Slices, lambda: next(seconds), gaps.append))
    for _ in range(2):
        gaps.clear()
        assert daemon.request("GET", "/metrics", headers={"accept": accept}).content == in_one_go
        assert gaps == [GAP_SECONDS] * sum(len(family.samples) for family in daemon.registry.collect())


def test_livez_tells_how_long_ago_the_loop_ticked(daemon: Daemon) -> None:
    response = daemon.request("GET", "/livez")
    assert (response.status_code, response.json()) == (200, {"status": "ok", "loop_age_seconds": 0.25})
    daemon.loop_age_seconds = 5.5
    response = daemon.request("GET", "/livez")
    assert (response.status_code, response.json()) == (503, {"status": "late", "loop_age_seconds": 5.5})


def test_readyz_says_why_not(daemon: Daemon) -> None:
    daemon.not_ready_because = "draining: the daemon was told to stop"
    response = daemon.request("GET", "/readyz")
    assert response.status_code == 503
    assert response.json() == {"status": "not ready", "reason": "draining: the daemon was told to stop"}
    daemon.not_ready_because = ""
    response = daemon.request("GET", "/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_readyz_says_what_the_journal_does_and_is_ready_without_one(daemon: Daemon) -> None:
    daemon.journal = "not recording: the disk is full"
    response = daemon.request("GET", "/readyz")
    assert (response.status_code, response.json()) == (200, {"status": "ok", "journal": daemon.journal})
    daemon.not_ready_because = "draining"
    assert daemon.request("GET", "/readyz").json()["journal"] == daemon.journal


@pytest.mark.usefixtures("root_level")
def test_the_log_level_can_be_read_and_changed(daemon: Daemon) -> None:
    response = daemon.request("PUT", "/loglevel", json={"level": "debug"})
    assert response.status_code == 200
    assert logging.getLogger().level == logging.DEBUG
    response = daemon.request("GET", "/loglevel")
    assert response.json() == {"level": "debug", "allowed": ["debug", "info", "warning", "error"]}


@pytest.mark.usefixtures("root_level")
@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"level": "loud"}', "'debug', 'info', 'warning' or 'error' (got 'loud')"),
        (b'{"level": 3}', "(got 3)"),
        (b"{}", "level: Field required"),
        (b'{"level": "info", "logger": "grpc"}', "logger: Extra inputs are not permitted (got 'grpc')"),
        (b'["info"]', "object"),
        (b"info", "Invalid JSON"),
        (b"", "Invalid JSON"),
    ],
)
def test_a_wrong_log_level_is_refused_with_what_would_be_right(daemon: Daemon, body: bytes, complaint: str) -> None:
    logging.getLogger().setLevel(logging.WARNING)
    response = daemon.request("PUT", "/loglevel", content=body)
    assert response.status_code == 400
    assert complaint in response.json()["description"]
    assert '{"level": "info"}' in response.json()["description"]
    assert logging.getLogger().level == logging.WARNING


def test_a_body_without_end_is_cut_off(daemon: Daemon) -> None:
    assert daemon.request("PUT", "/loglevel", content=b" " * BODY_BYTES_MAX).status_code == 400
    response = daemon.request("PUT", "/loglevel", content=b" " * (BODY_BYTES_MAX + 1))
    assert response.status_code == 413
    assert str(BODY_BYTES_MAX) in response.json()["description"]


def test_the_state_as_json(daemon: Daemon) -> None:
    amounts = {"vcore": 10}
    node = NodeView(
        "n1", NodeState.DRAINING, False, True, {"zone": "a"}, amounts, {}, {}, amounts, {}, None, None, {}, [], [], []
    )
    daemon.debug_state = {"nodes": [node], "violations": []}
    response = daemon.request("GET", "/debug/state")
    assert response.headers["content-type"] == "application/json"
    shown = json.loads(response.text)
    assert shown["violations"] == []
    assert shown["nodes"][0]["state"] == "draining"
    assert shown["nodes"][0]["capacity"] == {"vcore": 10}


def test_the_state_of_what_is_asked_for(daemon: Daemon) -> None:
    assert daemon.request("GET", "/debug/state?rm=a&partition=b&application=c&node=d&limit=7").status_code == 200
    assert daemon.request("GET", "/debug/state").status_code == 200
    assert daemon.queries == [
        StateParameters(rm="a", partition="b", application="c", node="d", limit=7),
        StateParameters(),
    ]


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("limit=0", "limit: Input should be greater than or equal to 1 (got '0')"),
        (f"limit={LIMIT_MAX + 1}", f"limit: Input should be less than or equal to {LIMIT_MAX}"),
        ("limit=all", "(got 'all')"),
        ("app=app-1", "app: Extra inputs are not permitted (got 'app-1')"),
    ],
)
def test_a_wrong_question_about_the_state_is_refused(daemon: Daemon, query: str, complaint: str) -> None:
    response = daemon.request("GET", f"/debug/state?{query}")
    assert response.status_code == 400
    assert complaint in response.json()["description"]
    assert "?application=app-1&limit=100" in response.json()["description"]
    assert daemon.queries == []


def test_more_looks_than_may_be_asked_for_are_turned_away(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_queries, "QUERIES_MAX", 0)
    response = daemon.request("GET", "/debug/state")
    assert response.status_code == 503
    assert response.json()["description"] == (
        "0 state queries are open already, by all clients; try again when they are taken"
    )
    assert daemon.queries == []


def test_a_client_that_leaves_while_it_waits_for_its_query_costs_none(daemon: Daemon) -> None:
    daemon.look_seconds = 0.01
    pause = daemon.look_seconds / LOOP_SHARE_MAX
    sent: list[Message] = []

    async def ask(app: Starlette, seconds: float) -> None:
        """Asks for a look, and closes the connection after so long."""
        messages: list[Message] = [{"type": "http.request"}, {"type": "http.disconnect"}]

        async def receive() -> Message:
            if len(messages) == 1:
                await asyncio.sleep(seconds)
            return messages.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/debug/state", "query_string": b"", "headers": []}
        scope["client"] = ("127.0.0.1", 1)
        await app(scope, receive, send)

    async def story() -> None:
        app, loop = build_app(daemon.sources()), asyncio.get_running_loop()
        await ask(app, 1)
        assert json.loads(sent[-1]["body"]) == {}
        await asyncio.gather(ask(app, pause / 2), ask(app, pause * 2))
        assert len(daemon.queries) == 2
        assert loop.time() == pytest.approx(pause, rel=0.1)

    virtual_loop.run(story())


def test_an_unknown_path_is_told_what_there_is(daemon: Daemon) -> None:
    response = daemon.request("GET", "/metric")
    assert response.status_code == 404
    body = response.json()
    assert (body["status_code"], body["message"]) == (404, "Not Found")
    assert body["description"].startswith("there is no /metric; there are /metrics, /livez")


def test_a_wrong_method_is_told_the_right_ones(daemon: Daemon) -> None:
    response = daemon.request("POST", "/livez")
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]
    assert "not POST" in response.json()["description"]
    assert "GET" in response.json()["description"]


def test_a_fault_of_ours_is_json_as_well_and_tells_no_secrets(daemon: Daemon) -> None:
    daemon.debug_state = {"oops": object()}
    response = daemon.request("GET", "/debug/state")
    assert response.status_code == 500
    assert response.json()["description"] == "TypeError while answering /debug/state; see the log"


def with_server(daemon: Daemon, use: Callable[[HttpServer], Awaitable[None]]) -> None:
    """Runs `use` beside a server on a free port, then stops the server and waits for it to end."""

    async def run() -> None:
        server = HttpServer.bind(build_app(daemon.sources()), "127.0.0.1", 0)
        serving = asyncio.create_task(server.serve())
        try:
            await use(server)
        finally:
            server.stop()
            await asyncio.wait_for(serving, 10)

    asyncio.run(run())


def test_the_server_answers_on_a_real_port_and_leaves_signals_alone(daemon: Daemon) -> None:
    handler = signal.getsignal(signal.SIGTERM)

    async def use(server: HttpServer) -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=10, trust_env=False) as client:
            response = await client.get("/livez")
        assert response.status_code == 200
        assert "server" not in response.headers
        assert signal.getsignal(signal.SIGTERM) == handler

    with_server(daemon, use)


def test_a_client_that_keeps_its_connection_does_not_keep_the_server(daemon: Daemon) -> None:
    async def run() -> None:
        server = HttpServer.bind(build_app(daemon.sources()), "127.0.0.1", 0)
        serving = asyncio.create_task(server.serve())
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=10, trust_env=False) as client:
            assert (await client.get("/livez")).status_code == 200
            server.stop()
            await asyncio.wait_for(serving, 10)
            with pytest.raises(httpx.TransportError):
                await client.get("/livez")

    asyncio.run(run())


@pytest.mark.parametrize(("seconds", "answer"), [(SHUTDOWN_TIMEOUT_SECONDS, b"200 OK"), (None, b"500")])
@pytest.mark.usefixtures("root_level")
def test_a_shutdown_waits_so_long_for_a_request(daemon: Daemon, seconds: float | None, answer: bytes) -> None:
    """The rest of its body comes so much later, or never."""

    async def run() -> float:
        server = HttpServer.bind(build_app(daemon.sources()), "127.0.0.1", 0)
        serving = asyncio.create_task(server.serve())
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"PUT /loglevel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n")
        await asyncio.sleep(1)
        server.stop()
        begun = asyncio.get_running_loop().time()
        if seconds is not None:
            await asyncio.sleep(seconds)
            writer.write(b'{"level": "info"}')
        got, _ = await asyncio.gather(reader.read(), serving)
        assert got.startswith(b"HTTP/1.1 " + answer)
        writer.close()
        await writer.wait_closed()
        return asyncio.get_running_loop().time() - begun

    until_it_looks_seconds = 0.3  # the server does so every 0.1 s: whether to stop, and twice whether all is over
    late_seconds = virtual_loop.run(run()) - SHUTDOWN_TIMEOUT_SECONDS
    assert 0 <= late_seconds <= until_it_looks_seconds + LAST_WRITES_SECONDS


def test_a_port_that_is_taken_is_said(daemon: Daemon) -> None:
    async def use(server: HttpServer) -> None:
        with pytest.raises(OSError, match="Address already in use"):
            HttpServer.bind(build_app(daemon.sources()), "127.0.0.1", server.port)

    with_server(daemon, use)
