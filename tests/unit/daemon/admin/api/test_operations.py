"""Routes that change something: queues that are stopped and started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from schedulerd.core.language.commands import Command, StopCause, StopResourceManager
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.queue_commands import SetQueueStopped
from schedulerd.daemon.admin.api import operations
from tests.unit.core.builders import RM, an_app
from tests.unit.daemon.admin.api.api_world import OPERATE_TOKEN, TOKENS, VIEW_TOKEN, ApiWorld


def post(world: ApiWorld, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
    response = world.request("POST", path, **options)
    return response.status_code, response.json()


def test_a_queue_is_stopped_and_started() -> None:
    world = ApiWorld()
    status, queue = post(world, "/queues/root.A/stop")
    assert (status, queue["queue"], queue["state"]) == (200, "root.a", "stopped")
    assert world.commands == [SetQueueStopped(RM, "root.a", stopped=True, partition="default")]
    assert world.get("/queues/root.a")["state"] == "stopped"
    assert post(world, "/queues/root.a/stop")[0] == 200
    assert post(world, "/queues/root.a/start")[1]["state"] == "active"


def test_queues_below_a_stopped_one_show_it_and_explain_it() -> None:
    world = ApiWorld()
    post(world, "/queues/root/stop")
    assert {one["state"] for one in world.get("/queues")["items"]} == {"stopped"}
    summary = world.get("/explain/queue", queue="root.b")["summary"]
    assert summary[0].endswith("pending; an operator stopped root, so it takes no new applications.")


def test_why_an_application_was_refused_is_explained() -> None:
    world = ApiWorld()
    post(world, "/queues/root.b/stop")
    world.talk.apps(an_app("new", "root.b"))
    (said,) = world.get("/explain/application", application="new")["summary"]
    assert said.startswith("Application new was rejected (0 s ago): queueName 'root.b'")
    assert "root.b is stopped by an operator: it takes no new applications" in said


def test_only_operators_stop_queues(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(TOKENS)
    world = ApiWorld(tokens=file)
    assert post(world, "/queues/root.a/stop")[0] == 401
    assert post(world, "/queues/root.a/stop", headers={"Authorization": f"Bearer {VIEW_TOKEN}"})[0] == 403
    foreign = {"Authorization": f"Bearer {OPERATE_TOKEN}", "Origin": "http://evil.example"}
    assert post(world, "/queues/root.a/stop", headers=foreign)[0] == 403
    assert world.commands == []
    assert post(world, "/queues/root.a/stop", headers={"Authorization": f"Bearer {OPERATE_TOKEN}"})[0] == 200
    [command] = world.commands
    assert isinstance(command, SetQueueStopped)
    assert command.by == "bob"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/queues/root.nothing/stop", 404, "does not exist"),
        ("/queues/a/stop", 404, "full path"),
        ("/queues/root.@recovery@/stop", 422, "cannot be stopped"),
        ("/queues/root.a/stop?rm=other", 404, "'other' is not registered"),
        ("/queues/root.a/stop?partition=other", 404, "'other' is none of"),
        ("/queues/root.a/stop?force=1", 422, "force"),
        ("/queues/root.a/halt", 405, "takes GET"),
        (f"/queues/{'x' * 5_000}/start", 404, "does not exist"),
    ],
)
def test_wrong_stops(path: str, status: int, said: str) -> None:
    world = ApiWorld()
    world.talk.apps(an_app("lost", "root.nowhere", tags={"application.create.force": "true"}))
    found, body = post(world, path)
    assert (found, world.commands) == (status, [])
    assert said in body["detail"]


def test_a_queue_whose_resource_manager_left_meanwhile() -> None:
    world = ApiWorld()
    original = world.submit

    async def after_it_left(command: Command) -> asyncio.Future[list[Fact]]:
        world.talk.step(StopResourceManager(RM, StopCause.UNREGISTERED))
        return await original(command)

    world.submit = after_it_left  # type: ignore[method-assign]
    status, body = post(world, "/queues/root.a/stop")
    assert (status, body["detail"].split(";")[0]) == (404, f"resource manager {RM!r} is not registered")


def test_a_scheduler_without_time_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "WORK_SECONDS_MAX", 0.01)
    world = ApiWorld()

    async def never(command: Command) -> asyncio.Future[list[Fact]]:
        return asyncio.get_running_loop().create_future()

    world.submit = never  # type: ignore[method-assign]
    response: httpx.Response = world.request("POST", "/queues/root.a/stop")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
