"""Pods that nodes have refused, with the real core: how soon they are placed, and how many questions that takes."""

from __future__ import annotations

from typing import Any

from schedulerd.kubernetes.cluster import events as v
from tests.kubernetes.builders import affinity, anti_affinity, bound, node, selector, term
from tests.kubernetes.cluster.core_world import CoreWorld
from tests.kubernetes.cluster.play import own

NEAR = affinity(term("zone", selector(app="db")))
APART = anti_affinity(term("zone", selector(app="web")))


class World(CoreWorld):
    """Two nodes in two zones. Nothing fails."""

    def __init__(self) -> None:
        super().__init__(1, kills=False)
        self.is_quiet = True
        self.questions = 0
        for name, zone in (("n", "a"), ("m", "b")):
            self.nodes.add(name)
            self._watch.append(v.Put(node(name, {"zone": zone}, cpu="8")))
        ask = self.cluster.predicates

        def counted(*about: Any, **more: Any) -> str | None:
            self.questions += 1
            return ask(*about, **more)

        self.cluster.predicates = counted  # type: ignore[method-assign]
        self.start()

    def create(self, name: str, app: str = "", **spec: Any) -> None:
        labels = {"queue": "root.q", "applicationId": f"of-{name}", **({"app": app} if app else {})}
        self._put(own(name, cpu="10m", meta={"labels": labels}, **spec))

    def after(self, seconds: int) -> None:
        for _ in range(seconds):
            while self.move():
                pass
            self._pass(1)
        while self.move():
            pass

    def node_of(self, name: str) -> str:
        return self.pods[name].spec.node_name

    def waiting(self, pods: int, **spec: Any) -> None:
        for number in range(pods):
            self.create(f"p{number}", **spec)
        self.after(5)
        assert not any(self.node_of(f"p{number}") for number in range(pods))
        self.questions = 0


def test_a_pod_with_affinity_follows_the_pod_that_it_waits_for() -> None:
    world = World()
    world.waiting(1, affinity=NEAR)
    world.create("db", "db")
    world.after(2)
    assert world.node_of("p0") == world.node_of("db") != ""


def test_a_hundred_of_them_follow_within_two_seconds() -> None:
    world = World()
    world.waiting(100, affinity=NEAR)
    world.create("db", "db")
    world.after(2)
    assert {world.node_of(f"p{number}") for number in range(100)} == {world.node_of("db")}
    assert world.questions <= 100 * 2, "each node is asked about once"


def test_pods_are_not_asked_for_again_because_others_come_and_go() -> None:
    world = World()
    world.waiting(20, affinity=NEAR)
    for number in range(10):
        other = bound(f"other{number}", "n")
        world._put(other)
        world.after(1)
        world._remove(other.metadata.uid)
        world.after(1)
    asked = {world.cluster.model.pods[f"p{number}"].asks_sent for number in range(20)}
    assert asked == {1}, "the core asks again by itself, about the node that has changed"


def test_pods_that_keep_each_other_away_do_not_ask_without_end() -> None:
    """A pod that is placed wakes none of the others, which are not asked about more often than the core does itself."""
    world = World()
    for number in range(20):
        world.create(f"p{number}", "web", affinity=APART)
    world.after(5)
    placed = [name for name in world.pods if world.node_of(name)]
    assert len(placed) == 2
    world.questions = 0
    world.after(20)
    assert world.questions == 0
    world._remove(placed[0])
    world.after(2)
    assert len([name for name in world.pods if world.node_of(name)]) == 2
    assert world.questions <= 4 * 20, "each pod on each node, by the core and by the shim"
