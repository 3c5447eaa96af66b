"""Members of a gang that get nodes by others than the daemon, while the gang waits: what is held for them goes."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.gang_play import (
    accepted,
    conditions,
    grouped,
    grouping,
    made,
    member,
    placeholders,
    pod_group,
    started,
    with_one_bound,
)
from tests.kubernetes.cluster.play import Play, of
from tests.kubernetes.reasons.reader import FAILED


def virtual(name: str, members: int = 2, cpu: str = "1", **annotations: str) -> Pod:
    return member(name, members=members, cpu=cpu, placeholders="virtual", **annotations)


def held(play: Play) -> Counter[str]:
    """Virtual placeholders by task group."""
    return Counter(own.task_group for own in play.cluster.model.virtual.values())


def begin(*pods: Pod) -> tuple[Play, list[str]]:
    """A gang that waits, and the keys of its virtual placeholders."""
    play = started()
    asks = of(play.put(*pods), e.Ask)
    play.tell(v.ApplicationAccepted(app("a")))
    return play, [ask.key for ask in asks if ask.is_placeholder]


def test_a_placeholder_that_has_no_room_is_withdrawn_for_a_member_that_somebody_binds() -> None:
    play, (first, second) = begin(virtual("w0"), virtual("w1"))
    play.tell(v.Allocated(app("a"), first, "u", "n"))
    effects = play.put(placed(virtual("w0"), "n"))
    assert [one.key for one in of(effects, e.ReleaseAsk)] == ["w0", second]
    assert of(effects, e.ReleaseAllocation) == [], "the room that is held is for the other member"
    (update,) = of(effects, e.UpdateNode)
    assert [(one.key, one.task_group, one.is_placeholder) for one in update.existing] == [("w0", "g", False)]
    assert list(play.cluster.model.virtual) == [first]


def test_a_placeholder_that_holds_room_is_released_for_a_member_that_somebody_binds() -> None:
    play, keys = begin(virtual("w0"), virtual("w1"))
    for key in keys:
        play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
    (released,) = of(play.put(placed(virtual("w1"), "n")), e.ReleaseAllocation)
    assert released.key in keys
    assert held(play) == {"g": 1}
    (left,) = play.cluster.model.virtual
    play.tell(v.AllocationReleased(app("a"), released.key, released.uuid))
    assert play.tell(v.ReleaseWanted(app("a"), left, f"u-{left}", v.Cause.REPLACED, "")) == [
        e.ConfirmRelease(f"u-{left}")
    ]
    assert [type(one) for one in play.allocate("w0", "n")] == [e.Bind]
    assert held(play) == {}


def test_a_new_shim_holds_as_much() -> None:
    play, _ = begin(virtual("w0", 3), virtual("w1", 3), virtual("w2", 3))
    play.put(placed(virtual("w1", 3), "n"))
    later = Play()
    report = later.start(node(), virtual("w0", 3), placed(virtual("w1", 3), "n"), virtual("w2", 3))
    assert held(later) == held(play) == {"g": 2}
    assert report.applications[0].placeholder_ask == {"vcore": 2000, "pods": 2}
    assert later.put(placed(virtual("w1", 3), "n")) == [], "it counts once"
    assert held(later) == {"g": 2}


def test_a_member_that_is_created_with_its_node_is_one() -> None:
    play, keys = begin(virtual("w0"), virtual("w1"))
    effects = play.put(placed(virtual("w2"), "n"))
    assert [one.key for one in of(effects, e.ReleaseAsk)] == [keys[1]]


def test_a_pod_that_is_in_no_task_group_takes_nothing() -> None:
    play, _ = begin(virtual("w0"), virtual("w1"))
    play.put(placed(virtual("driver", task_group_name="other"), "n"))
    assert held(play) == {"g": 2}


def test_a_member_takes_one_only_once() -> None:
    play, keys = begin(virtual("w0", 3), virtual("w1", 3), virtual("w2", 3))
    for key in keys:
        play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
    play.tell(v.ReleaseWanted(app("a"), keys[0], f"u-{keys[0]}", v.Cause.REPLACED, ""))
    play.bind("w0", "n")
    play.put(placed(virtual("w0", 3), "n"))
    assert held(play) == {"g": 2}, "the daemon has taken it away"
    play.gone(node())
    play.put(node())
    assert held(play) == {"g": 2}, "it is reported as running when its node is back"
    play.put(placed(virtual("w1", 3), "n"))
    assert held(play) == {"g": 1}
    play.gone(node())
    play.put(node())
    assert held(play) == {"g": 1}


def test_a_swap_that_is_under_way_for_the_member_counts() -> None:
    play, keys = begin(virtual("w0"), virtual("w1"))
    for key in keys:
        play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
    play.tell(v.ReleaseWanted(app("a"), keys[0], f"u-{keys[0]}", v.Cause.REPLACED, ""))
    assert of(play.put(placed(virtual("w0"), "n")), e.ReleaseAllocation) == []
    assert list(play.cluster.model.virtual) == [keys[1]], "for the other member"


def test_a_swap_that_is_under_way_for_another_member_leaves_none_over() -> None:
    play, keys = begin(virtual("w0"), virtual("w1"))
    for key in keys:
        play.tell(v.Allocated(app("a"), key, f"u-{key}", "n"))
    (released,) = of(play.put(placed(virtual("w0"), "n")), e.ReleaseAllocation)
    # The daemon had begun to give that room to the other member.
    assert play.tell(v.ReleaseWanted(app("a"), released.key, released.uuid, v.Cause.REPLACED, "")) == [
        e.ConfirmRelease(released.uuid)
    ]
    (left,) = play.cluster.model.virtual
    effects = play.allocate("w1", "n")
    assert [one.key for one in of(effects, e.ReleaseAllocation)] == [left]
    assert held(play) == {}


def test_a_placeholder_that_was_rejected_is_not_asked_for_again() -> None:
    play, keys = begin(virtual("w0"), virtual("w1"))
    standing = next(iter(of(play.tell(v.AskRejected(app("a"), keys[0], "no")), e.Ask)))
    effects = play.put(placed(virtual("w0"), "n"))
    assert standing.key in [one.key for one in of(effects, e.ReleaseAsk)]
    assert list(play.cluster.model.virtual) == [keys[1]]
    assert of(play.wait(100), e.Ask) == []


def test_a_member_on_a_node_that_does_not_exist_counts_when_it_does() -> None:
    play, _ = begin(virtual("w0"), virtual("w1"))
    play.put(placed(virtual("w0"), "late"))
    assert held(play) == {"g": 2}, "as after a start"
    play.put(node("late"))
    assert held(play) == {"g": 1}


def test_a_member_that_is_deleted_leaves_its_placeholder_to_its_successor() -> None:
    play, keys = begin(virtual("w0"), virtual("w1"))
    assert [one.key for one in of(play.gone(virtual("w0")), e.ReleaseAsk)] == ["w0"]
    assert list(play.cluster.model.virtual) == keys
    assert [ask.task_group for ask in of(play.put(virtual("x0")), e.Ask)] == ["g"]


def test_none_comes_back_when_a_member_that_somebody_had_bound_ends() -> None:
    play, _ = begin(virtual("w0"), virtual("w1"))
    play.put(placed(virtual("w0"), "n"))
    effects = play.gone(placed(virtual("w0"), "n"))
    effects += play.put(virtual("x0"))
    assert not [ask for ask in of(effects, e.Ask) if ask.is_placeholder]
    assert held(play) == {"g": 1}


def test_what_the_placeholder_waited_for_shows_no_longer() -> None:
    play, (first, second) = begin(virtual("w0"), virtual("w1"))
    play.tell(v.Allocated(app("a"), first, "u", "n"))
    assert conditions(play.all(v.PendingReasonTold(app("a"), second, FAILED))) == [
        ("w0", "Unschedulable"),
        ("w1", "Unschedulable"),
    ]
    play.all_put(placed(virtual("w0"), "n"))
    assert play.cluster.model.pods["w1"].reason.shared is None


@pytest.mark.parametrize(("bound", "left"), [("old", "group-1"), ("middle", "group-0"), ("new", "group-0")])
def test_the_oldest_pods_of_a_pod_group_keep_theirs(bound: str, left: str) -> None:
    pods = {
        "old": grouped("old", at=1),
        "middle": grouped("middle", at=2, cpu="2"),
        "new": grouped("new", at=3),
    }
    play = grouping()
    play.put(node("n", cpu="8"), pod_group(2), *pods.values())
    assert held(play) == {"group-0": 1, "group-1": 1}
    play.put(placed(pods[bound], "n"))
    assert held(play) == {left: 1}
    later = Play()
    later.tell(v.GangSourceServed(GangSource.COSCHEDULING))
    later.start(node("n", cpu="8"), pod_group(2), *({**pods, bound: placed(pods[bound], "n")}.values()))
    sizes = [own.ask.resources["vcore"] for own in later.cluster.model.virtual.values() if own.ask is not None]
    assert sizes == [1000 if left == "group-0" else 2000], "a new shim holds for the same pods"


def test_a_placeholder_pod_is_deleted_for_a_member_that_somebody_binds() -> None:
    play, pods = with_one_bound()
    (deleted,) = of(play.put(placed(member("w0"), "n")), e.DeletePod)
    assert deleted.pod.uid == pods[1].metadata.uid, "the one without a node"
    play.gone(pods[1])
    assert of(play.wait(300), e.CreatePod) == []


def test_a_placeholder_pod_that_is_not_made_yet_is_not_made_for_a_member_that_somebody_binds() -> None:
    play = started()
    created = accepted(play, play.put(member("w0"), member("w1")))
    play.put(made(created[0]))
    effects = play.put(placed(member("w0"), "n"))
    assert [ask.key for ask in of(effects, e.Ask)] == ["w1"], "nothing is missing any longer"
    (deleted,) = of(play.put(made(created[1])), e.DeletePod)
    assert deleted.pod.name == created[1].name


def test_a_new_shim_deletes_a_placeholder_pod_for_a_member_that_was_bound_meanwhile() -> None:
    pods = placeholders(started())
    report = Play().start(node(), placed(member("w0"), "n"), member("w1"), *pods)
    assert [one.pod.uid for one in of(report.others, e.DeletePod)] == [pods[1].metadata.uid]
    assert report.applications[0].placeholder_ask == {"vcore": 1000, "pods": 1}


def grouping_of(*pods: Pod, members: int) -> tuple[Play, list[str]]:
    """A PodGroup that waits, and the keys of its placeholders."""
    play = grouping()
    play.put(node("n", cpu="8"), pod_group(members))
    asks = of(play.put(*pods), e.Ask)
    play.tell(v.ApplicationAccepted(app("podgroup.ns.pg")))
    return play, [ask.key for ask in asks if ask.is_placeholder]


def test_a_pod_group_that_lacks_a_pod_gives_its_room_back_until_it_has_one() -> None:
    play, keys = grouping_of(grouped("p0"), grouped("p1"), members=2)
    play.tell(v.Allocated(app("podgroup.ns.pg"), keys[0], "u", "n"))
    assert [one.key for one in of(play.gone(grouped("p1")), e.ReleaseAsk)] == ["p1"]
    assert of(play.wait(29), e.RemoveApplication) == []
    effects = play.wait(1)
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication(app("podgroup.ns.pg"))]
    assert {one.key for one in of(effects, e.ReleaseAsk)} == {"p0", keys[1]}, "they may be under way"
    assert held(play) == {}
    assert of(play.wait(60), e.AddApplication) == []
    shown = play.cluster.model.pods["p0"].reason.current
    assert shown is not None
    assert shown.text == "the gang of PodGroup 'pg' waits for its pods: 1 of 2 exist", "as after a start"
    effects = play.put(grouped("p2"))
    assert of(effects, e.AddApplication)[0].placeholder_ask == {"vcore": 2000, "pods": 2}
    assert held(play) == {"group-0": 2}


def test_a_gang_without_its_pod_group_that_lacks_a_pod_says_so() -> None:
    play, _ = grouping_of(grouped("p0"), grouped("p1"), members=2)
    play.gone(grouped("p1"), pod_group(2))
    play.wait(60)
    shown = play.cluster.model.pods["p0"].reason.current
    assert shown is not None
    assert shown.text == "PodGroup 'pg' not found", "as after a start"
    play.put(grouped("p2"))
    assert of(play.put(pod_group(2)), e.AddApplication)[0].placeholder_ask == {"vcore": 2000, "pods": 2}


def test_a_successor_takes_the_placeholder_of_a_pod_group() -> None:
    play, keys = grouping_of(grouped("p0"), grouped("p1"), members=2)
    play.gone(grouped("p1"))
    play.wait(20)
    assert [ask.task_group for ask in of(play.put(grouped("p2")), e.Ask)] == ["group-0"]
    assert of(play.wait(100), e.RemoveApplication) == []
    assert list(play.cluster.model.virtual) == keys


def test_a_pod_group_is_formed_anew_of_other_pods_that_were_there() -> None:
    play, _ = grouping_of(grouped("old", cpu="4", at=1), grouped("p1", at=2), grouped("p2", at=3), members=2)
    assert held(play) == {"group-0": 1, "group-1": 1}
    play.gone(grouped("old", cpu="4", at=1))
    effects = play.wait(31)
    assert of(effects, e.AddApplication)[0].placeholder_ask == {"vcore": 2000, "pods": 2}
    assert held(play) == {"group-0": 2}


def test_a_pod_group_that_runs_keeps_no_placeholder_that_no_pod_can_take() -> None:
    play, keys = grouping_of(grouped("p0"), grouped("p1"), grouped("p2"), members=3)
    for key in keys:
        play.tell(v.Allocated(app("podgroup.ns.pg"), key, f"u-{key}", "n"))
    play.tell(v.ApplicationUpdated(app("podgroup.ns.pg"), "Running", ""))
    play.tell(v.ReleaseWanted(app("podgroup.ns.pg"), keys[0], f"u-{keys[0]}", v.Cause.REPLACED, ""))
    play.bind("p0", "n")
    play.gone(grouped("p2"))
    effects = play.wait(30)
    assert of(effects, e.RemoveApplication) == []
    assert len(of(effects, e.ReleaseAllocation)) == 1
    assert held(play) == {"group-0": 1}, "for the pod that is left"


def test_a_member_that_ran_and_succeeded_unseen_is_one() -> None:
    play, _ = begin(virtual("w0", 3), virtual("w1", 3), virtual("w2", 3))
    for name, phase in (("w0", "Succeeded"), ("w1", "Failed")):
        ended = placed(virtual(name, 3), "n")
        play.put(Pod(ended.metadata, ended.spec, type(ended.status)(phase=phase)))
        assert held(play) == {"g": 2}, "one that has failed has a successor"


def test_a_pod_of_a_pod_group_that_succeeded_unseen_does_not_keep_its_own() -> None:
    old, middle = grouped("old", at=1), grouped("middle", at=2, cpu="2")
    play, _ = grouping_of(old, middle, grouped("new", at=3), members=2)
    ended = placed(old, "n")
    play.put(Pod(ended.metadata, ended.spec, type(ended.status)(phase="Succeeded")))
    assert held(play) == {"group-1": 1}


def test_a_pod_of_a_pod_group_that_went_with_an_unknown_node_has_no_placeholder_for_long() -> None:
    play, _ = grouping_of(grouped("p0"), grouped("p1"), members=2)
    play.put(placed(grouped("p1"), "unknown"))
    assert held(play) == {"group-0": 2}, "it counts when its node is known"
    play.gone(placed(grouped("p1"), "unknown"))
    assert of(play.wait(31), e.RemoveApplication) == [e.RemoveApplication(app("podgroup.ns.pg"))]
    assert held(play) == {}


def of_user(pod: Pod, user: str, second: int) -> Pod:
    annotations = {**(pod.metadata.annotations or {}), "schedulerd.io/user.info": f'{{"user": "{user}"}}'}
    created = f"2026-01-01T00:00:{second:02}Z"
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations, creation_timestamp=created))


@pytest.mark.parametrize("kind", ["virtual", "pods"])
def test_a_pod_of_another_user_takes_no_placeholder(kind: str) -> None:
    """It is created with its node, and names application and task group: it is in the application to be counted."""
    play = started()
    effects = play.put(*(of_user(member(name, placeholders=kind), "ann", 0) for name in ("w0", "w1")))
    accepted(play, effects)
    play.put(placed(of_user(member("other", placeholders=kind), "bob", 1), "n"))
    application = play.cluster.model.applications[app("a")]
    assert "other" in application.pods
    assert application.gang is not None
    assert [group.left for group in application.gang.groups.values()] == [2]


def test_a_new_shim_holds_as_much_beside_a_pod_of_another_user() -> None:
    play = Play()
    mine = [of_user(virtual(name, 3), "ann", 0) for name in ("w0", "w1", "w2")]
    play.start(node(), placed(mine[0], "n"), *mine[1:], placed(of_user(virtual("other", 3), "bob", 1), "n"))
    assert play.cluster.model.applications[app("a")].user.name == "ann"
    assert held(play) == {"g": 2}
