"""What goes wrong between shim and API server; the real one cannot be told to."""

from __future__ import annotations

import pytest

from tests.kubernetes.fake.faults import Fault
from tests.kubernetes.faults import KINDS, PODS, fake, under_load
from tests.kubernetes.shim.world import World, node_of


@pytest.mark.smoke
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


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
async def test_a_fault_under_load(world: World, kind: str) -> None:
    load = await under_load(world, seed=7, kinds=[kind], pods=PODS, rounds=3)
    assert load.made >= PODS


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
async def test_faults_of_all_kinds_under_load(world: World, seed: int) -> None:
    await under_load(world, seed, KINDS, pods=PODS)
