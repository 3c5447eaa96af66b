"""The room that a placeholder holds counts as the member that it stands for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs import leaving
from schedulerd.kubernetes.cluster.gangs.giving_way import GANGS_MAX
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes import builders as b
from tests.kubernetes.builders import app
from tests.kubernetes.cluster.gang_play import made
from tests.kubernetes.cluster.play import Play, of, own

HOST = "kubernetes.io/hostname"
PORT: dict[str, Any] = {
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "ports": [{"hostPort": 80}]}]
}
ALONE: dict[str, Any] = {"affinity": b.anti_affinity(b.term(HOST, b.selector(app="w")))}
SPREAD: dict[str, Any] = {"topologySpreadConstraints": [b.spread(HOST, b.selector(app="w"))]}
EXCLUSIONS: dict[str, dict[str, Any]] = {"port": PORT, "anti": ALONE, "spread": SPREAD}
HOST_PORT = "node(s) didn't have free ports for the requested pod ports"


def gang_pod(
    name: str,
    at: int = 0,
    declared: dict[str, Any] | None = None,
    application: str = "a",
    **spec: Any,
) -> Pod:
    group = {"name": "g", "minMember": 2, "minResource": {"cpu": "1"}, **(declared or {})}
    said = {
        "schedulerd.io/task-groups": json.dumps([group]),
        "schedulerd.io/task-group-name": "g",
        "schedulerd.io/placeholders": "always",
    }
    labels = {"applicationId": application, "app": "w"}
    created = f"2026-01-01T00:00:{at:02}Z"
    return own(name, meta={"labels": labels, "annotations": said, "creationTimestamp": created}, **spec)


class GangPlay(Play):
    def __init__(self) -> None:
        super().__init__()
        self.start(b.node("n", {HOST: "n"}), b.node("m", {HOST: "m"}))

    def begin(self, *pods: Pod) -> list[str]:
        """Keys of the placeholders that are asked for."""
        effects = self.put(*pods)
        effects += self.tell(*(v.ApplicationAccepted(one.application_id) for one in of(effects, e.AddApplication)))
        created = [made(one) for one in of(effects, e.CreatePod)]
        effects += self.put(*created)
        return [ask.key for ask in of(effects, e.Ask) if ask.is_placeholder]

    def place(self, key: str, node: str, application: str = "a") -> list[e.Effect]:
        return self.tell(v.Allocated(app(application), key, f"u-{key}", node))

    def why(self, key: str, node: str) -> str | None:
        return self.cluster.predicates(key, node, allocate=True)


@pytest.mark.parametrize("exclusion", EXCLUSIONS)
def test_placeholders_exclude_each_other_as_their_members_do(exclusion: str) -> None:
    play = GangPlay()
    spec = EXCLUSIONS[exclusion]
    first, second = play.begin(gang_pod("w0", **spec), gang_pod("w1", **spec))
    assert play.why(first, "n") is None
    assert play.why(second, "n") is not None, "the daemon was told that the node suits the first one"
    play.place(first, "n")
    assert play.why(second, "n") is not None
    assert play.why(second, "m") is None


def test_the_asks_of_such_placeholders_are_asked_about() -> None:
    play = GangPlay()
    effects = play.put(gang_pod("w0", **PORT), gang_pod("w1", **PORT))
    effects += play.tell(v.ApplicationAccepted(app("a")))
    effects += play.put(*(made(one) for one in of(effects, e.CreatePod)))
    asks = [ask for ask in of(effects, e.Ask) if ask.is_placeholder]
    assert len(asks) == 2
    assert all("schedulerd.io/predicates" not in ask.tags for ask in asks)


def test_a_member_is_judged_without_one_placeholder() -> None:
    play = GangPlay()
    first, second = play.begin(gang_pod("w0", **PORT), gang_pod("w1", **PORT))
    play.place(first, "n")
    play.place(second, "m")
    assert play.why("w0", "n") is None
    stranger = own("s", **PORT)
    play.put(stranger)
    assert play.why("s", "n") is not None


def test_the_room_of_a_member_is_kept_between_its_placeholder_and_itself() -> None:
    play = GangPlay()
    first, second = play.begin(gang_pod("w0", **PORT), gang_pod("w1", **PORT))
    play.place(first, "n")
    play.place(second, "m")
    play.put(own("s", **PORT))
    before = dict(play.cluster.model.pods)
    play.tell(v.ReleaseWanted(app("a"), first, f"u-{first}", v.Cause.REPLACED, ""))
    play.put(b.terminating(before[first].pod))
    assert play.why("s", "n") is not None
    play.gone(before[first].pod)
    assert play.why("s", "n") is not None, "a member is about to have it"
    play.allocate("w0", "n")
    assert play.cluster.model.pods["w0"].node == "n"
    assert play.why("s", "n") is not None
    assert play.cluster.model.kept_rooms == {}


def test_the_room_of_a_swap_that_has_failed_is_free_after_a_while() -> None:
    play = GangPlay()
    first, _ = play.begin(gang_pod("w0", **PORT), gang_pod("w1", **PORT))
    play.place(first, "n")
    play.put(own("s", **PORT))
    before = dict(play.cluster.model.pods)
    play.tell(v.ReleaseWanted(app("a"), first, f"u-{first}", v.Cause.REPLACED, ""))
    play.gone(before[first].pod)
    assert play.why("s", "n") is not None
    play.wait(11)
    assert play.why("s", "n") is None


def test_without_a_member_the_declaration_counts() -> None:
    """The driver declares the ports, labels and terms of executors that do not exist yet."""
    play = GangPlay()
    declared = {"name": "e", "hostPorts": [80], "labels": {"app": "e"}}
    driver = gang_pod("d", declared=declared, affinity=b.anti_affinity(b.term(HOST, b.selector(app="none"))))
    first, second = play.begin(driver)
    play.place(first, "n")
    assert play.why(second, "n") is not None
    play.put(own("o", meta={"labels": {"app": "x"}}, affinity=b.anti_affinity(b.term(HOST, b.selector(app="e")))))
    assert play.why("o", "n") is not None
    assert play.why("o", "m") is None


def test_the_oldest_member_that_exists_counts() -> None:
    play = GangPlay()
    young, old = gang_pod("w1", 5), gang_pod("w0", 1, **PORT)
    first, _ = play.begin(young)
    play.place(first, "n")
    play.put(own("s", **PORT))
    assert play.why("s", "n") is None
    play.put(old)
    assert play.why("s", "n") is not None
    play.gone(old)
    assert play.why("s", "n") is None


def test_of_two_gangs_that_hold_a_part_each_the_later_one_gives_way() -> None:
    play = GangPlay()
    first = play.begin(gang_pod("w0", **PORT), gang_pod("w1", **PORT))
    second = play.begin(gang_pod("x0", 9, application="b", **PORT), gang_pod("x1", 9, application="b", **PORT))
    play.place(first[0], "n")
    play.place(second[0], "m", "b")
    for key in (first[1], second[1]):
        assert [play.why(key, node) for node in ("n", "m")] == 2 * [HOST_PORT]
    effects = play.wait(11)
    assert [one.pod.uid for one in of(effects, e.DeletePod)] == [second[0]]
    play.gone(play.cluster.model.pods[second[0]].pod)
    assert play.why(first[1], "m") is None
    assert [ask.key.endswith("stand-in") for ask in of(effects, e.Ask)] == [True], "it is made again a while later"


def test_gangs_that_nobody_can_help_do_not_keep_others_from_being_helped() -> None:
    play = GangPlay()
    other: dict[str, Any] = json.loads(json.dumps(PORT).replace("80", "81"))
    play.put(*(b.bound(f"o-{node}", node, **other) for node in ("n", "m")))
    hopeless = [
        key
        for one in range(GANGS_MAX + 1)
        for key in play.begin(*(gang_pod(f"h{one}{two}", one, application=f"h{one}", **other) for two in "01"))
    ]
    first = play.begin(*(gang_pod(f"w{one}", 8, application="a", **PORT) for one in "01"))
    second = play.begin(*(gang_pod(f"x{one}", 9, application="b", **PORT) for one in "01"))
    play.place(first[0], "n")
    play.place(second[0], "m", "b")
    for key in (*hopeless, first[1], second[1]):
        assert [play.why(key, node) for node in ("n", "m")] == 2 * [HOST_PORT]
    effects = play.wait(25)
    assert [one.pod.uid for one in of(effects, e.DeletePod)] == [second[0]]


def test_no_gang_gives_way_for_one_whose_placeholders_are_not_all_there() -> None:
    play = GangPlay()
    three = {"minMember": 3}
    later = play.begin(*(gang_pod(f"x{one}", 9, three, application="b", **PORT) for one in "012"))
    play.place(later[0], "n", "b")
    play.place(later[1], "m", "b")
    effects = play.put(gang_pod("w0", **PORT), gang_pod("w1", **PORT))
    effects += play.tell(v.ApplicationAccepted(app("a")))
    to_come, there = map(made, of(effects, e.CreatePod))
    play.put(there)
    for key in (later[2], there.metadata.uid):
        assert [play.why(key, node) for node in ("n", "m")] == 2 * [HOST_PORT]
    assert of(play.wait(30), e.DeletePod) == []
    play.put(to_come)
    assert [play.why(to_come.metadata.uid, node) for node in ("n", "m")] == 2 * [HOST_PORT]
    assert sorted(one.pod.uid for one in of(play.wait(11), e.DeletePod)) == sorted(later[:2])


def test_no_gang_gives_way_for_one_that_would_not_be_complete_even_then() -> None:
    play = GangPlay()
    play.put(b.bound("o", "m", **PORT))
    first = play.begin(gang_pod("w0", **PORT), gang_pod("w1", **PORT))
    second = play.begin(gang_pod("x0", 9, application="b", **PORT), gang_pod("x1", 9, application="b", **PORT))
    play.place(second[0], "n", "b")
    for key in (*first, second[1]):
        assert [play.why(key, node) for node in ("n", "m")] == 2 * [HOST_PORT]
    assert of(play.wait(60), e.DeletePod) == []


def test_no_member_leaves_the_room_of_its_gang_while_another_one_could_not_go_elsewhere() -> None:
    play = GangPlay()
    first, second = play.begin(gang_pod("w0", **PORT), gang_pod("w1", **PORT))
    play.place(first, "n")
    play.place(second, "m")
    for name in ("n", "m"):
        play.put(b.node(name, {HOST: name}, unschedulable=True))
    play.put(b.node("k", {HOST: "k"}))
    assert play.why("w0", "n") is not None
    assert play.why("w0", "k") == leaving.STRANDS
    play.put(b.node("l", {HOST: "l"}))
    assert play.why("w0", "k") is None
    assert play.why("w1", "l") is None


def test_another_member_may_take_the_room_of_any_placeholder_that_is_left() -> None:
    play = GangPlay()
    play.put(b.node("k", {HOST: "k"}))
    keys = play.begin(*(gang_pod(f"w{number}", declared={"minMember": 3}, **PORT) for number in range(3)))
    for key, name in zip(keys, ("n", "m", "k"), strict=True):
        play.place(key, name)
    for name in ("n", "m"):
        play.put(b.node(name, {HOST: name}, unschedulable=True))
    play.put(b.node("l", {HOST: "l"}))
    assert play.why("w0", "l") == leaving.STRANDS, "one of the others has room on k, and the third none"
    play.put(b.node("o", {HOST: "o"}))
    assert play.why("w0", "l") is None
