"""Random histories with gangs: whatever happened, nothing leaks, and everybody agrees in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.kubernetes.cluster.gangs import life, membership, slots, surplus
from schedulerd.kubernetes.cluster.gangs.lifecycle import GangStage
from schedulerd.kubernetes.cluster.gangs.model import SlotState
from schedulerd.kubernetes.cluster.model import ApplicationState
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from tests.kubernetes.cluster.core_world import CoreGangWorld
from tests.kubernetes.cluster.gang_world import GangWorld
from tests.loops import each_seed

TURNS = 400


def check(world: GangWorld) -> None:
    daemon, model = world.daemon, world.cluster.model
    assert not daemon.leaving, "releases that nobody has confirmed"
    assert set(daemon.occupied) == world.nodes
    assert set(model.pods) == set(world.pods)
    held = {key: (application, node) for application, key, node in daemon.allocations.values()}
    assert len(held) == len(daemon.allocations), "a pod with two allocations"
    assert set(held) <= set(world.pods), "an allocation of nothing"
    assert set(daemon.asks) <= set(world.pods), "an ask of nothing"
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
        placed = sum(group.placed for group in gang.groups.values())
        assert gang.has_run or len(there) + placed >= len(gang.slots), "a gang that waits lacks a placeholder"
    check_room(world)
    check_declarations(world)
    occupied = dict.fromkeys(world.nodes, 0)
    for uid, one in world.pods.items():
        if one.spec.node_name in world.nodes:
            occupied[one.spec.node_name] += uid not in held
    assert occupied == {node: used.get("pods", 0) for node, used in daemon.occupied.items()}
    assert len(world.bindings) == len(set(world.bindings)), "bound twice"
    assert len(world.failed) == len(set(world.failed))


def check_declarations(world: GangWorld | CoreGangWorld) -> None:
    model = world.cluster.model
    assert model.waiting_for_declaration == {}, "a pod waits for a declaration"
    declaring = {uid for uids in model.declaring.values() for uid in uids}
    assert declaring == {uid for uid, own in model.pods.items() if own.declares_gang}
    assert model.undeclared_for.keys() <= model.declaring.keys()


def check_room(world: GangWorld | CoreGangWorld) -> None:
    """No placeholder holds room for a member that has a node."""
    for application in world.cluster.model.applications.values():
        gang = application.gang
        if gang is None or gang.is_past or application.state is ApplicationState.WAITING:
            continue
        for group in gang.declared:
            bound = [
                own
                for own in application.pods.values()
                if own.task_group == group.name and own.pod.spec.node_name in world.nodes and not own.is_placeholder
            ]
            left = sum(slot.group == group.name and slot.own is not None for slot in gang.slots.values())
            assert not left or left + len(bound) <= group.members, f"{application.id} holds room for nobody"


def play(seed: int, turns: int = TURNS, *, crashes: bool = False) -> GangWorld:
    world = GangWorld(seed)
    world.start()
    for turn in range(turns):
        world.turn()
        if (crashes or seed % 3 == 0) and turn % 170 == 160:
            world.crash()
    world.settle()
    return world


FOUND = (549, 913, 1233, 2385, 3909)
"""Asks of an application that was completed, or removed, reached the next one of its id; a placeholder pod was bound to
a node that the daemon had rejected; a gang of which somebody else had bound a member did not make a lost placeholder
again."""
FOUND_WITH_CRASHES = (644, 1481, 2260, 7061)
"""The daemon here did not say that a gang runs of which a member was reported (the real one does); an allocation that
was released was brought back by the update of its node that had reported it before; an ask stood in for ever for a
placeholder whose repeated ask was rejected, and whose first one was allocated; a placeholder that was gone when it was
to be bound was missing until the watch told it."""


@each_seed([*range(15), *FOUND], nightly=range(15, 60))
def test_everybody_agrees_in_the_end(seed: int) -> None:
    check(play(seed))


@each_seed([*range(12), *FOUND_WITH_CRASHES], nightly=range(12, 50))
def test_everybody_agrees_after_crashes(seed: int) -> None:
    check(play(seed, crashes=True))


def _nothing(*_: Any, **__: Any) -> None:
    """Is done."""


def _spends(lose: Callable[..., None]) -> Callable[..., None]:
    def broken(model: Any, application: Any, gang: Any, own: Any) -> None:
        slot = own.slot
        lose(model, application, gang, own)
        if slot is not None:
            slot.state = SlotState.SPENT

    return broken


BREAKS: dict[str, tuple[object, str, Callable[[Any], Any]]] = {
    "placeholders that nobody wants are left at a start": (life, "remove_unwanted", lambda _: _nothing),
    "placeholders are kept when the last pod leaves": (slots, "clear", lambda _: _nothing),
    "members that somebody else binds keep their placeholders": (surplus, "runs_elsewhere", lambda _: _nothing),
    "asks that stand in for placeholders stay": (slots, "end_stand_ins", lambda _: _nothing),
    "nothing stands in for evicted placeholders": (slots, "_stand_in", lambda _: _nothing),
    "evicted placeholders are not made again": (membership, "_lose_pod", _spends),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", BREAKS)
def test_the_simulation_finds_deliberate_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, broken = BREAKS[name]
    monkeypatch.setattr(module, attribute, broken(getattr(module, attribute)))
    for seed in range(150):  # the rarest shows in one of fifty
        try:
            check(play(seed, crashes=seed % 2 == 1))
        except (AssertionError, KeyError):
            return
    raise AssertionError("not found")


@pytest.mark.nightly
def test_the_histories_are_rich() -> None:
    worlds = [play(seed) for seed in range(24)]
    bindings = [uid for world in worlds for uid in world.bindings]
    assert sum(uid.startswith("tg-") for uid in bindings) > 20, "placeholder pods are bound"
    assert sum(not uid.startswith("tg-") for uid in bindings) > 50
    assert any(world.failed for world in worlds), "pods of Hard gangs fail"
    assert sum(world.daemon.swaps for world in worlds) > 20
    assert sum(world.daemon.gathered for world in worlds) > 20
