"""The invariants are shown to bite: the state is corrupted or the code is broken on purpose, and it is noticed.

A check that nothing can trip is worth nothing, and one would not notice when it stops working.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.core import commit, cycle
from schedulerd.core.alarms import AlarmKind, Alarms
from schedulerd.core.handlers import application_states, releases
from schedulerd.core.invariants import violations
from schedulerd.core.lifecycles import ApplicationState, ResourceManagerState
from schedulerd.core.model.application import Application
from schedulerd.core.model.node_order import NodeOrder
from schedulerd.core.model.queue import Queue
from schedulerd.core.model.shape import Shapes
from schedulerd.core.scheduler import Scheduler
from tests.sim.pond import RM, Pond
from tests.sim.sightings import Sightings
from tests.sim.simulation import START_NS, shorten, simulate


def test_the_story_is_sound_and_says_enough() -> None:
    pond = Pond()
    assert violations(pond.scheduler) == []
    assert not pond.scheduler.wants_cycle()
    assert pond.application(1).state is ApplicationState.RUNNING
    assert pond.application(3).state is ApplicationState.COMPLETING
    assert pond.queue("root.batch.fifo").closed
    assert list(pond.partition.shapes.parked())


def first(mapping: Any) -> Any:
    return next(iter(mapping.values()))


Corruption = Callable[[Pond], Any]


def move_behind_its_siblings(pond: Pond) -> None:
    pond.partition.settle()
    pond.queue("root.open").guaranteed.update(memory=7)


def forget_users(pond: Pond) -> None:
    pond.application(1).usage_ledgers.clear()
    pond.partition.user_usage._ledgers.clear()


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
    "place lost": (lambda p: setattr(p.application(2), "entry", None), "its place says otherwise"),
    "demand": (lambda p: p.queue("root.open").demand.clear(), "demand of root.open"),
    "not offered": (lambda p: setattr(p.queue("root.open"), "needs", frozenset()), "does not offer its parent"),
    "closed for nothing": (
        lambda p: p.queue("root.batch.fifo").max.clear(),
        "is closed for {'memory': 20, 'vcore': 1} though its quota has room",
    ),
    "not needed": (lambda p: setattr(p.application(2), "needs", frozenset()), "does not need what it has asks of"),
    "stale queue": (move_behind_its_siblings, "the place of root.open among its siblings is stale"),
    "stale application": (lambda p: setattr(p.application(2), "serial", 99), "place of application app-2 in root.open"),
    "shape forgotten": (lambda p: setattr(next(iter(p.partition.shapes.parked())), "uses", 9), "the known shapes"),
    "shape unmarked": (
        lambda p: setattr(next(iter(p.partition.shapes.parked())), "parked", False),
        "the parked shapes are not those marked parked",
    ),
    "parked for nothing": (lambda p: p.node(1).available.update(memory=99), "is parked though node node-1 has room"),
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
        lambda p: p.scheduler.cluster.alarms.set(START_NS, AlarmKind.APPLICATION_STATE, None),
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
    pond = Pond()
    corrupt(pond)
    found = violations(pond.scheduler)
    assert any(sentence in violation for violation in found), found


# Broken code: a simulation finds it

BREAKS: dict[str, tuple[object, str, Any]] = {
    "finished asks are kept": (commit, "forget_if_done", lambda *_: None),
    "parked shapes are never woken": (Shapes, "wake", lambda *_: None),
    "closed queues never reopen": (Queue, "reopen", lambda *_: None),
    "alarms are never cancelled": (Alarms, "cancel", lambda *_: None),
    "a full node stays where it was": (NodeOrder, "moved", lambda *_: None),
    "applications keep their place": (Application, "rekey", lambda *_: None),
    "quotas are ignored": (cycle, "_without_quota", lambda *_: None),
    "idle applications never complete": (application_states, "on_less", lambda *_: None),
    "a drained node stays open": (commit, "shut_node", lambda *_: None),
    "usage outlives its application": (commit, "retire", lambda *_: None),
}


@pytest.mark.parametrize(("owner", "name", "broken"), BREAKS.values(), ids=BREAKS.keys())
def test_a_simulation_finds_broken_code(owner: object, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, name, broken)
    assert any(simulate(seed, 600, Sightings())[1] is not None for seed in range(1, 4))


def test_a_simulation_finds_a_release_that_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = releases.finish

    def silent(*arguments: Any, **named: Any) -> None:
        finish(*arguments, **{**named, "confirm": False})

    monkeypatch.setattr(releases, "finish", silent)
    _, failure = simulate(1, 600, Sightings())
    assert failure is not None
    assert any("vanishes without a word" in problem for problem in failure.problems)


def test_a_failure_is_shortened_to_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: Scheduler) -> bool:
        return False

    monkeypatch.setattr(Scheduler, "wants_cycle", forgetful)
    history, failure = simulate(1, 600, Sightings())
    assert failure is not None
    short = shorten(failure)
    assert len(short.history) <= 5 < len(history)
    assert any("sleeps" in problem for problem in short.problems)
