"""The queue file in effect, and what another one would change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from schedulerd.config import load_queue_file
from schedulerd.core.language.commands import RegisterResourceManager, UpdateConfiguration
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.daemon.admin.api import configuration_routes
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.settings.document import TEXT_BYTES_MAX
from tests.unit import virtual_loop
from tests.unit.core.builders import RM, Conversation, a_scheduler
from tests.unit.daemon.admin.api.api_world import TOKENS, VIEW_TOKEN, ApiWorld

FILE = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: a
            resources: {max: {memory: 10}}
          - name: new
"""


def validated(world: ApiWorld, text: str | bytes, **query: str) -> dict[str, Any]:
    response = world.request("POST", "/config/validate", content=text, params=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def test_what_a_queue_file_would_change() -> None:
    found = validated(ApiWorld(), FILE)
    assert (found["allowed"], found["reason"], found["problems"], found["rm"]) == (True, "", [], RM)
    said = [(one["kind"], one["queue"], one["harms"]) for one in found["impact"]]
    assert said == [
        ("over_max", "root.a", True),
        ("queue_drains", "root.b", True),
        ("queue_added", "root.new", False),
    ]
    assert "1 application to finish: big" in found["impact"][1]["message"]


def test_so_many_problems_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_routes, "LISTED_MAX", 2)
    wrong = validated(ApiWorld(), FILE + "".join(f"  - {{colour-{number}: 1}}\n" for number in range(5)))
    assert len(wrong["problems"]) == 2
    assert len(validated(ApiWorld(), FILE)["impact"]) == 2


def test_nothing_is_applied() -> None:
    world = ApiWorld()
    before = world.get("/queues")
    validated(world, FILE)
    assert (world.get("/queues"), world.commands) == (before, [])


def test_a_queue_file_that_is_wrong() -> None:
    found = validated(ApiWorld(), FILE.replace("memory: 10", "memory: much"))
    assert not found["allowed"]
    [problem] = found["problems"]
    assert problem["path"] == "partitions[0].queues[0].queues[0].resources.max.memory"
    assert (problem["line"], problem["value"]) == (9, "much")
    assert "much" in found["reason"]


def test_a_queue_file_that_the_scheduler_refuses() -> None:
    found = validated(ApiWorld(), FILE.replace("- name: new", "- name: b\n            parent: true"))
    assert not found["allowed"]
    assert "queue root.b has 1 application and cannot become a parent" in found["reason"]


def test_without_a_resource_manager_only_the_file_is_looked_at() -> None:
    found = validated(ApiWorld(Conversation(a_scheduler())), FILE)
    assert (found["allowed"], found["rm"], found["impact"]) == (True, "", [])


def test_which_resource_manager_is_meant() -> None:
    world = ApiWorld()
    assert validated(world, FILE, rm=RM)["rm"] == RM
    spec = load_queue_file(FILE, "test").partitions
    world.talk.step(RegisterResourceManager("second", spec))
    response = world.request("POST", "/config/validate", content=FILE)
    assert (response.status_code, "?rm=" in response.json()["detail"]) == (404, True)
    assert world.request("POST", "/config/validate", content=FILE, params={"rm": "x"}).status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"x" * (TEXT_BYTES_MAX + 1), 413, f"more than {TEXT_BYTES_MAX} bytes"),
        (b"\xff\xfe", 422, "no UTF-8 text at byte 0"),
    ],
)
def test_bodies_that_are_no_queue_file(body: bytes, status: int, said: str) -> None:
    response = ApiWorld().request("POST", "/config/validate", content=body)
    assert (response.status_code, said in response.json()["detail"]) == (status, True)


def test_a_body_is_not_read_before_its_sender_is_known(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(TOKENS)

    read: list[int] = []

    async def body() -> AsyncIterator[bytes]:
        read.append(1)
        yield b"partitions: []"

    assert ApiWorld(tokens=file).request("POST", "/config/validate", content=body()).status_code == 401
    assert read == []


def test_a_body_that_does_not_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> int:
        async def slow() -> Any:
            yield b"partitions:"
            await asyncio.sleep(configuration_routes.BODY_SECONDS_MAX + 1)

        app = await ApiWorld().app()
        received = aiter(slow())
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": await anext(received), "more_body": True}

        async def send(message: Any) -> None:
            sent.append(message)

        path = "/api/v1/config/validate"
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "root_path": ""}
        headers = [(b"host", b"localhost")]
        await app({**scope, "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1)}, receive, send)
        status: int = sent[0]["status"]
        return status

    assert virtual_loop.run(story()) == 408


def test_validation_that_is_busy_is_503() -> None:
    world = ApiWorld()

    async def busy(_text: str, _source: str) -> Any:
        raise Busy("5 queue files are under way")

    world.validate = busy  # type: ignore[method-assign, assignment]
    response = world.request("POST", "/config/validate", content=FILE)
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_so_many_queue_files_are_validated_at_a_time() -> None:
    world = ApiWorld()

    async def story() -> list[int]:
        blocked = asyncio.Event()

        async def wait(text: str, source: str) -> Any:
            await blocked.wait()
            return load_queue_file(text, source)

        world.validate = wait  # type: ignore[method-assign]
        async with await world.client_of() as client:
            first = [
                asyncio.ensure_future(client.post("/config/validate", content=FILE))
                for _ in range(configuration_routes.BODIES_MAX)
            ]
            await asyncio.sleep(1)
            refused = await client.post("/config/validate", content=FILE)
            blocked.set()
            return [refused.status_code, *[(await one).status_code for one in first]]

    assert virtual_loop.run(story()) == [503, 200, 200, 200, 200]


def in_effect(text: str) -> ApiWorld:
    world = ApiWorld()
    partitions = load_queue_file(FILE, "test").partitions
    configuration = ConfigurationText(text, "test", checksum="AB", policy_group="queues")
    world.talk.step(UpdateConfiguration(RM, partitions, configuration))
    return world


def test_the_queue_file_in_effect_has_an_entity_tag(tmp_path: Path) -> None:
    world = in_effect(FILE)
    response = world.request("GET", "/config")
    shown = response.json()
    assert (shown["text"], shown["policy_group"], shown["checksum"], shown["rm"]) == (FILE, "queues", "AB", RM)
    assert world.request("GET", "/config", headers={"If-None-Match": response.headers["etag"]}).status_code == 304
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKENS)
    guarded = ApiWorld(world.talk, tokens)
    assert guarded.request("GET", "/config").status_code == 401
    assert guarded.request("GET", "/config", headers={"Authorization": f"Bearer {VIEW_TOKEN}"}).status_code == 200


def test_a_large_queue_file_is_written_in_pieces_and_has_no_entity_tag() -> None:
    text = '# "é\\\n\U0001f600' * 30_000
    response = in_effect(text).request("GET", "/config")
    assert json.loads(response.text)["text"] == text
    assert "etag" not in response.headers
    shown = configuration_routes.Configuration("rm", "g", "AB", 7, text)
    pieces = list(configuration_routes._written(shown))
    assert max(map(len, pieces)) < 65_536
    assert json.loads(b"".join(pieces))["text"] == text
