"""Random histories with the real core and the client's books, which are killed: in the end everybody agrees."""

from __future__ import annotations

import pytest

from schedulerd.core.invariants.all import violations
from schedulerd.kubernetes.cluster.model import ApplicationState
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.pods import requests
from tests.kubernetes.cluster.core_world import CoreGangWorld, CoreWorld
from tests.kubernetes.cluster.test_gang_simulation import check_declarations, check_room
from tests.loops import each_seed

TURNS = 400


def check(world: CoreWorld) -> None:
    partition, model = world.core.partition, world.cluster.model
    assert violations(world.core.scheduler) == []
    assert set(model.pods) == set(world.pods)
    assert set(partition.nodes) == world.nodes
    held = {one.key: one for one in partition.allocations.values()}
    assert len(held) == len(partition.allocations), "a pod with two allocations"
    assert not [one for one in held.values() if one.releasing is not None], "releases that nobody has confirmed"
    pending = {ask.key for one in partition.applications.values() for ask in one.asks.values() if ask.pending}
    assert pending <= set(world.pods), "an ask of no pod"
    assert set(held) <= set(world.pods), "an allocation of no pod"
    occupied = dict.fromkeys(world.nodes, 0)
    for uid, pod in world.pods.items():
        own, name = model.pods[uid], pod.spec.node_name
        waits = own.application is None or own.application.state is ApplicationState.WAITING
        if not name:
            assert uid not in held, f"{uid} holds room and is not bound: {own.state}"
            assert waits or (own.state is PodState.ASKED and uid in pending), f"{uid} is not asked for: {own.state}"
        elif name not in world.nodes:
            assert uid not in held
        else:
            assert waits or uid in held, f"{uid} runs and has no allocation"
            occupied[name] += uid not in held
            if uid in held:
                assert held[uid].node.node_id == name, f"{uid} is counted on another node"
                amounts = dict(held[uid].request_class.resources.items())
                assert amounts == requests(pod), f"{uid} was resized: {amounts}"
    assert occupied == {name: one.occupied.get("pods", 0) for name, one in partition.nodes.items()}
    assert len(world.bindings) == len(set(world.bindings)), "bound twice"
    check_books(world, pending)


def check_books(world: CoreWorld, pending: set[str]) -> None:
    """What the client would report is what the daemon has."""
    partition = world.core.partition
    reported = {one.UUID: one.nodeID for one in world.core.books.allocations()}
    there = {uuid: one.node.node_id for uuid, one in partition.allocations.items() if not one.spec.slot}
    assert reported == there, "books"
    asked = {ask.allocationKey for ask in world.core.books.report.asks()}
    assert asked == pending, "books: asks"


def check_gangs(world: CoreGangWorld) -> None:
    partition, model = world.core.partition, world.cluster.model
    assert violations(world.core.scheduler) == []
    real = [one for one in partition.allocations.values() if not one.spec.slot]
    held = {one.key: one for one in real}
    assert len(held) == len(real), "a pod with two allocations"
    keys = set(world.pods)
    asks = [ask for one in partition.applications.values() for ask in one.asks.values() if not ask.spec.slot]
    pending = {ask.key for ask in asks if ask.pending}
    assert set(held) <= keys, "an allocation of nothing"
    assert pending <= keys, "an ask of nothing"
    for uid, own in model.pods.items():
        application, name = own.application, own.pod.spec.node_name
        if own.is_placeholder:
            assert application is not None, "a placeholder without an application"
            assert model.applications.get(application.id) is application
            assert any(not one.is_placeholder for one in application.pods.values()), "a placeholder that outlives"
        if name:
            assert uid not in held or held[uid].node.node_id == name, f"{uid} is counted on another node"
        else:
            assert uid not in held, f"{uid} holds room and is not bound: {own.state}"
    assert len(world.bindings) == len(set(world.bindings)), "bound twice"
    check_room(world)
    check_declarations(world)
    check_books(world, pending)
    check_holds(world)


def check_holds(world: CoreGangWorld) -> None:
    """The room that the daemon holds counts on its nodes, and besides pods nothing else does."""
    partition, model = world.core.partition, world.cluster.model
    slots = {one.uuid: one.node.node_id for one in partition.allocations.values() if one.spec.slot}
    counted = {uid: name for name, one in model.cache.state.nodes.items() for uid in one.pods}
    assert {hold_id: counted.get(uid) for hold_id, uid in model.holds.items()} == slots, "holds"
    bound = {uid for uid, pod in world.pods.items() if pod.spec.node_name}
    assert set(counted) == bound | set(model.holds.values()), "room that counts for nobody"


def play_gangs(seed: int) -> CoreGangWorld:
    world = CoreGangWorld(seed)
    world.start()
    for _ in range(TURNS):
        world.turn()
    world.settle()
    return world


def play(seed: int, turns: int = TURNS) -> CoreWorld:
    world = CoreWorld(seed)
    if seed % 2:
        world.start()
    for turn in range(turns):
        world.turn()
        if turn >= 30 and not world.cluster.model.is_started:
            world.start()
    world.settle()
    return world


@each_seed(range(20), nightly=range(20, 50))
def test_everybody_agrees_in_the_end(seed: int) -> None:
    check(play(seed))


FOUND = (30135,)
"""The end of an application was in the response that accepted the next one of its id, which was taken for ended."""


@each_seed([*range(10), *FOUND], nightly=range(10, 50))
def test_nothing_of_a_gang_leaks(seed: int) -> None:
    check_gangs(play_gangs(seed))


@pytest.mark.nightly
def test_the_histories_are_rich() -> None:
    worlds = [play(seed) for seed in range(8)]
    assert sum(len(world.bindings) for world in worlds) > 100
    assert sum(world.deaths for world in worlds) > 20
    gangs = [play_gangs(seed) for seed in range(12)]
    assert sum(uid.startswith("tg-") for world in gangs for uid in world.bindings) > 5
