"""Random histories of hostile and clumsy tenants beside an orderly one, which gets all that it may have."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from schedulerd.core.invariants.all import violations
from schedulerd.kubernetes.cluster import cluster
from schedulerd.kubernetes.cluster.settings import ClusterSettings
from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from schedulerd.kubernetes.predicates.daemon_sets import DaemonSets
from tests.kubernetes.cluster.tenant_world import ORDERLY, OTHERS, POD_MILLIS, TenantWorld
from tests.loops import each_seed

TURNS = 400


def play(seed: int) -> TenantWorld:
    world = TenantWorld(seed)
    world.start()
    for _ in range(TURNS):
        world.turn()
    world.settle()
    return world


def check(world: TenantWorld) -> None:
    partition = world.core.partition
    assert violations(world.core.scheduler) == []
    waiting = {pod.metadata.name: world.why(pod) for pod in world.pods_of(ORDERLY) if not pod.spec.node_name}
    assert waiting == {}, "pods of the orderly tenant wait"
    for one in partition.allocations.values():
        own = world.cluster.model.pods.get(one.key)
        if own is not None:
            assert one.application.queue.path == f"root.{own.pod.metadata.namespace}", f"{one.key} counts elsewhere"
    queue = partition.root.find(f"root.{ORDERLY}")
    assert queue is not None
    assert queue.allocated.get("vcore", 0) == POD_MILLIS * len(world.pods_of(ORDERLY))


def check_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        check(play(seed))


@each_seed(range(3), few=0, nightly=range(3, 20))
def test_the_orderly_tenant_gets_what_it_may_have(seed: int) -> None:
    check(play(seed))


@pytest.mark.nightly
def test_the_histories_are_rich() -> None:
    worlds = [play(seed) for seed in range(6)]
    assert sum(world.hostile for world in worlds) > 400
    assert all(len(world.bindings) > 10 for world in worlds)
    bound = {pod.metadata.namespace for world in worlds for pod in world.pods.values() if pod.spec.node_name}
    assert bound == {ORDERLY, *OTHERS}


@pytest.mark.slow
def test_a_tenant_that_could_take_the_ids_of_others_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "ClusterSettings", lambda: ClusterSettings(application_ids=ApplicationIds.BARE))
    with pytest.raises(AssertionError, match="pods of the orderly tenant wait"):
        check_all(range(6))


@pytest.mark.nightly
def test_a_tenant_whose_forged_daemon_sets_were_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    trusting = ClusterSettings(daemon_set_namespaces=frozenset(OTHERS))
    monkeypatch.setattr(cluster, "ClusterSettings", lambda: trusting)
    monkeypatch.setattr(DaemonSets, "_is_believed", lambda *_: True)
    with pytest.raises(AssertionError, match="of a pod that has all it may have"):
        check_all(range(12))
