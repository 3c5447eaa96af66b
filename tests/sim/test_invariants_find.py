"""The invariants are shown to bite: the state is corrupted or the code is broken on purpose, and it is noticed.

A check that nothing can trip is worth nothing, and one would not notice when it stops working.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.core import commit, cycle
from schedulerd.core.alarms import Alarms
from schedulerd.core.commands import NewApplication, NewAsk, RunCycle, UpdateAllocations, UpdateApplications
from schedulerd.core.handlers import application_states, execution_times, gang_time, gangs, releases, rm_releases
from schedulerd.core.invariants import violations
from schedulerd.core.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.model import requeue
from schedulerd.core.model.application import Application
from schedulerd.core.model.gang import TaskGroup
from schedulerd.core.model.node_order import NodeOrder
from schedulerd.core.model.parent_entity import Block, BlockReason, ParentEntity
from schedulerd.core.model.partition import Partition
from schedulerd.core.model.pending_index import PendingIndex
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.request_class import PendingClass, RequestClass, RequestClasses
from schedulerd.core.quotas import rules
from schedulerd.core.quotas.quota_key import QuotaKey
from schedulerd.core.resources import Resources
from schedulerd.core.scheduler import Scheduler
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


def repeat_closing(world: SmallWorld) -> None:
    """A small ask behind the large one that fits no node: on the way to it, the block is repeated."""
    ask(world, 2, "small", 1)
    world.scheduler.step(START_NS, RunCycle(50))


def large(world: SmallWorld) -> PendingClass:
    """The class no node fits, which app-2 waits for."""
    group = world.application(2).asks["big"].group
    assert group is not None
    return group.pending_class


def move_behind_its_siblings(world: SmallWorld) -> None:
    world.partition.end_of_step()
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
    repeat_closing(world)
    world.queue("root").pending_index.unblock(large(world))


def repeat_and_forget_where(world: SmallWorld) -> None:
    repeat_closing(world)
    world.queue("root").pending_index.blocked_by[large(world)].propagated_to.clear()
    world.node(1).available.update(memory=99)
    world.partition.note_free_node(world.node(1))
    world.partition.end_of_step()


def close_where_nobody_needs_it(world: SmallWorld) -> None:
    block = world.queue("root").pending_index.blocked_by[large(world)]
    world.queue("root.nothing").pending_index.blocked_by[large(world)] = block


CORRUPTIONS: dict[str, tuple[Corruption, str]] = {
    "node ledger": (lambda p: p.node(1).allocated.add([("memory", 1)]), "allocated of node node-1 is"),
    "node available": (lambda p: p.node(1).available.add([("memory", 1)]), "available of node node-1"),
    "node forgets": (lambda p: p.node(1).allocations.popitem(), "that its node does not have"),
    "application forgets": (lambda p: p.application(2).allocations.popitem(), "its application does not have"),
    "ask forgets": (lambda p: first(p.application(2).asks).allocations.popitem(), "that its ask does not have"),
    "node order": (lambda p: p.partition.node_order.remove(p.node(1)), "exactly the schedulable nodes"),
    "unsorted": (lambda p: setattr(p.node(1), "score", -1.0), "score of node node-1 is stale"),
    "node twice": (lambda p: p.partition.node_order.add(p.node(1)), "exactly the schedulable nodes"),
    "node moved": (lambda p: setattr(next(iter(p.partition.node_order)), "score", 9.0), "not sorted by score"),
    "negative pending": (lambda p: setattr(p.application(1).asks["k1"], "pending", -1), "has -1 pending"),
    "ask group": (lambda p: p.application(1).groups.clear(), "its group does not say so"),
    "ask left over": (
        lambda p: setattr(p.application(2).asks["big"], "pending", 0),
        "nothing pending and nothing alive",
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
        "nobody needs root.nothing any longer",
    ),
    "missing from a line": (leave_a_shared_line, "stand in line at root.open are not those who need something"),
    "line of its request class lost": (
        lambda p: p.queue("root.open").pending_index._by_class.clear(),
        "what is needed at root.open is not what its entities need",
    ),
    "not offered by a queue": (lambda p: p.queue("root.open").needs.clear(), "root.open does not ask above"),
    "not offered by an application": (
        lambda p: p.application(2).needs.clear(),
        "application app-2 does not ask above for what its entities need",
    ),
    "not its own request class": (
        lambda p: first(p.application(2).groups).needs.clear(),
        "app-2 has a group that does not wait for its own request class",
    ),
    "reason gone": (repeat_and_lose_the_reason, "root.open is closed for {'memory': 70} for a reason that is gone"),
    "repeated and never reopened": (
        repeat_and_forget_where,
        "application app-2 is closed for {'memory': 70} for a reason that is gone",
    ),
    "closed where nobody needs it": (close_where_nobody_needs_it, "which nobody needs there"),
    "closed for nothing": (
        lambda p: p.queue("root.batch.fifo").max.clear(),
        "is closed for {'memory': 20, 'vcore': 1} though its quota has room",
    ),
    "front lost a line": (
        lambda p: p.queue("root.open").pending_index._front.clear(),
        "somebody at root.open could be next and is not found",
    ),
    "front out of order": (come_first_out_of_turn, "the first in line at root.open is not the one with the smallest"),
    "stale queue": (move_behind_its_siblings, "the place of somebody in line at root is stale"),
    "stale application": (
        lambda p: setattr(p.application(2), "serial", 99),
        "the place of somebody in line at root.open is stale",
    ),
    "allocation lost": (
        lambda p: p.partition.allocations.popitem(),
        "the partition knows 5 allocations, its nodes have 6",
    ),
    "request class forgotten": (
        lambda p: setattr(next(iter(p.partition.request_classes.unschedulable())), "uses", 9),
        "the known request classes",
    ),
    "request class unmarked": (
        lambda p: setattr(next(iter(p.partition.request_classes.unschedulable())), "unschedulable", False),
        "the unschedulable request classes are not those marked unschedulable",
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
    "user forgotten": (forget_users, "is not kept"),
    "alarm of nobody": (
        lambda p: p.scheduler.cluster.alarms.set(START_NS, None),
        "alarms that nothing owns",
    ),
    "alarm lost": (lambda p: setattr(p.application(3), "alarm", None), "in state Completing has no alarm"),
    "alarm cancelled": (
        lambda p: p.scheduler.cluster.alarms.cancel(p.application(3).alarm),
        "owned ones that will not ring",
    ),
    "paused without alarm": (
        lambda p: setattr(p.scheduler.cluster.resource_managers[RM], "state", ResourceManagerState.PAUSED),
        "resource manager rm-b in state paused has no alarm",
    ),
}


@pytest.mark.parametrize(("corrupt", "sentence"), CORRUPTIONS.values(), ids=CORRUPTIONS.keys())
def test_an_invariant_notices(corrupt: Corruption, sentence: str) -> None:
    world = SmallWorld()
    corrupt(world)
    found = violations(world.scheduler)
    assert any(sentence in violation for violation in found), found


# Broken code: a simulation finds it


def close_here_only(ancestor: ParentEntity, pending_class: PendingClass, reason: BlockReason) -> None:
    ancestor.pending_index.block(pending_class, Block(ancestor, reason))


GANG_TIMEOUT_NS = gang_time.timeout_ns
PENDING_CLASS = RequestClasses.pending_class


def without_gate(classes: RequestClasses, request_class: RequestClass, key: QuotaKey) -> PendingClass:
    return PENDING_CLASS(classes, request_class, key._replace(gang_gate=()))


GANG_SEEDS = (10, 1, 4, 7, 12)
"""What gangs get into goes wrong with everything else as well."""

BREAKS: dict[str, tuple[object, str, Any]] = {
    "finished asks are kept": (commit, "forget_if_done", lambda *_: None),
    "parked request classes are never woken": (requeue, "_wake", lambda *_: None),
    "freed quota opens nothing": (Queue, "unblock_where_quota_allows", lambda *_: None),
    "blocks are never taken back": (ParentEntity, "unblock", lambda *_: None),
    "repeated blocks are not remembered": (
        ParentEntity,
        "propagate",
        lambda ancestor, request_class, why: ancestor.pending_index.block(request_class, why),
    ),
    "what is closed is still offered above": (ParentEntity, "block", close_here_only),
    "states are not reconsidered": (Application, "on_state_changed", lambda *_: None),
    "open lines are not shown": (PendingIndex, "_show", lambda *_: None),
    "a request class stays known when its line is empty": (PendingIndex, "_drop_class", lambda *_: None),
    "queues whose pending changed keep their place": (
        Partition,
        "end_of_step",
        lambda partition: partition.touched.clear(),
    ),
    "alarms are never cancelled": (Alarms, "cancel", lambda *_: None),
    "a full node stays where it was": (NodeOrder, "moved", lambda *_: None),
    "applications keep their place": (Application, "rekey", lambda *_: None),
    "quotas are ignored": (cycle, "highest_blocked", lambda *_: None),
    "limits are ignored": (rules, "blocked_by_user_limits", lambda *_: None),
    "idle applications never complete": (application_states, "on_less", lambda *_: None),
    "a drained node stays open": (commit, "shut_node", lambda *_: None),
    "usage outlives its application": (commit, "retire", lambda *_: None),
    "nobody looks for swaps": (Application, "note_possible_swap", lambda *_: None),
    "placeholders on their way out are taken again": (TaskGroup, "drop_idle", lambda *_: None),
    "an ask stays parked when its placeholder goes": (
        commit,
        "end_placeholder_wait",
        lambda placeholder: placeholder.swap,
    ),
    "promises are not kept": (commit, "_lower_promise", lambda *_: None),
    "promises do not end": (commit, "end_promise", lambda *_: None),
    "the time of a gang ends nothing": (gangs, "on_timeout", lambda *_: None),
    "no state ends by itself": (application_states, "on_state_timeout", lambda *_: None),
    "applications run for ever": (execution_times, "end_application", lambda *_: None),
    "who was held back stays so": (
        Partition,
        "set_priority_gang",
        lambda partition, app: setattr(partition, "priority_gang", app),
    ),
    "the first stays first for ever": (gang_time, "end", lambda *_: None),
    "a swap takes room that is not there": (Partition, "refusal", lambda *_: None),
    "real asks do not wait for their gang": (Application, "is_schedulable", lambda *_: True),
    "every gang may start": (RequestClasses, "pending_class", without_gate),
    "a gang has twice its time": (gang_time, "timeout_ns", lambda *args: 2 * GANG_TIMEOUT_NS(*args)),
    "no gang fails": (gangs, "HARD_STYLE", "never"),
    "it does not count why placeholders go": (TaskGroup, "count_release", lambda *_: None),
    "asks of a gang that fails stay parked": (releases, "end_placeholder_wait", lambda *_: None),
    "a gang that gave way is not asked for again": (commit, "ask_anew", lambda *_: False),
    "a placeholder of any size will do": (Resources, "lacks", lambda *_: None),
    "what the RM takes back stays parked": (gangs, "forget_swaps", lambda *_: None),
    "nobody waits for real asks": (application_states, "_give_grace", lambda *_: None),
}


@pytest.mark.parametrize(("owner", "name", "broken"), BREAKS.values(), ids=BREAKS.keys())
def test_a_simulation_finds_broken_code(owner: object, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert any(simulate(seed, 600, Observations())[1] is not None for seed in GANG_SEEDS)


def test_a_simulation_finds_a_release_that_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = rm_releases.finish

    def silent(*arguments: Any, **named: Any) -> None:
        finish(*arguments, **{**named, "confirm": False})

    monkeypatch.setattr(rm_releases, "finish", silent)
    _, failure = simulate(1, 600, Observations())
    assert failure is not None
    assert any("vanishes without a word" in problem for problem in failure.problems)


def test_a_failure_is_shortened_to_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Scheduler) -> bool:
        return False

    monkeypatch.setattr(Scheduler, "wants_cycle", forgetful)
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
