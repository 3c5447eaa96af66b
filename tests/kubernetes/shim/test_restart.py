"""The shim, the daemon, or both end and come back: nothing is lost, nothing bound twice."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from schedulerd.kubernetes.shim import driver
from tests.kubernetes.shim.world import World, node_of


@pytest.fixture
def daemon_flags() -> tuple[str, ...]:
    """A daemon of its own, which can be ended."""
    return ()


async def test_a_shim_that_starts_anew_knows_what_runs(world: World) -> None:
    await world.node("n", cpu="3")
    await world.start()
    await world.pod("first")
    await world.pod("second")
    await world.until_bound("first", "second")
    await world.stop()
    await world.pod("third")
    await world.pod("fourth")
    await world.end("first")
    await world.start()
    await world.until_bound("third", "fourth")
    await world.pod("fifth")
    await world.pod("tiny", cpu="0")
    await world.until_bound("tiny")
    assert not node_of(world.pods["fifth"])
    await world.end("second")
    await world.until_bound("fifth")
    await world.agrees()


async def test_pods_are_placed_after_the_clock_was_set_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an hour, after the start of the shim: what it says of the age of applications and asks is not to come."""
    monkeypatch.setattr(driver, "time", SimpleNamespace(time_ns=lambda: time.time_ns() + 3600 * driver.NS))
    await world.node("n", cpu="3")
    await world.start()
    await world.pod("first")
    await world.pod("other", metadata={"labels": {"queue": "root.default", "applicationId": "other"}})
    await world.until_bound("first", "other")
    await world.agrees()


async def test_a_daemon_that_starts_anew_is_told_everything(
    world: World, daemon_flags: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    await world.node("n", cpu="3")
    await world.start()
    await world.pod("first")
    await world.pod("second")
    await world.until_bound("first", "second")
    await asyncio.to_thread(world.restart_daemon)
    await world.pod("third")
    await world.pod("fourth")
    await world.until_bound("third")
    await world.pod("tiny", cpu="0")
    await world.until_bound("tiny")
    assert not node_of(world.pods["fourth"])
    await world.end("first")
    await world.until_bound("fourth")
    await world.agrees()
    names = [name for name, _ in world.history]
    assert len(names) == len(set(names))
    assert sum("no further ones are placed until it is there again" in line for line in caplog.messages) == 1
