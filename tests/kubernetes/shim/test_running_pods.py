"""Pods that run where the daemon has not placed them, and pods that change their size, are in its books as they are."""

from __future__ import annotations

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.world import JSON, World, node_of


def allocations(world: World) -> dict[str, JSON]:
    """By key; all of them have the same queue."""
    state = world.daemon.state()
    (manager,) = [one for one in state["resource_managers"] if one["rm_id"] == world.rm_id]
    nodes = manager["partitions"][0]["nodes"]
    return {one["allocation_key"]: one for node in nodes for one in node["allocations"]}


async def test_pods_that_come_with_a_node_have_an_allocation_and_count_for_the_quota(world: World) -> None:
    node = await world.node("n", cpu="4")
    await world.start()
    made = await world.pod("p", node, cpu="3")
    await world.agrees()
    assert list(allocations(world)) == [made["metadata"]["uid"]]
    await world.pod("q", cpu="2")
    await world.end("p")
    await world.until_bound("q")
    await world.agrees()


async def test_a_pod_that_somebody_else_binds_while_it_waits(world: World) -> None:
    small, other = await world.node("small", cpu="1"), await world.node("other", cpu="1")
    await world.pod("filler", small, cpu="1", schedulerName="default-scheduler")
    await world.pod("filler2", other, cpu="1", schedulerName="default-scheduler")
    await world.start()
    made = await world.pod("p")
    await world.api.bind("p", other)
    await world.until_bound("p")
    await world.agrees()
    assert allocations(world)[made["metadata"]["uid"]]["node_id"] == other
    await world.end("p")
    await world.agrees()


async def test_nodes_with_labels_that_are_no_attributes(world: World) -> None:
    """They mean something else to the daemon; a node selector on them still selects."""
    await world.node("plain")
    labels = {"ready": "yes", "hostname": "h", "si/rack": "a"}
    wanted = await world.node("wanted", labels)
    await world.start()
    for number, (key, value) in enumerate(labels.items()):
        await world.pod(f"p{number}", nodeSelector={"world": world.api.namespace, key: value})
    pods = await world.until_bound("p0", "p1", "p2")
    assert {node_of(pods[f"p{number}"]) for number in range(3)} == {wanted}
    await world.pod("nowhere", nodeSelector={"ready": "no"})
    await world.pod("p3")
    await world.until_bound("p3")
    assert not node_of(world.pods["nowhere"])
    await world.agrees()


async def test_a_pod_that_is_resized(world: World) -> None:
    await world.node("n", cpu="4")
    await world.start()
    made = await world.pod("p", cpu="1")
    await world.until_bound("p")
    resources = {"requests": {"cpu": "3", "memory": "64Mi"}}
    statuses = [{"name": "main", "resources": resources, "allocatedResources": resources["requests"]}]
    answer = await world.api.patch(r.PODS, "p", {"status": {"containerStatuses": statuses}}, "status")
    assert answer.status == 200, answer
    await world.agrees()
    assert allocations(world)[made["metadata"]["uid"]]["resources"]["vcore"] == 3000
    await world.pod("q", cpu="2")
    await world.pod("r", cpu="1")
    await world.until_bound("r")
    assert not node_of(world.pods["q"])
    await world.end("p")
    await world.until_bound("q")
    await world.agrees()
