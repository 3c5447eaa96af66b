"""The invariants are shown to bite: the state is corrupted on purpose, and it is noticed.

A check that nothing can trip is worth nothing, and one would not notice when it stops working. `tests.mutants` breaks
the code instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.core.invariants.all import violations
from schedulerd.core.language.commands import NewApplication, NewAsk, RunCycle, UpdateAllocations, UpdateApplications
from schedulerd.core.language.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.language.resources import Resources
from schedulerd.core.scheduler import Scheduler
from schedulerd.core.state.model.queue import Queue
from schedulerd.core.state.pending.end_of_step import end_of_step
from schedulerd.core.state.pending.request_class import PendingClass
from tests.loops import each_row
from tests.mutants.changes import Replaced, gives
from tests.sim.observations import Observations
from tests.sim.shorten import shorten
from tests.sim.simulation import START_NS, Failure, History, simulate
from tests.sim.small_world import RM, SmallWorld

pytestmark = pytest.mark.interpreted


def test_the_story_is_sound_and_says_enough() -> None:
    world = SmallWorld()
    assert violations(world.scheduler) == []
    assert not world.scheduler.wants_cycle()
    assert world.application(1).state is ApplicationState.RUNNING
    assert world.application(3).state is ApplicationState.COMPLETING
    assert world.queue("root.batch.fifo").pending_index.blocked_by
    assert list(world.partition.request_classes.unschedulable())


def first(mapping: Any) -> Any:
    return next(iter(mapping.values()))


Corruption = Callable[[SmallWorld], Any]


def ask(world: SmallWorld, number: int, key: str, memory: int) -> None:
    """One ask more of app-1, -2 or -3, or of app-4, which comes into app-2's queue for it."""
    asks = [NewAsk(f"app-{number}", key, Resources(memory=memory))]
    apps = [NewApplication("app-4", "root.open", user="bob")] if number == 4 else []
    for command in (UpdateApplications(RM, new=apps), UpdateAllocations(RM, asks=asks)):
        world.scheduler.step(START_NS, command)


def propagate_block(world: SmallWorld) -> None:
    """A small ask behind the large one that fits no node: on the way to it, the block is repeated."""
    ask(world, 2, "small", 1)
    world.scheduler.step(START_NS, RunCycle(50))


def large(world: SmallWorld) -> PendingClass:
    """The class no node fits, which app-2 waits for."""
    group = world.application(2).asks["big"].group
    assert group is not None
    return group.pending_class


def move_behind_its_siblings(world: SmallWorld) -> None:
    end_of_step(world.partition)
    world.queue("root.open").guaranteed.update(memory=7)


def forget_users(world: SmallWorld) -> None:
    world.application(1).usage_ledgers.clear()
    world.partition.usages.users._by_name.clear()


def leave_a_shared_line(world: SmallWorld) -> None:
    ask(world, 4, "big", 70)
    world.application(2).entry = None


def come_first_out_of_turn(world: SmallWorld) -> None:
    ask(world, 4, "big", 71)
    world.queue("root.open").pending_index._front.reverse()


def repeat_and_lose_the_reason(world: SmallWorld) -> None:
    propagate_block(world)
    world.queue("root").pending_index.unblock(large(world))


def repeat_and_forget_where(world: SmallWorld) -> None:
    propagate_block(world)
    world.queue("root").pending_index.blocked_by[large(world)].propagated_to.clear()
    world.node(1).available.update(memory=99)
    world.partition.note_free_node(world.node(1))
    end_of_step(world.partition)


def block_where_it_is_not_needed(world: SmallWorld) -> None:
    block = world.queue("root").pending_index.blocked_by[large(world)]
    world.queue("root.nothing").pending_index.blocked_by[large(world)] = block


