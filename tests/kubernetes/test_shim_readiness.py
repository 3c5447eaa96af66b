"""What a shim says that is not ready, or that is and cannot watch everything."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from prometheus_client import generate_latest

from schedulerd.kubernetes.api.errors import AnswerUnusable
from schedulerd.kubernetes.shim.exposition import registry
from schedulerd.kubernetes.shim.shim import Shim, ShimOptions, has_disruption_condition
from schedulerd.kubernetes.shim.watches import WATCHED
from tests.kubernetes.api.test_transport import OK, Peer, talking
from tests.kubernetes.api.world import World, pause
from tests.kubernetes.fake import Fault


@asynccontextmanager
async def running(world: World) -> AsyncIterator[Shim]:
    shim = Shim(world.transport, ShimOptions("localhost:1", connect_timeout_s=100_000.0))
    task = asyncio.create_task(shim.run())
    try:
        yield shim
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def forbid(world: World, plural: str) -> None:
    fault = Fault("refuse", 403, reason="Forbidden", message="you may not")
    for method in ("GET", "WATCH"):
        world.cluster.faults.add(fault, method=method, plural=plural, times=1_000)


async def test_it_names_the_resources_that_are_not_listed_and_why() -> None:
    async with World() as world:
        forbid(world, "nodes")
        forbid(world, "csinodes")
        async with running(world) as shim:
            assert shim.waits_for == "the API server has not answered"
            await pause(1)
            said = "nodes, csinodes.storage.k8s.io: 403 Forbidden: you may not"
            assert shim.waits_for == f"the API server has not listed {said}"


async def test_a_server_that_goes_away_is_told_once_for_all_resources() -> None:
    async with World() as world, running(world) as shim:
        await pause(1)
        while "not listed" in shim.waits_for:
            await pause(1)
        assert shim.watch_notes == []
        for method in ("GET", "WATCH"):
            world.cluster.faults.add(Fault("cut"), method=method, times=10_000)
        world.cluster.server.watches_end()
        await pause(30)
        (note,) = shim.watch_notes
        names, cause = note.removeprefix("nothing new of ").split(": ", 1)
        assert len(names.split(", ")) == len(shim.watch_problems) == len(WATCHED)
        assert cause == "connection lost: Server disconnected"


async def test_each_cause_has_its_resources() -> None:
    async with World() as world:
        forbid(world, "nodes")
        forbid(world, "csinodes")
        world.cluster.faults.add(Fault("cut"), plural="pods", method="GET", times=1_000)
        world.cluster.faults.add(Fault("cut"), plural="pods", method="WATCH", times=1_000)
        async with running(world) as shim:
            await pause(1)
            refused = "nodes, csinodes.storage.k8s.io: 403 Forbidden: you may not"
            lost = "pods: connection lost: Server disconnected"
            assert shim.waits_for == f"the API server has not listed {refused}; {lost}"


async def test_a_right_that_is_taken_away_later_is_told() -> None:
    async with World() as world, running(world) as shim:
        forbid(world, "priorityclasses")
        await pause(1)
        world.cluster.faults.stop()
        while "not listed" in shim.waits_for:
            await pause(1)
        assert set(shim.watch_problems.values()) == {""}
        assert shim.waits_for.endswith("which has to answer 0 applications and 0 nodes")
        forbid(world, "nodes")
        world.cluster.server.watches_end()
        await pause(30)
        problems = shim.watch_problems
        assert "403 Forbidden: you may not" in problems.pop("nodes")
        assert set(problems.values()) == {""}
        text = generate_latest(registry(world.metrics, lambda: shim, lambda: 0.0)).decode()
        assert 'schedulerd_kubernetes_watch_failing{resource="nodes"} 1.0' in text
        assert 'schedulerd_kubernetes_watch_failing{resource="pods"} 0.0' in text


@pytest.mark.parametrize(("minor", "knows"), [("25", False), ("25+", False), ("26", True), ("31+", True), ("", True)])
async def test_servers_since_1_26_know_the_condition_of_a_disruption(real_loop: None, minor: str, knows: bool) -> None:
    body = json.dumps({"major": "1", "minor": minor}).encode()
    async with talking(Peer(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)) as transport:
        assert await has_disruption_condition(transport) is knows


async def test_a_server_that_does_not_say_its_version_is_waited_for(real_loop: None) -> None:
    async with talking(Peer(OK + b"Content-Length: 2\r\n\r\n[]")) as transport:
        with pytest.raises(AnswerUnusable, match="not what was asked for"):
            await has_disruption_condition(transport)
