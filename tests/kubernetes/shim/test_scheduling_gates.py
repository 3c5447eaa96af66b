"""Pods with scheduling gates (Kubernetes 1.27 and later): nobody places them until the last gate is gone."""

from __future__ import annotations

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.shim.test_gangs import gang
from tests.kubernetes.shim.world import World, condition, node_of

GATES = [{"name": "quota"}, {"name": "data"}]


async def keep_gates(world: World, name: str, *names: str) -> None:
    patch = {"spec": {"schedulingGates": [{"name": one} for one in names] or None}}
    answer = await world.api.patch(r.PODS, name, patch, content_type="application/merge-patch+json")
    assert answer.status == 200, answer


async def test_a_gated_pod_waits_until_its_last_gate_is_gone(world: World) -> None:
    await world.node("n", cpu="4")
    await world.pod("gated", schedulingGates=GATES)
    await world.start()
    await world.pod("free")
    pods = await world.until_bound("free")
    assert condition(pods["gated"], "PodScheduled")["reason"] == "SchedulingGated"
    await keep_gates(world, "gated", "data")
    await world.pod("later")
    pods = await world.until_bound("later")
    assert not node_of(pods["gated"])
    await keep_gates(world, "gated")
    await world.until_bound("gated")
    await world.agrees()


async def test_a_gang_waits_for_its_gated_member(world: World) -> None:
    await world.node("n", cpu="4")
    await world.start()
    await world.pod("w0", metadata=gang(2))
    await world.pod("w1", metadata=gang(2), schedulingGates=GATES)
    await world.pod("free")
    pods = await world.until_bound("free")
    assert not node_of(pods["w1"])
    await keep_gates(world, "w1")
    await world.until_bound("w0", "w1")
    await world.agrees()


async def test_gates_are_only_removed(world: World) -> None:
    await world.pod("gated", schedulingGates=GATES[:1])
    added = {"spec": {"schedulingGates": GATES}}
    answer = await world.api.patch(r.PODS, "gated", added, content_type="application/merge-patch+json")
    assert answer.status == 422
    assert "only deletion is allowed, but found new scheduling gate 'data'" in answer.json["message"]
    answer = await world.api.bind("gated", "n")
    assert answer.status == 409