CORRUPTIONS: dict[str, tuple[Corruption, str]] = {
    "node ledger": (lambda p: p.node(1).allocated.add([("memory", 1)]), "allocated of node node-1 is"),
    "node available": (lambda p: p.node(1).available.add([("memory", 1)]), "available of node node-1"),
    "node forgets": (lambda p: p.node(1).allocations.popitem(), "that its node does not have"),
    "application forgets": (lambda p: p.application(2).allocations.popitem(), "its application does not have"),
    "ask forgets": (lambda p: first(p.application(2).asks).allocations.popitem(), "that its ask does not have"),
    "node order": (lambda p: p.partition.node_order.remove(p.node(1)), "exactly the schedulable nodes"),
    "unsorted": (lambda p: setattr(p.node(1), "score", -1.0), "score of node node-1 is not that of its resources"),
    "node twice": (lambda p: p.partition.node_order.add(p.node(1)), "exactly the schedulable nodes"),
    "node moved": (lambda p: setattr(next(iter(p.partition.node_order)), "score", 9.0), "not sorted by score"),
    "negative pending": (lambda p: setattr(p.application(1).asks["k1"], "pending", -1), "has -1 pending"),
    "ask group": (lambda p: p.application(1).groups.clear(), "is not in its ask group"),
    "ask left over": (
        lambda p: setattr(p.application(2).asks["big"], "pending", 0),
        "nothing pending and no allocation",
    ),
    "application ledger": (lambda p: p.application(1).allocated.clear(), "allocated of application app-1"),
    "placeholder ledger": (
        lambda p: p.application(1).placeholder_allocated.add([("memory", 1)]),
        "placeholders of application app-1",
    ),
    "placeholder count": (lambda p: setattr(p.application(1), "placeholders", 1), "counts 1 placeholders"),
    "application pending": (lambda p: p.application(1).pending.clear(), "pending of application app-1"),
    "terminal in queue": (lambda p: setattr(p.application(1), "state", ApplicationState.FAILED), "still has its queue"),
    "completing with work": (
        lambda p: setattr(p.application(1), "state", ApplicationState.COMPLETING),
        "Completing with asks or real allocations",
    ),
    "left its queue": (lambda p: p.queue("root.open").applications.clear(), "app-2 is not in its queue"),
    "queue ledger": (lambda p: p.queue("root.open").allocated.add([("memory", 1)]), "allocated of root.open"),
    "queue negative": (lambda p: p.queue("root.nothing").pending.add([("memory", -1)]), "is negative"),
    "root pending": (lambda p: p.queue("root").pending.clear(), "pending of root is"),
    "leaf with queues": (
        lambda p: p.queue("root.open").children.update(x=Queue("x", None, is_leaf=True)),
        "is a leaf and has queues",
    ),
    "parent with applications": (
        lambda p: p.queue("root").applications.update({"app-1": p.application(1)}),
        "is a parent and has applications",
    ),
    "draining for nothing": (
        lambda p: setattr(p.queue("root.nothing"), "draining", True),
        "root.nothing is not needed, and no alarm removes it",
    ),
    "missing from a line": (leave_a_shared_line, "in the pending index of root.open are not those with pending demand"),
    "line of its request class lost": (
        lambda p: p.queue("root.open").pending_index._by_class.clear(),
        "the pending classes in the index of root.open are not those of its entities",
    ),
    "not offered by a queue": (lambda p: p.queue("root.open").needs.clear(), "root.open does not propagate the demand"),
    "not offered by an application": (
        lambda p: p.application(2).needs.clear(),
        "application app-2 does not propagate the demand of its entities to its parent",
    ),
    "not its own request class": (
        lambda p: first(p.application(2).groups).needs.clear(),
        "app-2 has an ask group that does not wait with its own pending class",
    ),
    "reason gone": (
        repeat_and_lose_the_reason,
        "class {'memory': 70} is blocked at root.open by a block that was lifted",
    ),
    "repeated and never reopened": (
        repeat_and_forget_where,
        "class {'memory': 70} is blocked at application app-2 by a block that was lifted",
    ),
    "closed where nobody needs it": (block_where_it_is_not_needed, "where no entity has demand of it"),
    "closed for nothing": (
        lambda p: p.queue("root.batch.fifo").max.clear(),
        "class {'memory': 20, 'vcore': 1} is blocked at root.batch.fifo though the quota has room for it",
    ),
    "front lost a line": (
        lambda p: p.queue("root.open").pending_index._front.clear(),
        "the pending index of root.open has no first entity, though a class is not blocked",
    ),
    "front out of order": (
        come_first_out_of_turn,
        "the first entity in the pending index of root.open is not the one with the smallest",
    ),
    "stale queue": (move_behind_its_siblings, "an entity in the pending index of root has a key that is out of date"),
    "stale application": (
        lambda p: setattr(p.application(2), "age", (99, "")),
        "an entity in the pending index of root.open has a key that is out of date",
    ),
    "allocation lost": (
        lambda p: p.partition.allocations.popitem(),
        "the partition has 5 allocations, its nodes have 6",
    ),
    "request class forgotten": (
        lambda p: setattr(next(iter(p.partition.request_classes.unschedulable())), "uses", 9),
        "the known pending classes",
    ),
    "request class unmarked": (
        lambda p: setattr(next(iter(p.partition.request_classes.unschedulable())), "unschedulable", False),
        "the unschedulable classes are not those marked unschedulable",
    ),
    "unschedulable for nothing": (
        lambda p: p.node(1).available.update(memory=99),
        "is unschedulable though node node-1 has room",
    ),
    "user ledger": (
        lambda p: p.application(1).usage_ledgers[0].usage.add([("memory", 1)]),
        "usage of user ann in root.batch.fifo",
    ),
    "user of nothing": (
        lambda p: p.application(1).usage_ledgers[0].applications.update({"gone": None}),
        "runs application gone",
    ),
    "user forgotten": (forget_users, "has no ledger"),
    "alarm of nobody": (
        lambda p: p.scheduler.cluster.alarms.set(START_NS, None),
        "is set as an alarm that nothing refers to",
    ),
    "alarm lost": (lambda p: setattr(p.application(3), "alarm", None), "in state Completing has no alarm"),
    "alarm cancelled": (
        lambda p: p.scheduler.cluster.alarms.cancel(p.application(3).alarm),
        "refers to an alarm that was cancelled or has rung",
    ),
    "paused without alarm": (
        lambda p: setattr(p.scheduler.cluster.resource_managers[RM], "state", ResourceManagerState.PAUSED),
        "resource manager rm-b in state paused has no alarm",
    ),
}


@each_row(("corrupt", "sentence"), CORRUPTIONS.values(), ids=CORRUPTIONS.keys())
def test_an_invariant_notices(corrupt: Corruption, sentence: str) -> None:
    world = SmallWorld()
    corrupt(world)
    found = violations(world.scheduler)
    assert any(sentence in violation for violation in found), found


def test_a_failure_is_shortened_to_what_it_takes() -> None:
    with Replaced(Scheduler.wants_cycle, gives(False)).put_in():
        history, failure = simulate(1, 600, Observations())
        assert failure is not None
        short = shorten(failure)
    assert len(short.history) <= 5 < len(history)
    assert any("sleeps" in problem for problem in short.problems)


def test_a_failure_stays_what_it_is_when_it_is_shortened() -> None:
    """What fails in another way with commands left out is no shorter history of this failure."""

    def fails(history: History) -> Failure | None:
        problem = "app-2 is lost, 7 of it" if len(history) > 2 else "something else"
        return Failure(len(history) - 1, [problem], history)

    failure = Failure(7, ["app-1 is lost, 3 of it"], [(START_NS, RunCycle(1))] * 8)
    assert len(shorten(failure, fails).history) == 3
