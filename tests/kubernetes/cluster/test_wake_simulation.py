"""Random histories of pods with constraints, with the real core: after every move, each pod that a node would take is
placed within seconds. The core's own retry comes after 30."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.objects.node import Node
from schedulerd.kubernetes.predicates.refused_pods import RefusedPods
from tests.kubernetes import builders
from tests.kubernetes.cluster.core_world import CoreWorld
from tests.kubernetes.cluster.play import own
from tests.kubernetes.story import NAMESPACES, NODES, Story
from tests.loops import each_seed

TURNS = 60
SOON = 3
"""Seconds from a change to the binding: allocations that are refused once more are asked for a second later."""


class ConstrainedWorld(CoreWorld):
    """Nodes have room for all pods. No binding fails."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, kills=False)
        self.story = Story(seed)
        self.node_objects: dict[str, Node] = {}
        self.is_quiet = True
        for name in NODES:
            self._put_node(name)
        self.start()

    def turn(self) -> None:
        chance = self.random.random()
        if chance < 0.5 or not self.pods:
            self._create()
        elif chance < 0.75:
            self._remove(self.random.choice(sorted(self.pods)))
        elif chance < 0.82:
            self._relabel(self.random.choice(sorted(self.pods)))
        elif chance < 0.87:
            self._delete(self.random.choice(sorted(self.pods)))
        elif chance < 0.92:
            self._put_node(self.random.choice(NODES))
        elif chance < 0.95 and len(self.nodes) > 1:
            name = self.random.choice(sorted(self.nodes))
            self.nodes.discard(name)
            self._watch.append(v.Gone(self.node_objects.pop(name)))
        else:
            team = self.random.choice(("red", "blue"))
            self._watch.append(v.Put(builders.namespace(self.random.choice(NAMESPACES), team=team)))
        for _ in range(SOON):
            while self.move():
                pass
            self._pass(1)
        while self.move():
            pass

    def left_waiting(self) -> list[tuple[str, list[str]]]:
        """Pods that are asked for, with the nodes that would take them."""
        model = self.cluster.model
        asked = [one for one in model.pods.values() if one.state is PodState.ASKED]
        found = [
            (one.uid, [name for name in sorted(self.nodes) if not model.predicates.judge(one.pod, name)])
            for one in asked
            if not one.avoided_nodes
        ]
        return [(uid, nodes) for uid, nodes in found if nodes]

    def _create(self) -> None:
        name, like = f"p{next(self._names)}", self.story.pod()
        labels = {**(like.metadata.labels or {}), "queue": "root.q", "applicationId": f"of-{name}"}
        containers = builders.containers({"cpu": "1m"})
        if like.spec.containers:
            port = self.random.choice((80, 81))
            containers = [{**containers[0], "ports": [{"containerPort": port, "hostPort": port}]}]
        plain = own(name, meta={"labels": labels, "namespace": like.metadata.namespace}, containers=containers)
        spec = replace(
            plain.spec,
            affinity=like.spec.affinity,
            topology_spread_constraints=like.spec.topology_spread_constraints,
            tolerations=like.spec.tolerations,
            node_selector=like.spec.node_selector,
        )
        self._put(replace(plain, spec=spec))

    def _relabel(self, uid: str) -> None:
        pod = self.pods[uid]
        labels = {**(pod.metadata.labels or {}), "app": self.random.choice("xy"), "tier": self.random.choice("de")}
        self._put(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def _put_node(self, name: str) -> None:
        self.nodes.add(name)
        self.node_objects[name] = self.story.node(name)
        self._watch.append(v.Put(self.node_objects[name]))


def play(seed: int) -> int:
    """Plays a history; how often pods waited that no node would take."""
    world, waited = ConstrainedWorld(seed), 0
    for turn in range(TURNS):
        world.turn()
        assert world.left_waiting() == [], turn
        waited += sum(one.state is PodState.ASKED for one in world.cluster.model.pods.values())
    return waited


@each_seed(range(25))
def test_no_pod_waits_for_a_timer(seed: int) -> None:
    assert play(seed) > 0


def test_without_wakes_pods_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RefusedPods, "settle", lambda _: None)
    for seed in range(25):
        try:
            play(seed)
        except AssertionError:
            return
    raise AssertionError("not found")
