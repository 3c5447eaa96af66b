"""Random histories with claims that wait for their first consumer: no volume for two, no pod without its volumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from schedulerd.kubernetes.cluster import volumes
from schedulerd.kubernetes.predicates.assumed_volumes import AssumedVolumes
from schedulerd.kubernetes.predicates.storage import is_bound, is_usable
from tests.kubernetes.cluster import test_simulation
from tests.kubernetes.cluster.volume_world import VolumeWorld, claims_of
from tests.loops import each_seed

TURNS = 400


def check(world: VolumeWorld) -> None:
    test_simulation.check(world)
    model = world.cluster.model
    storage = model.cache.storage
    assert not model.awaiting_volumes, "somebody still waits for volumes"
    assert not len(storage.assumed), "something is still promised"
    owners = Counter(one.spec.volume_name for one in world.claims.values() if one.spec.volume_name)
    assert set(owners.values()) <= {1}, "a volume of two claims"
    for uid, pod in world.pods.items():
        at = pod.spec.node_name
        if not at or uid in world.stolen:
            continue
        for name in claims_of(pod):
            claim = world.claims[name]
            assert is_bound(claim), f"{uid} runs without {name}"
            requirement = storage.volumes[claim.spec.volume_name].requirement
            assert is_usable(requirement, {"disk": at}), f"{uid} runs where {name} is not"


def play(seed: int, turns: int = TURNS) -> VolumeWorld:
    world = VolumeWorld(seed)
    world.start()
    for turn in range(turns):
        world.turn()
        if seed % 3 == 0 and turn % 170 == 160:
            world.crash()
    world.settle()
    return world


@each_seed(range(15), nightly=range(15, 50))
def test_everybody_agrees_in_the_end(seed: int) -> None:
    check(play(seed))


@pytest.mark.nightly
def test_the_histories_are_rich() -> None:
    worlds = [play(seed) for seed in range(20)]
    happened = sum((world.happened for world in worlds), Counter[str]())
    assert happened["bound"] > 50
    assert happened["given up"] > 10
    assert happened["made"] > 20
    assert happened["changed"] > 3
    assert happened["elsewhere"] > 0
    assert happened["crash"] > 3
    with_claims = [uid for world in worlds for uid, pod in world.pods.items() if pod.spec.node_name and claims_of(pod)]
    assert len(with_claims) > 50


def _binds_at_once(look: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_: volumes._BOUND


def _without_end(back_off: Callable[..., None]) -> Callable[..., None]:
    def broken(model: Any, own: Any) -> None:
        own.volumes.again_ns = model.now_ns + 10**18

    return broken


BREAKS: dict[str, tuple[object, str, Callable[[Any], Any]]] = {
    "the pod is bound before its volumes": (volumes, "look", _binds_at_once),
    "assumed volumes stay": (AssumedVolumes, "forget", lambda _: lambda *_: False),
    "back-offs do not end": (volumes, "back_off", _without_end),
    "a new volume is not compared with the node": (volumes, "is_usable", lambda _: lambda *_: True),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", BREAKS)
def test_the_simulation_finds_deliberate_breaks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, broken = BREAKS[name]
    monkeypatch.setattr(module, attribute, broken(getattr(module, attribute)))
    for seed in range(60):
        try:
            check(play(seed))
        except (AssertionError, KeyError):
            return
    raise AssertionError("not found")
