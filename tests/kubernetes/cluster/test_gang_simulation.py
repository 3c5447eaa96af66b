"""Random histories with gangs: whatever happened, nothing leaks, and everybody agrees in the end."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster.gangs.model import GangStage, SlotState
from schedulerd.kubernetes.cluster.model import ApplicationState, PodState
from tests.kubernetes.cluster.gang_world import GangWorld

TURNS = 500


def check(world: GangWorld) -> None:
    daemon, model = world.daemon, world.cluster.model
    assert not daemon.leaving, "releases that nobody has confirmed"
    assert set(daemon.occupied) == world.nodes
    assert set(model.pods) == set(world.pods)
    held = {key: (application, node) for application, key, node in daemon.allocations.values()}
    assert len(held) == len(daemon.allocations), "a pod with two allocations"
    keys = set(world.pods) | set(model.virtual)
    assert set(held) <= keys, "an allocation of nothing"
    assert set(daemon.asks) <= keys, "an ask of nothing"
    for key, own in model.virtual.items():
        assert own.application is not None
        assert model.applications.get(own.application.id) is own.application
        if own.state is PodState.BOUND:
            assert held[key] == (own.application.id, own.node)
        else:
            assert key in daemon.asks, f"{key}: {own.state}"
    for uid, pod in model.pods.items():
        application = pod.application
        if pod.is_placeholder:
            assert application is not None, "a placeholder without an application"
            assert model.applications.get(application.id) is application
            assert any(not one.is_placeholder for one in application.pods.values()), "a placeholder that outlives"
            assert application.gang is not None
            assert application.gang.stage in (GangStage.RESERVING, GangStage.OPEN)
        if pod.pod.spec.node_name:
            assert held.get(uid, ("", pod.node))[1] == pod.pod.spec.node_name, f"{uid} is counted on another node"
            continue
        assert uid not in held, f"{uid} holds room and is not bound: {pod.state}"
        if pod.state is not PodState.ASKED:
            assert pod.state is PodState.HELD, f"{uid}: {pod.state}"
            waits = application is None or application.state in (ApplicationState.WAITING, ApplicationState.FORMING)
            assert waits, f"{uid} is held for nothing"
        else:
            assert uid in daemon.asks, f"{uid} is not asked for"
    for application in model.applications.values():
        gang = application.gang
        if gang is None or gang.stage is not GangStage.OPEN:
            continue
        there = [slot for slot in gang.slots.values() if slot.state is SlotState.THERE]
        assert all(slot.own is not None for slot in there)
        assert not any(slot.is_to_come for slot in gang.slots.values()), "a placeholder that nobody makes"
    occupied = dict.fromkeys(world.nodes, 0)
    for uid, one in world.pods.items():
        if one.spec.node_name in world.nodes:
            occupied[one.spec.node_name] += uid not in held
    assert occupied == {node: used.get("pods", 0) for node, used in daemon.occupied.items()}
    assert len(world.bindings) == len(set(world.bindings)), "bound twice"
    assert len(world.failed) == len(set(world.failed))


def play(seed: int, turns: int = TURNS) -> GangWorld:
    world = GangWorld(seed)
    world.start()
    for turn in range(turns):
        world.turn()
        if seed % 3 == 0 and turn % 170 == 160:
            world.crash()
    world.settle()
    return world


@pytest.mark.parametrize("seed", range(400))
def test_everybody_agrees_in_the_end(seed: int) -> None:
    check(play(seed))
