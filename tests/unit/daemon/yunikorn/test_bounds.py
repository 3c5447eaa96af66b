"""Bounds of the REST API that no other test is about."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import ValidationError

from schedulerd.config import QueueFileInvalid, Settings, ShownConfiguration, show_queue_file
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.daemon.runtime.json_stream import PIECE_CHARS
from schedulerd.daemon.runtime.workers import Busy
from schedulerd.daemon.yunikorn import configuration_routes, dumps
from schedulerd.daemon.yunikorn.configuration_projections import EXTRA_MAX, configuration_json
from schedulerd.daemon.yunikorn.configurations import KEPT_MAX, Configurations
from schedulerd.daemon.yunikorn.errors import PeerError
from schedulerd.daemon.yunikorn.go_json import GO_JSON
from schedulerd.daemon.yunikorn.lookup import NAMED_MAX
from tests.rest.asgi import ask
from tests.rest.world import World
from tests.unit.daemon.yunikorn.cluster import QUEUES, RM, cluster, get, run

P = "/ws/v1/partition/default"


def test_so_many_resource_managers_are_named_in_an_error() -> None:
    world = World()
    for number in range(NAMED_MAX + 1):
        world.register(QUEUES, f"rm-{number:02}")
    message = get(world, f"{P}/queues").json["message"]
    assert f'"rm-{NAMED_MAX - 1:02}", ...' in message
    assert f"rm-{NAMED_MAX:02}" not in message


def test_so_many_names_of_extra_configuration_are_shown() -> None:
    world = World()
    world.register(QUEUES, RM, extra_config={f"log.{number}": "x" for number in range(EXTRA_MAX + 10)})
    assert len(get(world, "/ws/v1/config", Accept="application/json").json["Extra"]) == EXTRA_MAX


def test_a_large_queue_file_is_written_in_slices() -> None:
    queues = "".join(f"          - {{name: q{number}, submitacl: '*'}}\n" for number in range(400))
    world = World()
    world.register(f"{QUEUES_HEAD}{queues}", RM)
    (rm,) = world.scheduler.cluster.resource_managers.values()
    shown = show_queue_file(rm.configuration.text)
    written = list(GO_JSON.pieces(configuration_json(rm, shown)))
    assert json.loads("".join(written))["Partitions"] == shown.partitions
    assert max(map(len, written)) < PIECE_CHARS + 500
    answer = get(world, "/ws/v1/config", Accept="application/json")
    assert answer.text == "".join(written)  # no line end, as in the peer
    assert get(world, "/ws/v1/config").text.startswith(shown.yaml)


QUEUES_HEAD = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
"""


def test_so_many_web_sites_may_be_named() -> None:
    from schedulerd.config.setting_types import ORIGINS_MAX

    origins = [f"https://site-{number}.example" for number in range(ORIGINS_MAX + 1)]
    assert len(Settings(cors_origins=origins[:-1]).cors_origins) == ORIGINS_MAX  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        Settings(cors_origins=origins)  # type: ignore[arg-type]


@pytest.mark.parametrize("origin", ["example.com", "https://a.example/path", "ftp://a", "https://", "https://a b"])
def test_what_is_no_web_site(origin: str) -> None:
    with pytest.raises(ValidationError, match="an origin is http:// or https://, a host and perhaps a port"):
        Settings(cors_origins=origin)  # type: ignore[arg-type]


def test_web_sites_of_a_flag() -> None:
    settings = Settings(cors_origins="https://A.example, http://[::1]:8080")  # type: ignore[arg-type]
    assert settings.cors_origins == ("https://a.example", "http://[::1]:8080")


def test_a_body_that_does_not_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_routes, "BODY_SECONDS_MAX", 0.01)
    world = cluster()
    answers: list[Any] = []

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        answers.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/ws/v1/validate-conf",
        "query_string": b"",
        "headers": [],
        "client": None,
        "server": None,
        "scheme": "http",
        "http_version": "1.1",
        "root_path": "",
    }
    run(world.app(scope, receive, send))
    assert answers[0]["status"] == 408


def test_so_many_tasks_and_lines_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "FRAMES_MAX", 3)

    async def main() -> str:
        tasks = [asyncio.create_task(asyncio.sleep(100)) for _ in range(dumps.TASKS_MAX + 20)]
        await asyncio.sleep(0)

        async def breathe() -> None: ...

        text = await dumps.stacks(breathe)
        for task in tasks:
            task.cancel()
        return text

    text = run(main())
    assert text.count("\ntask ") == dumps.TASKS_MAX
    assert "21 more tasks are not shown" in text  # and the one that asks
    assert max(part.count("  File ") for part in text.split("\n\n")) <= 3


class Renderer:
    """Counts what is rendered."""

    def __init__(self, error: Exception | None = None) -> None:
        self.texts: list[str] = []
        self.error = error

    async def __call__(self, text: str, _source: str) -> ShownConfiguration:
        self.texts.append(text)
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return show_queue_file(text)


class Manager:
    """As much of a resource manager as is asked for."""

    def __init__(self, number: int) -> None:
        self.configuration = ConfigurationText(text=f"{QUEUES}\n# {number}\n", source="test")


def test_a_queue_file_is_rendered_once_and_so_many_are_kept() -> None:
    render = Renderer()
    configurations = Configurations(render)
    managers: list[Any] = [Manager(number) for number in range(KEPT_MAX + 1)]

    async def main() -> None:
        await asyncio.gather(*(configurations.of(managers[0]) for _ in range(5)))
        assert len(render.texts) == 1
        for one in managers[1:KEPT_MAX]:
            await configurations.of(one)
        await configurations.of(managers[0])
        assert len(render.texts) == KEPT_MAX
        await configurations.of(managers[KEPT_MAX])  # the one that was not used for longest makes room
        await configurations.of(managers[0])
        assert len(render.texts) == KEPT_MAX + 1
        await configurations.of(managers[1])
        assert len(render.texts) == KEPT_MAX + 2

    run(main())


@pytest.mark.parametrize("error", [Busy("6 validations are under way"), QueueFileInvalid("x", ())])
def test_what_could_not_be_rendered_is_tried_again(error: Exception) -> None:
    render = Renderer(error)
    configurations = Configurations(render)
    manager: Any = Manager(0)

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(PeerError) as raised:
                await configurations.of(manager)
            assert raised.value.status == 503
        assert len(render.texts) == 2
        render.error = None
        assert (await configurations.of(manager)).partitions

    run(main())


def test_validation_that_is_busy_is_503() -> None:
    async def busy(_text: str, _source: str) -> Any:
        raise Busy("5 validations are under way or waiting already")

    world = cluster(validate=busy)
    answer = run(ask(world.app, "POST", "/ws/v1/validate-conf"))
    assert answer.status == 503
    assert answer.headers["retry-after"] == "5"
