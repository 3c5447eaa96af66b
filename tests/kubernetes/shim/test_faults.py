"""What goes wrong between shim and API server; the real one cannot be told to."""

from __future__ import annotations

import random

import pytest

from tests.kubernetes.contract.api import Api
from tests.kubernetes.fake import FakeCluster
from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.shim.world import World, node_of


@pytest.fixture
def api() -> Api:
    return Api(None)


def fake(world: World) -> FakeCluster:
    assert world.api.fake is not None
    return world.api.fake


async def test_a_bind_that_is_refused_goes_elsewhere(world: World) -> None:
    nodes = {await world.node("a"), await world.node("b")}
    await world.start()
    fake(world).faults.add(Fault("refuse", code=403), method="POST", subresource="binding")
    await world.pod("p")
    await world.until_bound("p")
    refused = [path for name, _, path in fake(world).faults.happened if name == "refuse"]
    assert len(refused) == 1
    binds = [path for method, path in fake(world).server.requests if method == "POST" and path.endswith("/binding")]
    assert len(binds) == 2
    assert node_of(world.pods["p"]) in nodes


async def test_a_lost_answer_is_looked_up(world: World) -> None:
    await world.node("a")
    await world.start()
    fake(world).faults.add(Fault("lose"), method="POST", subresource="binding")
    await world.pod("p")
    await world.until_bound("p")
    await world.pod("q", cpu="3")
    await world.until_bound("q")
    assert world.history == [("p", world.node_name("a")), ("q", world.node_name("a"))]


async def test_faults_of_all_kinds_and_every_pod_is_bound_once(world: World) -> None:
    for number in range(3):
        await world.node(f"n{number}", cpu="4")
    await world.start()
    rates = {"lose": 0.05, "cut": 0.05, "fail_after": 0.05, "cut_watch": 0.2, "end_watch": 0.2}
    names = [f"p{number}" for number in range(40)]
    for name in names:
        await world.pod(name, cpu="250m")
    fake(world).faults.draw(random.Random(7), rates)
    more = [f"q{number}" for number in range(5)]
    fake(world).faults.stop()
    for name in more:
        await world.pod(name, cpu="250m")
    await world.until_bound(*names, *more)
    assert sorted(name for name, _ in world.history) == sorted([*names, *more])
