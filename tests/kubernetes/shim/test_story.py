"""Pods are bound, counted and released: the daily life of a cluster."""

from __future__ import annotations

from collections import Counter

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.conftest import on_both
from tests.kubernetes.shim.world import World, node_of


@on_both
async def test_fifty_pods_are_bound_once_each(world: World) -> None:
    nodes = [await world.node(f"n{number}", cpu="8") for number in range(5)]
    for number in range(25):
        await world.pod(f"p{number}", cpu="500m")
    await world.start()
    for number in range(25, 50):
        await world.pod(f"p{number}", cpu="500m")
    names = [f"p{number}" for number in range(50)]
    pods = await world.until_bound(*names)
    assert sorted(name for name, _ in world.history) == sorted(names)
    spread = Counter(node_of(pods[name]) for name in names)
    assert set(spread) <= set(nodes)
    assert max(spread.values()) <= 16
    await world.agrees()


async def test_foreign_pods_count_and_their_end_frees_room(world: World) -> None:
    node = await world.node("n", cpu="4")
    await world.pod("foreign", node, cpu="3", schedulerName="default-scheduler")
    await world.start()
    await world.pod("first")
    await world.until_bound("first")
    await world.pod("second")
    await world.pod("small", cpu="0")
    await world.until_bound("small")
    assert not node_of(world.pods["second"])
    await world.agrees()
    await world.end("foreign")
    await world.until_bound("second")


async def test_a_deleted_pod_frees_its_room(world: World) -> None:
    await world.node("n", cpu="1")
    await world.start()
    await world.pod("first")
    await world.until_bound("first")
    await world.pod("second")
    await world.api.delete(r.PODS, "first")
    await world.finish("first")
    await world.until_bound("second")
    assert world.history == [("first", world.node_name("n")), ("second", world.node_name("n"))]
