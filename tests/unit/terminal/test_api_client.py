"""The client over real connections, and the commands over the API of a real scheduler."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner

from schedulerd.terminal import api_client, cli
from schedulerd.terminal.api_client import ApiClient, ApiProblem
from schedulerd.terminal.contexts import Context
from schedulerd.terminal.get import get
from tests.unit.daemon.admin.api.api_world import ApiWorld

EVENTS = b': instance x\n\nid: x:1\ndata: {"id": "x:1"}\n\n: still here\n\nid: x:2\ndata: {"id": "x:2"}\n\n'


class Daemon(BaseHTTPRequestHandler):
    """Answers with what it was asked."""

    protocol_version = "HTTP/1.1"
    busy = 0
    """How often it says that it is."""

    def do_GET(self) -> None:
        if self.path.startswith("/api/v1/busy") and Daemon.busy:
            Daemon.busy -= 1
            self.answer(503, b'{"detail": "too busy"}', {"Retry-After": "1"})
        elif self.path.startswith("/api/v1/standby"):
            self.answer(503, b'{"detail": "standby"}')
        elif self.path.startswith("/api/v1/once"):
            self.answer(200, b"{}")
            self.close_connection = True  # without saying so
        elif self.path.startswith("/api/v1/events/stream"):
            self.answer(200, EVENTS)
        elif self.path.startswith("/api/v1/refused"):
            self.answer(404, b'{"detail": "there is no such thing"}')
        elif self.path.startswith("/api/v1/garbage"):
            self.answer(200, b"<html>")
        else:
            found = {"path": self.path, "authorization": self.headers.get("Authorization")}
            self.answer(200, json.dumps(found).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    daemon = ThreadingHTTPServer(("127.0.0.1", 0), Daemon)
    thread = threading.Thread(target=daemon.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{daemon.server_address[1]}"
    daemon.shutdown()
    thread.join()
    daemon.server_close()


def test_a_request_has_its_parameters_and_its_token_in_a_header(server: str) -> None:
    with ApiClient(Context(server=server, token="secret")) as client:
        found = client.get("/asks", {"queue": "root.a&b", "pending": True, "user": "", "rm": None})
        assert found == {"path": "/api/v1/asks?queue=root.a%26b&pending=true", "authorization": "Bearer secret"}


def test_a_daemon_that_is_too_busy_is_asked_again(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(time, "sleep", paused.append)
    with ApiClient(Context(server=server)) as client:
        Daemon.busy = 3
        assert client.get("/busy")["path"] == "/api/v1/busy"
        assert len(paused) == 3
        assert all(0.5 <= one <= 1.5 for one in paused)
        Daemon.busy = 1
        with pytest.raises(ApiProblem, match="too busy"):
            client.post("/busy", {})
        with pytest.raises(ApiProblem, match="standby"):
            client.get("/standby")
        monkeypatch.setattr(api_client, "RETRY_SECONDS_MAX", 0.1)
        Daemon.busy = 1
        with pytest.raises(ApiProblem, match="too busy"):
            client.get("/busy")
    assert len(paused) == 3


def test_an_idle_connection_that_was_closed_is_opened_again_for_what_changes_nothing(server: str) -> None:
    with ApiClient(Context(server=server)) as client:
        for _ in range(3):
            assert client.get("/once") == {}
        with pytest.raises(ApiProblem, match="no schedulerd answers"):
            client.post("/once", {})


def test_a_stream_that_breaks_off_is_a_problem(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(*_: object) -> bytes:
        raise ConnectionResetError("reset by peer")

    monkeypatch.setattr(http.client.HTTPResponse, "readline", reset)
    with ApiClient(Context(server=server)) as client, pytest.raises(ApiProblem, match=r"broke off .*reset by peer"):
        list(client.events({}, ""))


def test_problems_have_their_status_and_their_sentence(server: str) -> None:
    with ApiClient(Context(server=server)) as client:
        with pytest.raises(ApiProblem, match="there is no such thing") as refused:
            client.get("/refused")
        assert refused.value.status == 404
        with pytest.raises(ApiProblem, match="is no schedulerd") as garbage:
            client.get("/garbage")
        assert garbage.value.status == 0
    with (
        ApiClient(Context(server="http://127.0.0.1:1")) as client,
        pytest.raises(ApiProblem, match="no schedulerd answers"),
    ):
        client.get("/asks")


def test_events_are_read_as_they_come(server: str) -> None:
    with ApiClient(Context(server=server)) as client:
        assert [one["id"] for one in client.events({}, "x:0")] == ["x:1", "x:2"]


def test_from_the_core_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ApiWorld()

    def answer(_client: ApiClient, path: str, query: Any = None) -> Any:
        return world.get(path, **{key: value for key, value in (query or {}).items() if value != ""})

    monkeypatch.setenv("SCHEDULERD_CONTEXTS", "/nonexistent/contexts.yaml")
    monkeypatch.setattr(ApiClient, "get", answer)
    explained = CliRunner().invoke(cli.explain, ["pod", "ns/pod-1"])
    assert explained.output.splitlines() == [
        "Queue root.a would be above its quota: 30 of 50 memory used, 30 more asked. Nodes are not the cause.",
        "  Used by application app (30 memory).",
        "  It goes on when 10 memory is released, or when the max of root.a is raised to 60 memory.",
        "  Nothing is preempted for it: it may not preempt others (allowPreemptOther is false).",
        "  It is next in queue root.a.",
        "  Served before it: root.b.",
    ]
    asks = CliRunner().invoke(get, ["asks", "--state", "unschedulable"])
    assert asks.output.splitlines()[1].split()[:4] == ["big", "k", "500", "memory"]


def test_the_grpc_port_is_told_from_the_http_port() -> None:
    """A server of HTTP/2 begins with a frame of its settings, whatever it is sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]) + bytes(6))
                connection.recv(4_096)

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            ApiClient(Context(server=address)) as client,
            pytest.raises(ApiProblem, match="is a gRPC port; name the HTTP port"),
        ):
            client.get("/nodes")
        thread.join()
