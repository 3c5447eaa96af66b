"""What nodes refuse pods for: taints, cordons, labels, ports, affinity; and nodes that come late."""

from __future__ import annotations

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.builders import anti_affinity, selector, term
from tests.kubernetes.shim.world import World, node_of

TAINT = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


async def test_taints_and_cordons_keep_pods_away_until_they_are_lifted(world: World) -> None:
    tainted, cordoned = await world.node("tainted"), await world.node("cordoned")
    await world.api.patch(r.NODES, tainted, {"spec": {"taints": [TAINT]}})
    await world.api.patch(r.NODES, cordoned, {"spec": {"unschedulable": True}})
    await world.start()
    await world.pod("tolerant", tolerations=[{"key": "dedicated", "operator": "Exists"}])
    await world.pod("plain")
    await world.until_bound("tolerant")
    assert node_of(world.pods["tolerant"]) == tainted
    assert not node_of(world.pods["plain"])
    await world.api.patch(r.NODES, cordoned, {"spec": {"unschedulable": False}})
    await world.until_bound("plain")
    assert node_of(world.pods["plain"]) == cordoned


async def test_a_label_that_comes_later_and_a_node_that_comes_later(world: World) -> None:
    first = await world.node("first")
    await world.start()
    await world.pod("on-label", nodeSelector={"world": world.api.namespace, "disk": "ssd"})
    await world.pod("elsewhere")
    await world.until_bound("elsewhere")
    await world.api.patch(r.NODES, first, {"metadata": {"labels": {"disk": "ssd"}}})
    await world.until_bound("on-label")
    await world.pod("on-late", nodeSelector={"world": world.api.namespace, "disk": "nvme"})
    late = await world.node("late", {"disk": "nvme"})
    await world.until_bound("on-late")
    assert node_of(world.pods["on-late"]) == late


async def test_host_ports_and_anti_affinity_spread_pods_over_nodes(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.node(name, {"zone": f"zone-{name}"})
    await world.start()
    container = {"name": "main", "image": "pause", "ports": [{"containerPort": 80, "hostPort": 8080}]}
    apart = anti_affinity(term("zone", selector(app="db")))
    labels = {"labels": {"queue": "root.default", "app": "db"}}
    for number in range(3):
        await world.pod(f"web{number}", containers=[container])
        await world.pod(f"db{number}", metadata=labels, affinity=apart)
    pods = await world.until_bound(*(f"{kind}{number}" for kind in ("web", "db") for number in range(3)))
    for kind in ("web", "db"):
        assert len({node_of(pods[f"{kind}{number}"]) for number in range(3)}) == 3
    await world.pod("web3", containers=[container])
    await world.end("web1")
    await world.until_bound("web3")
    assert node_of(world.pods["web3"]) == node_of(pods["web1"])


async def test_a_node_that_goes_takes_its_room_with_it(world: World) -> None:
    node = await world.node("n", cpu="1")
    await world.start()
    await world.pod("first")
    await world.until_bound("first")
    await world.pod("second")
    await world.api.delete(r.NODES, node)
    await world.node("m", cpu="1")
    await world.until_bound("second")
    assert node_of(world.pods["second"]) == world.node_name("m")
