"""Dropped state is freed by reference counts alone, in slices, and no fact depends on it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from enum import Enum

import pytest

from schedulerd.core.language.commands import (
    Command,
    ConnectCallbacks,
    RegisterResourceManager,
    StopCause,
    StopResourceManager,
    UpdateConfiguration,
)
from schedulerd.core.language.facts.fact import Fact
from schedulerd.core.language.specs import SECOND_NS
from schedulerd.core.scheduler import Scheduler
from tests.sim.observations import Observations
from tests.sim.simulation import EVERY_WORLD, History, new_scheduler, simulate
from tests.sim.world import World
from tests.unit.core.builders import (
    RM,
    Conversation,
    a_node,
    a_partition_spec,
    a_scheduler,
    an_app,
    an_ask,
)
from tests.unit.core.gangs.test_declared_gangs import declares, member, racks

SEED = 7
STEPS = 100
SLICE = 100
LATE_NS = 2**62
ALLOCATION = "schedulerd.core.state.model.allocation.Allocation"
ASK = "schedulerd.core.state.model.allocation.Ask"
PREDICATE_CHECK = "schedulerd.core.state.model.predicate_check.PredicateCheck"
ROOM_INDEX = "schedulerd.core.state.nodes.room_index"
ROOMS = ("constraints", "model", "nodes", "partition", "pending", "quotas")
STATE = (*(f"schedulerd.core.state.{room}" for room in ROOMS), "schedulerd.core.preemption.rules")

PARTITION_PARTS_MAX = 31
"""Objects of the state that every partition has once, such as its node order and its retry timers."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is freed but by reference counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def living() -> Counter[str]:
    """The number of objects of the core's state, by class."""
    classes = (type(one) for one in gc.get_objects() if not isinstance(one, Enum))
    return Counter(f"{one.__module__}.{one.__name__}" for one in classes if str(one.__module__).startswith(STATE))


def history_of(kind: type[World]) -> History:
    history, failure = simulate(SEED, STEPS, Observations(), (kind,))
    assert failure is None
    return history


def played(history: History, scheduler: Scheduler, dismantled_each: int = 0) -> list[list[Fact]]:
    """The facts of each step; so many pieces of dropped state are freed after each."""
    told = []
    for now_ns, command in history:
        told.append(scheduler.step(now_ns, command))
        scheduler.dismantle(dismantled_each)
    return told


def dismantle(scheduler: Scheduler) -> None:
    while scheduler.dismantle(SLICE):
        pass


def again(scheduler: Scheduler) -> list[Command]:
    """Every resource manager registers again as it was."""
    return [
        RegisterResourceManager(rm.rm_id, tuple(partition.spec for partition in rm.partitions.values()))
        for rm in scheduler.cluster.resource_managers.values()
    ]


def stop(scheduler: Scheduler) -> list[Command]:
    return [StopResourceManager(rm_id, StopCause.UNREGISTERED) for rm_id in scheduler.cluster.resource_managers]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "kind", [World, *(pytest.param(kind, marks=pytest.mark.slow) for kind in EVERY_WORLD if kind is not World)]
)
def test_nothing_of_dropped_state_is_left(kind: type[World]) -> None:
    history = history_of(kind)
    gc.collect()
    none = living()
    scheduler = new_scheduler()
    played(history, scheduler)
    assert sum((living() - none).values()) > 100
    for drops in (again, stop):
        for command in drops(scheduler):
            scheduler.step(LATE_NS, command)
        dismantle(scheduler)
        assert living()[ALLOCATION] == none[ALLOCATION]
    del scheduler
    assert living() - none == Counter()


@pytest.mark.parametrize("pieces", [1, 10_000])
def test_no_fact_depends_on_how_fast_it_is_taken_apart(pieces: int) -> None:
    once = history_of(World)
    assert any(isinstance(command, RegisterResourceManager) for _, command in once)
    twice = [*once, *once]
    assert played(twice, new_scheduler(), pieces) == played(twice, new_scheduler())


