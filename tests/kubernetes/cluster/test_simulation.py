"""Random histories: whatever happened, in the end daemon, cluster and API server agree about every pod."""

from __future__ import annotations

from schedulerd.kubernetes.cluster.model import ApplicationState
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.pods import requests
from tests.kubernetes.cluster.toy_world import ToyWorld
from tests.loops import each_seed

TURNS = 400


def check(world: ToyWorld) -> None:
    daemon, model = world.daemon, world.cluster.model
    assert not daemon.leaving, "releases that nobody has confirmed"
    assert set(daemon.occupied) == world.nodes
    held = [key for _, key, _ in daemon.allocations.values()]
    assert len(held) == len(set(held)), "a pod with two allocations"
    assert set(model.pods) == set(world.pods)
    assert set(held) <= set(world.pods), "an allocation of no pod"
    assert set(daemon.asks) <= set(world.pods), "an ask of no pod"
    at = {key: node for _, key, node in daemon.allocations.values()}
    occupied = dict.fromkeys(world.nodes, 0)
    for uid, pod in world.pods.items():
        own, node = model.pods[uid], pod.spec.node_name
        if not node:
            assert uid not in at, f"{uid} holds room and is not bound: {own.state}"
            waits = own.application is not None and own.application.state is ApplicationState.WAITING
            assert waits or (own.state is PodState.ASKED and uid in daemon.asks), f"{uid}: {own.state}"
        elif node in world.nodes:
            waits = own.application is None or own.application.state is ApplicationState.WAITING
            assert waits or uid in at, f"{uid} runs and has no allocation"
            assert at.get(uid, node) == node, f"{uid} is counted on another node"
            assert waits or daemon.amounts[uid] == requests(pod), f"{uid} was resized"
            occupied[node] += uid not in at
        else:
            assert uid not in at
    assert occupied == {node: used.get("pods", 0) for node, used in daemon.occupied.items()}
    assert len(world.bindings) == len(set(world.bindings)), "bound twice"


def play(seed: int) -> ToyWorld:
    world = ToyWorld(seed)
    if seed % 2:
        world.start()
    for turn in range(TURNS):
        world.turn()
        if turn == 30 and not world.cluster.model.is_started:
            world.start()
    world.settle()
    return world


@each_seed(range(60))
def test_everybody_agrees_in_the_end(seed: int) -> None:
    check(play(seed))
