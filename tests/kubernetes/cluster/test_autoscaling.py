"""A cluster that grows and shrinks by what pods say of themselves: with the real core, messages in any order."""

from __future__ import annotations

import json

import pytest

from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.objects.pod import Pod, PodCondition, PodStatus
from tests.kubernetes.autoscaler import Autoscaler
from tests.kubernetes.builders import JSON, node, placed
from tests.kubernetes.cluster.core_world import CoreGangWorld
from tests.kubernetes.cluster.play import own
from tests.loops import each_seed

TEMPLATE = {"cpu": 1000, "memory": 16 << 30, "pods": 110}
LOOK_EVERY = 10
SECONDS_MAX = 400


class GrowingWorld(CoreGangWorld):
    """Nobody kills anybody; bindings fail now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, kills=False)
        self.is_calm = self.is_orderly = True
        self.autoscaler = Autoscaler(TEMPLATE)
        self.add_node("n0")
        self.start()

    def add_node(self, name: str) -> None:
        self.nodes.add(name)
        self._watch.append(v.Put(node(name, cpu="1")))

    def gang(self, members: int, kind: str) -> list[str]:
        """Members of 100m each; their names."""
        group = {"name": "g", "minMember": members, "minResource": {"cpu": "100m"}}
        annotations = {
            "schedulerd.io/task-groups": json.dumps([group]),
            "schedulerd.io/task-group-name": "g",
            "schedulerd.io/placeholders": kind,
        }
        meta: JSON = {"labels": {"applicationId": "gang", "queue": "root.q"}, "annotations": annotations}
        names = [f"w{number}" for number in range(members)]
        for name in names:
            self._put(own(name, cpu="100m", meta=meta))
        return names

    def pass_time(self, seconds: int) -> None:
        for second in range(seconds):
            while self.move():
                pass
            self._pass()
            if second % LOOK_EVERY == 0:
                self.look()

    def look(self) -> None:
        facts = {name: self.cluster.model.cache.node_facts(name) for name in self.nodes}
        room = {name: one.allocatable for name, one in facts.items() if one is not None}
        added, gone = self.autoscaler.look(self.pods.values(), room)
        for name in gone:
            self.nodes.discard(name)
            self._watch.append(v.Gone(node(name, cpu="1")))
        for name in added:
            self.add_node(name)

    def bound(self, names: list[str]) -> list[str]:
        return [name for name in names if name in self.pods and self.pods[name].spec.node_name]

    def until_bound(self, names: list[str]) -> None:
        for _ in range(SECONDS_MAX // LOOK_EVERY):
            self.pass_time(LOOK_EVERY)
            if len(self.bound(names)) == len(names):
                return
        raise AssertionError(f"{self.bound(names)} of {names} are bound; {self.autoscaler.grown} nodes were added")


@each_seed(range(5))
@pytest.mark.parametrize("kind", ["always"])
def test_a_gang_twice_the_size_of_the_cluster_makes_it_grow(kind: str, seed: int) -> None:
    world = GrowingWorld(seed)
    names = world.gang(20, kind)
    world.until_bound(names)
    assert world.autoscaler.grown in ((1,) if kind == "pods" else (1, 2)), "with room that is held looking free"
    world.pass_time(30)
    assert not any(uid.startswith("tg-") for uid in world.pods), "a placeholder that outlives"
    for name in names:
        world._remove(name)
    world.pass_time(60)
    assert world.nodes == {"n0"}


def test_a_cluster_does_not_grow_for_a_quota() -> None:
    world = GrowingWorld(1)
    names = [f"p{number}" for number in range(8)]
    for name in names:
        world._put(own(name, cpu="100m", meta={"labels": {"queue": "root.small", "applicationId": "a"}}))
    world.pass_time(120)
    assert len(world.bound(names)) == 5
    reasons = {
        one.reason for name in names for one in world.pods[name].status.conditions or () if one.status == "False"
    }
    assert reasons == {"SchedulingSkipped"}
    assert world.autoscaler.grown == 0


def waiting(name: str, reason: str = "Unschedulable", cpu: str = "600m") -> Pod:
    condition = PodCondition(type="PodScheduled", status="False", reason=reason)
    pod = own(name, cpu=cpu)
    return Pod(pod.metadata, pod.spec, PodStatus(conditions=(condition,)))


def test_the_autoscaler_packs_what_is_unschedulable_and_removes_what_is_empty() -> None:
    autoscaler = Autoscaler(TEMPLATE)
    room = {"a": TEMPLATE}
    on_a = placed(own("there", cpu="500m"), "a")
    assert autoscaler.look([on_a, waiting("p", cpu="500m")], room) == ([], []), "it has room"
    pods = [on_a, waiting("p"), waiting("q", cpu="400m"), waiting("huge", cpu="2"), waiting("s", "SchedulingSkipped")]
    assert autoscaler.look(pods, room) == (["grown-1"], [])
    room["grown-1"] = TEMPLATE
    assert autoscaler.look(pods, room) == ([], []), "its node is there and will be used"
    assert autoscaler.look([on_a], room) == ([], ["grown-1"])
    assert autoscaler.look([], {"a": TEMPLATE}) == ([], []), "others' nodes stay"
