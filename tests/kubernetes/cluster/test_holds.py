"""Room that the daemon holds for members of gangs without placeholder pods counts in the predicates of all others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.declared import pattern_key
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes import builders as b
from tests.kubernetes.builders import app
from tests.kubernetes.cluster.play import Play, of, own

HOST = "kubernetes.io/hostname"
PORT: dict[str, Any] = {
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}]
}
PATTERN = pattern_key(app("a"), "g")


def gang_pod(name: str, task_group: str = "g", **spec: Any) -> Pod:
    """A pod of a gang of two that use the port 80."""
    group = {"name": "g", "minMember": 2, "minResource": {"cpu": "1"}, "hostPorts": [80], "labels": {"app": "g"}}
    said = {"task-groups": json.dumps([group]), "task-group-name": task_group, "placeholders": "none"}
    meta = {"labels": {"applicationId": "a"}, "annotations": {f"schedulerd.io/{key}": said[key] for key in said}}
    return own(name, meta=meta, **(spec or PORT))


class HoldPlay(Play):
    """Two nodes, a stranger `s` that wants the port of the members, and these members."""

    def __init__(self, *members: Pod) -> None:
        super().__init__()
        self.start(b.node("n", {HOST: "n"}), b.node("m", {HOST: "m"}))
        self.put(own("s", **PORT), *members)
        self.tell(v.ApplicationAccepted(app("a")))

    def why(self, key: str, node: str) -> str | None:
        return self.cluster.predicates(key, node, allocate=True)

    def hold(self, hold_id: str, key: str, node: str) -> None:
        """The daemon asks, and holds the room; `key` is empty for room for any member."""
        assert self.why(key or PATTERN, node) is None
        self.say_held(hold_id, key, node)

    def say_held(self, hold_id: str, key: str, node: str) -> None:
        assert self.tell(v.RoomHeld(hold_id, app("a"), key, "g", node)) == []

    def say_free(self, hold_id: str, taken_by: str = "") -> None:
        assert self.tell(v.RoomFreed(hold_id, taken_by)) == []

    @property
    def taken(self) -> list[str]:
        """The nodes on which the stranger finds the port in use."""
        return [name for name in ("n", "m") if self.cluster.predicates("s", name, allocate=False) is not None]


def both() -> HoldPlay:
    return HoldPlay(gang_pod("w0"), gang_pod("w1"))


def test_held_room_counts_until_it_is_free() -> None:
    play = both()
    play.hold("h", "w0", "n")
    play.wait(60)
    assert play.taken == ["n"]
    assert play.why("w1", "n") is not None, "members exclude each other too"
    play.say_free("h")
    assert play.taken == []
    assert play.cluster.model.holds == {}


@pytest.mark.parametrize("is_free_first", [True, False])
def test_a_member_takes_its_room(is_free_first: bool) -> None:
    """The daemon tells that on two streams."""
    play = both()
    play.hold("h", "w0", "n")
    if is_free_first:
        play.say_free("h", "w0")
        assert play.taken == ["n"], "promised until it is allocated"
    play.bind("w0", "n")
    if not is_free_first:
        play.say_free("h", "w0")
    assert play.taken == ["n"]
    assert (play.cluster.model.holds, play.cluster.model.promised) == ({}, {})


def test_room_that_a_member_was_to_take_is_free_after_a_while() -> None:
    play = both()
    play.hold("h", "w0", "n")
    play.say_free("h", "w0")
    play.wait(6)
    assert play.taken == []


def test_a_member_that_is_allocated_elsewhere_holds_nothing() -> None:
    play = both()
    play.hold("h", "w0", "n")
    play.bind("w0", "m")
    assert play.taken == ["m"]
    play.say_free("h")
    assert play.taken == ["m"]


def test_a_pod_that_is_withdrawn_counts_nowhere() -> None:
    """Whether it goes before or after the daemon has told that room is held for it."""
    play = both()
    play.hold("h", "w0", "n")
    play.gone(gang_pod("w0"))
    assert play.taken == []
    play.say_held("late", "w0", "n")
    assert play.taken == []
    play.say_free("h")
    play.say_free("late")
    assert play.cluster.model.holds == {}


def test_a_member_that_is_asked_for_anew_counts_where_it_is_held_then() -> None:
    play = both()
    play.hold("h", "w0", "n")
    gated = gang_pod("w0", **PORT, schedulingGates=[{"name": "x"}])
    play.put(gated)
    assert play.taken == []
    play.put(gang_pod("w0"))
    play.hold("again", "w0", "m")
    play.say_free("h")
    assert play.taken == ["m"]


def test_all_that_was_held_is_void_with_a_new_daemon() -> None:
    play = HoldPlay(gang_pod("w0"))
    play.hold("h", "", "n")
    play.hold("i", "", "m")
    assert play.taken == ["n", "m"]
    play.tell(v.HoldsVoid())
    assert play.taken == []
    play.hold("h", "", "m")
    assert play.taken == ["m"]


def test_what_is_told_twice_is_held_once() -> None:
    play = HoldPlay(gang_pod("w0"))
    play.hold("h", "", "n")
    play.say_held("h", "", "n")
    play.say_free("h")
    assert play.taken == []


def test_room_for_any_member_counts_from_the_answer_on() -> None:
    play = HoldPlay(gang_pod("w0"))
    assert play.why(PATTERN, "n") is None
    assert play.taken == ["n"]
    assert play.why(PATTERN, "n") is not None, "for the next one"
    assert play.why(PATTERN, "m") is None
    assert play.taken == ["n", "m"]
    play.say_held("h", "", "m")
    play.wait(6)
    assert play.taken == ["m"], "the other one was not held after all"
    play.say_free("h")
    assert play.taken == []


def test_several_on_one_node_are_as_many() -> None:
    play = HoldPlay(gang_pod("w0", containers=b.containers({"cpu": "1"})))
    play.hold("h", "", "n")
    play.hold("i", "", "n")
    counted = play.cluster.model.cache.state.nodes["n"].pods
    assert len(counted) == 2
    play.say_free("h")
    assert len(counted) == 1


def test_room_for_any_member_counts_as_the_task_group_says_while_none_exists() -> None:
    play = HoldPlay(gang_pod("driver", task_group="d"))
    play.hold("h", "", "m")
    assert play.taken == ["m"]
    play.put(own("o", affinity=b.anti_affinity(b.term(HOST, b.selector(app="g")))))
    assert play.why("o", "m") is not None
    assert play.why("o", "n") is None


def test_a_member_takes_room_for_any_member() -> None:
    play = HoldPlay(gang_pod("w0"))
    play.hold("h", "", "n")
    play.hold("i", "", "m")
    assert play.why("w0", "n") is None, "it is judged without what is held for one like it"
    play.say_free("h", "w0")
    assert play.taken == ["n", "m"]
    play.bind("w0", "n")
    play.say_free("i")
    assert play.taken == ["n"]


def test_held_room_can_be_preempted() -> None:
    play = both()
    play.hold("h", "w0", "n")
    assert play.cluster.preemption_predicates("s", "n", ["w0"], 0) == 0
    assert play.cluster.preemption_predicates("s", "n", [], 0) is None


def test_nobody_is_asked_about_room_of_a_gang_that_is_over() -> None:
    play = HoldPlay(gang_pod("w0"))
    play.hold("h", "", "n")
    play.gone(gang_pod("w0"))
    play.wait(60)
    assert PATTERN not in play.cluster.model.patterns
    assert play.why(PATTERN, "n") == "the pod is not known"
    play.say_held("late", "", "n")
    play.say_free("h")
    assert play.taken == []


def test_an_allocation_of_a_member_does_not_free_what_is_held_for_others() -> None:
    play = HoldPlay(gang_pod("w0"))
    play.hold("h", "", "n")
    effects = play.allocate("w0", "m")
    assert len(of(effects, e.Bind)) == 1
    assert play.taken == ["n", "m"]


def test_a_member_whose_node_goes_is_still_asked_for() -> None:
    play = both()
    play.hold("h", "w0", "n")
    other = {**PORT, "tolerations": [{"operator": "Exists"}]}
    assert of(play.put(gang_pod("w0", **other)), e.Ask), "the ask is sent again"
    assert of(play.gone(b.node("n", {HOST: "n"})), e.ReleaseAsk) == []
