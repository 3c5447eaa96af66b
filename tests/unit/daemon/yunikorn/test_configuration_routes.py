"""The queue file as it is shown, and whether another one would do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from schedulerd.config import load_queue_file
from schedulerd.core.language.commands import UpdateConfiguration
from schedulerd.core.language.specs import ConfigurationText
from schedulerd.daemon.yunikorn.configuration_routes import BODIES_MAX
from schedulerd.settings.document import TEXT_BYTES_MAX
from tests.rest.asgi import ask
from tests.rest.world import World
from tests.unit.daemon.yunikorn.cluster import QUEUES, RM, cluster, get, request, run


@pytest.fixture(scope="module")
def world() -> World:
    return cluster()


def test_the_queue_file_as_yaml_and_as_json(world: World) -> None:
    for accept in ("*/*", "application/json; charset=utf-8", "text/html"):
        answer = get(world, "/ws/v1/config", Accept=accept)
        assert answer.headers["content-type"] == "application/x-yaml; charset=UTF-8"
        assert answer.text.startswith("partitions:\n")
    answer = get(world, "/ws/v1/config", Accept="application/json")
    assert answer.json["Partitions"][0]["Queues"][0]["Name"] == "root"
    assert len(answer.json["Checksum"]) == 64


def test_extra_configuration_is_shown_without_secrets() -> None:
    world = World()
    world.register(QUEUES, RM, extra_config={"log.level": "INFO", "db.password": "hunter2", "eventual": "x"})
    expected = {"db.password": "***", "eventual": "***", "log.level": "INFO"}
    assert get(world, "/ws/v1/config", Accept="application/json").json["Extra"] == expected
    for path in ("/ws/v1/config", "/ws/v1/fullstatedump", "/ws/v1/clusters"):
        assert "hunter2" not in get(world, path).text


def test_extra_configuration_is_replaced_by_an_update_that_has_some() -> None:
    world = World()
    world.register(QUEUES, RM, extra_config={"log.level": "INFO"})

    def shown() -> object:
        return get(world, "/ws/v1/config", Accept="application/json").json["Extra"]

    read = load_queue_file(QUEUES)
    configuration = ConfigurationText(QUEUES, "test", read.checksum)
    world.step(UpdateConfiguration(RM, read.partitions, configuration))
    assert shown() == {"log.level": "INFO"}
    world.step(UpdateConfiguration(RM, read.partitions, configuration, extra_config={"log.level": "DEBUG"}))
    assert shown() == {"log.level": "DEBUG"}
    assert "DEBUG" not in repr(UpdateConfiguration(RM, (), configuration, extra_config={"log.level": "DEBUG"}))


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        (b"", True),
        (QUEUES.encode(), True),
        (b'{"partitions": []}', True),
        (b"partitions: 5", False),
        (b"a: [", False),
        (b"\xff\xfe", False),
        (b"a: &a [*a]", False),
    ],
)
def test_whether_a_queue_file_would_do(world: World, body: bytes, allowed: bool) -> None:
    answer = request(world, "POST", "/ws/v1/validate-conf", body=body)
    assert (answer.status, answer.json["allowed"]) == (200, allowed)
    assert bool(answer.json.get("reason")) is not allowed


def test_a_body_that_is_too_large_is_not_read(world: World) -> None:
    answer = request(world, "POST", "/ws/v1/validate-conf", body=b"#" * (TEXT_BYTES_MAX + 1))
    assert answer.status == 413
    assert request(world, "POST", "/ws/v1/validate-conf", body=b"#" * TEXT_BYTES_MAX).status == 200


def test_so_many_bodies_are_received_at_a_time(world: World) -> None:
    async def main() -> list[int]:
        waiting = [asyncio.create_task(_endless(world)) for _ in range(BODIES_MAX)]
        for _ in range(20):
            await asyncio.sleep(0)
        answer = await ask(world.app, "POST", "/ws/v1/validate-conf")
        for one in waiting:
            one.cancel()
        return [answer.status, int(answer.headers["retry-after"])]

    assert run(main()) == [503, 5]


async def _endless(world: World) -> None:
    """A client that never finishes its body."""

    async def receive() -> Any:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(_message: object) -> None: ...

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
    await world.app(scope, receive, send)
