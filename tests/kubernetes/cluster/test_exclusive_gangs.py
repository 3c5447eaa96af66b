"""Gangs whose members exclude each other are placed whole or not at all, with the real core."""

from __future__ import annotations

import pytest

from tests.kubernetes.cluster.exclusive_world import EXCLUSIONS, NODES, WAYS, ExclusiveWorld
from tests.loops import each_seed

TURNS = 300


def world_of(*nodes: str, seed: int = 0) -> ExclusiveWorld:
    world = ExclusiveWorld(seed)
    for name in nodes:
        world.add_node(name)
    world.start()
    world.rest(1)
    return world


@each_seed(range(3))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("exclusion", EXCLUSIONS)
def test_a_gang_without_enough_nodes_does_not_begin(exclusion: str, way: str, seed: int) -> None:
    world = world_of("n0", "n1", "n2", seed=seed)
    world.fill("n1")
    world.fill("n2")
    world.rest(1)
    members = world.add_gang(2, exclusion, way)
    world.rest()
    assert world.bound(members) == []
    world.empty("n1")
    world.rest()
    assert sorted(world.bound(members)) == ["n0", "n1"]


@each_seed(range(3))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("exclusion", ["anti", "port"])
def test_of_two_gangs_with_room_for_one_the_first_runs_whole(exclusion: str, way: str, seed: int) -> None:
    world = world_of("n0", "n1", seed=seed)
    both = [world.add_gang(2, exclusion, way), world.add_gang(2, exclusion, way)]
    world.rest(10)
    assert sorted(len(world.bound(members)) for members in both) == [0, 2]
    world.add_node("n2")
    world.add_node("n3")
    world.rest()
    assert [len(world.bound(members)) for members in both] == [2, 2]


@each_seed(range(3))
def test_a_gang_whose_placeholders_are_evicted_as_they_come_does_not_begin(seed: int) -> None:
    world = world_of("n0", "n1", "n2", seed=seed)
    world.fill("n2")
    world.rest(1)
    members = world.add_gang(3, "anti", "always")
    for _ in range(TURNS):
        world.random.choice((world.move, world.move, world.move, world.core.cycle, world._pass, world.evict))()
    world.rest(20)  # its time is over
    assert world.bound(members) == []
    world.empty("n2")
    world.rest(20)
    assert sorted(world.bound(members)) == ["n0", "n1", "n2"]


def play(seed: int) -> ExclusiveWorld:
    world = world_of(*NODES, seed=seed)
    for _ in range(TURNS):
        world.turn()
    world.rest(30)
    return world


def check(world: ExclusiveWorld) -> None:
    assert world.partial() == []


@each_seed(range(8), nightly=range(8, 25))
def test_no_gang_is_placed_in_part(seed: int) -> None:
    check(play(seed))
