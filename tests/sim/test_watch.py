"""The watch shows as it was only what is as it was, and what it overlooks it finds soon."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedulerd.core.language.commands import Command, ConnectResourceManager, NewAsk, RunCycle, UpdateAllocations
from schedulerd.core.language.facts.fact import Fact, ItemIgnored, RejectCode
from schedulerd.core.language.lifecycles import NodeState
from schedulerd.core.language.resources import Resources
from schedulerd.core.views import view
from schedulerd.core.views.values import PartitionView
from tests.sim.simulation import START_NS
from tests.sim.small_world import RM, SmallWorld
from tests.sim.watch import Watch

OTHER = "rm-a"
NOTHING = RunCycle(50)
LOOK_AT_ALL_EVERY = 20


class Watched:
    """The world, with a look at it behind; nothing waits for a cycle there."""

    def __init__(self) -> None:
        self.world = SmallWorld()
        self.watch = Watch(self.world.scheduler, LOOK_AT_ALL_EVERY)
        self.watch.look(NOTHING, [])

    def step(self, command: Command) -> list[Fact]:
        facts = self.world.scheduler.step(START_NS, command)
        self.watch.look(command, facts)
        return facts

    @property
    def default(self) -> PartitionView:
        return next(one for rm in self.watch.state for one in rm.partitions if one.name == "default")

    @property
    def is_changed(self) -> bool:
        return (RM, "default") in self.watch.changed


def test_all_is_new_at_first() -> None:
    watched = Watched()
    assert watched.is_changed
    assert watched.watch.state == view.resource_managers(watched.world.scheduler.cluster)


def test_nothing_is_changed_by_a_step_about_nothing() -> None:
    watched = Watched()
    before = watched.default
    watched.step(NOTHING)
    assert not watched.watch.changed
    assert watched.default is before


def test_what_a_step_changes_is_shown() -> None:
    watched = Watched()
    watched.step(UpdateAllocations(RM, asks=[NewAsk("app-2", "k9", Resources(memory=80))]))
    assert watched.is_changed
    assert watched.watch.state == view.resource_managers(watched.world.scheduler.cluster)


def test_all_is_changed_by_every_step_if_nothing_else_is_said() -> None:
    world = SmallWorld()
    watch = Watch(world.scheduler)
    for _ in range(3):
        watch.look(NOTHING, [])
        assert (RM, "default") in watch.changed


def test_the_rest_is_left_out_of_what_is_fresh() -> None:
    watched = Watched()
    watched.step(UpdateAllocations(RM, asks=[NewAsk("app-2", "k9", Resources(memory=80))]))
    (fresh,) = watched.watch.only(watched.watch.changed)
    assert [one.name for one in fresh.partitions] == [name for _, name in watched.watch.changed]
    assert len(watched.watch.only(())) == len(watched.watch.state)


def test_a_fact_about_it_is_enough() -> None:
    watched = Watched()
    watched.watch.look(NOTHING, watched.world.facts[-1][1])
    assert watched.is_changed


def test_a_refusal_is_not() -> None:
    watched = Watched()
    watched.watch.look(UpdateAllocations(RM), [ItemIgnored(RM, "default", "k1", RejectCode.EMPTY_ID, "why")])
    assert not watched.is_changed


def test_a_command_that_is_about_all_of_its_resource_manager_is() -> None:
    watched = Watched()
    watched.watch.look(ConnectResourceManager(RM), [])
    assert watched.is_changed
    watched.watch.look(ConnectResourceManager(OTHER), [])
    assert not watched.is_changed


def in_a_ledger(world: SmallWorld) -> None:
    world.queue("root.open").allocated.add((("memory", 1),))


def on_a_node(world: SmallWorld) -> None:
    world.node(1).free.add((("memory", 1),))


def among_applications(world: SmallWorld) -> None:
    del world.partition.applications["app-3"]


def in_a_state(world: SmallWorld) -> None:
    world.node(3).state = NodeState.SCHEDULABLE


@pytest.mark.parametrize("corrupt", [in_a_ledger, on_a_node, among_applications, in_a_state])
def test_what_changes_unsaid_shows_all_the_same(corrupt: Callable[[SmallWorld], None]) -> None:
    watched = Watched()
    corrupt(watched.world)
    watched.watch.look(NOTHING, [])
    assert watched.is_changed


def test_what_nothing_shows_is_found_soon() -> None:
    watched = Watched()
    watched.world.application(1).spec.groups = ("other",)
    looks = 0
    while not watched.is_changed or not looks:
        watched.watch.look(NOTHING, [])
        looks += 1
    assert 1 < looks < LOOK_AT_ALL_EVERY