def full(pods: int) -> Conversation:
    talk = Conversation(a_scheduler())
    talk.register()
    talk.connect()
    talk.nodes(*(a_node(f"n{at}", {"memory": 100}) for at in range(pods // 20)))
    talk.apps(an_app())
    talk.asks(*(an_ask(f"k{at}", memory=10, tags={"pod": str(at)}) for at in range(pods)))
    talk.schedule()
    return talk


@pytest.mark.usefixtures("uncollected")
def test_a_slice_frees_no_more_than_it_is_told_to() -> None:
    """A piece is at most one object of the model, and the few that only it refers to. The last slice frees the
    partition as well, with its parts."""
    talk = full(pods=60)
    talk.register()
    slices = 0
    while True:
        before = sum(living().values())
        goes_on = talk.scheduler.dismantle(20)
        assert before - sum(living().values()) <= 2 * 20 + PARTITION_PARTS_MAX
        if not goes_on:
            break
        slices += 1
    assert slices > 60 / 20


def test_a_step_that_drops_state_frees_none_of_it() -> None:
    talk = full(pods=200)
    before = living()
    talk.register()
    assert living()[ALLOCATION] == before[ALLOCATION]


@pytest.mark.usefixtures("uncollected")
def test_a_partition_that_a_reload_removes_is_freed() -> None:
    none = living()
    talk = Conversation(a_scheduler())
    talk.register(a_partition_spec(), a_partition_spec(name="gpu"))
    talk.connect()
    with_two = living()
    talk.nodes(a_node("n1", {"memory": 100}, partition="gpu"))
    talk.apps(an_app(partition="gpu"))
    talk.asks(*(an_ask(f"k{at}", memory=30, partition="gpu") for at in range(5)))
    talk.schedule()
    assert talk.step(UpdateConfiguration(RM, (a_partition_spec(),)))
    dismantle(talk.scheduler)
    partition = "schedulerd.core.state.partition.Partition"
    assert living()[partition] - none[partition] == 1
    assert living() - with_two == Counter()


def test_what_the_resource_manager_was_told_is_freed_in_slices_too() -> None:
    talk = Conversation(a_scheduler())
    talk.register()
    talk.connect()
    talk.nodes(a_node("small", {"memory": 5}))
    talk.apps(an_app())
    talk.step(ConnectCallbacks(RM, scheduling_states=True))
    talk.asks(*(an_ask(f"k{at}") for at in range(100)))
    talk.schedule()
    talk.sleep(60 * SECOND_NS)
    told = talk.scheduler.cluster.resource_managers[RM].scheduling_state_tracker
    assert told is not None
    assert len(told.told) == 100
    talk.register()
    assert len(told.told) == 100
    talk.scheduler.dismantle(10)
    assert len(told.told) == 90


@pytest.mark.usefixtures("uncollected")
def test_the_domains_of_gangs_are_freed_as_well() -> None:
    talk = racks(*[("a", 10)] * 30, *[("b", 10)] * 30)
    talk.apps(declares({"name": "w", "min": 3, "topology": {"required": "rack"}}))
    talk.asks(*(member(key) for key in "abc"))
    talk.schedule()
    before = living()
    assert before[f"{ROOM_INDEX}.RoomIndex"] > 0
    assert before[f"{ROOM_INDEX}.Domain"] > 0
    talk.register()
    dismantle(talk.scheduler)
    after = living()
    assert (after[f"{ROOM_INDEX}.RoomIndex"], after[f"{ROOM_INDEX}.Domain"], after[ALLOCATION]) == (0, 0, 0)


@pytest.mark.usefixtures("uncollected")
def test_what_the_resource_manager_has_not_answered_is_freed_when_it_registers_again() -> None:
    talk = Conversation(a_scheduler())
    talk.register()
    talk.connect()
    talk.step(ConnectCallbacks(RM, predicates=True))
    talk.nodes(*(a_node(f"n{number}", {"memory": 10}) for number in range(5)))
    talk.apps(an_app())
    talk.asks(*(an_ask(f"k{number}") for number in range(3)))
    talk.schedule()
    assert living()[PREDICATE_CHECK] == 3
    talk.register()
    dismantle(talk.scheduler)
    after = living()
    assert (after[PREDICATE_CHECK], after[ASK]) == (0, 0)
