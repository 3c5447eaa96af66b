"""Gangs that a new shim finds, and those that a new daemon is told of."""

from __future__ import annotations

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import annotated, app, node, placed
from tests.kubernetes.cluster.gang_play import (
    accepted,
    bound_here,
    made,
    member,
    placeholders,
    reserving,
    started,
    whole,
)
from tests.kubernetes.cluster.play import Play, of, own


def test_a_start_adopts_placeholders_and_deletes_others() -> None:
    first = started()
    pods = placeholders(first)
    bound = placed(pods[0], "n")
    status = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z"}]}
    bound = Pod(bound.metadata, bound.spec, convert(type(bound.status), status))
    play = Play()
    report = play.start(node(), member("w0"), member("w1"), bound, pods[1])
    (added,) = report.applications
    assert whole(added) == 2
    assert added.gang_began_s == 1_767_225_660
    ((existing,),) = [one.existing for one in report.nodes]
    assert (existing.task_group, existing.is_placeholder) == ("g", True)
    assert [ask.key for ask in report.asks] == [pods[1].metadata.uid, "w0", "w1"]
    orphan = Play().start(node(), bound, pods[1])
    assert {one.pod.uid for one in of(orphan.others, e.DeletePod)} == {one.metadata.uid for one in pods}
    assert orphan.applications == ()
    assert orphan.nodes[0].occupied["vcore"] == 1000


def of_yunikorn(name: str, owner: str) -> Pod:
    """A placeholder pod as YuniKorn makes it."""
    annotations = {"yunikorn.apache.org/task-group-name": "g", "internal.yunikorn.apache.org/placeholder": "true"}
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner}]
    labels = {"yunikorn.apache.org/app-id": "a"}
    return own(name, meta={"labels": labels, "annotations": annotations, "ownerReferences": owners})


def test_placeholders_of_yunikorn_are_adopted_if_a_pod_of_the_application_owns_them() -> None:
    play = Play()
    report = play.start(node(), member("w0"), member("w1"), of_yunikorn("tg-1", "w0"), of_yunikorn("tg-2", "other"))
    assert [(ask.key, ask.task_group) for ask in report.asks] == [("tg-1", "g")]
    assert [one.pod.uid for one in of(report.others, e.DeletePod)] == ["tg-2"]
    (created,) = of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod)
    assert created.name not in ("tg-1", "tg-2")


def test_a_placeholder_that_another_placeholder_owns_is_not_adopted() -> None:
    report = Play().start(node(), member("w0"), of_yunikorn("tg-1", "w0"), of_yunikorn("tg-2", "tg-1"))
    assert [one.pod.uid for one in of(report.others, e.DeletePod)] == ["tg-2"]


def test_a_gang_that_ran_before_the_start_makes_no_new_placeholders() -> None:
    play = Play()
    report = play.start(node(), bound_here(member("w0", members=5), "n"), member("w1", members=5))
    assert report.applications[0].placeholder_ask is None
    assert [ask.key for ask in report.asks] == ["w1"]
    assert of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod) == []


def test_members_say_that_they_were_bound_from_here() -> None:
    play, pods = reserving()
    (bind,) = of(play.allocate(pods[0].metadata.uid, "n"), e.Bind)
    assert bind.annotations is None, "nobody asks that of a placeholder"
    play.bind(pods[1].metadata.uid, "n")
    (bind,) = of(play.allocate("w0", "n"), e.Bind)
    assert bind.annotations == {"schedulerd.io/placed": "w0"}
    (bind,) = of(bind_again(play, "w0"), e.Bind)
    assert bind.annotations == {"schedulerd.io/placed": "w0"}
    play.put(own("plain"))
    (bind,) = of(play.allocate("plain", "n"), e.Bind)
    assert bind.annotations is None


def bind_again(play: Play, uid: str) -> list[e.Effect]:
    play.tell(v.BindEnded(uid, "n", v.BindResult.UNKNOWN))
    return play.wait(5)


COPY = annotated(placed(member("w0", members=3), "n"), {"schedulerd.io/placed": "another uid"})


@pytest.mark.parametrize("elsewhere", [placed(member("w0", members=3), "n"), COPY])
def test_a_gang_of_which_somebody_else_has_bound_a_member_starts_as_a_whole(elsewhere: Pod) -> None:
    """The shim before has made one placeholder of three, and the others are missing."""
    first = started()
    created = accepted(first, first.put(*(member(name, members=3) for name in ("w0", "w1", "w2"))))
    play = Play()
    report = play.start(node(), elsewhere, member("w1", members=3), member("w2", members=3), made(created[0]))
    assert whole(report.applications[0]) == 2
    assert [ask.key for ask in report.asks] == [made(created[0]).metadata.uid], "real pods wait for the other one"
    (again,) = of(
        play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Running", "")), e.CreatePod
    )
    assert [ask.key for ask in of(play.put(made(again)), e.Ask)] == [made(again).metadata.uid, "w1", "w2"]


@pytest.mark.parametrize("style", ["Soft", "Hard", "Requeue"])
def test_a_gang_of_which_somebody_else_has_bound_a_member_waits_no_longer_than_its_time(style: str) -> None:
    """Its pods go on without it, with every style."""
    play = Play()
    play.start(node(), placed(member("w0", style=style), "n"), member("w1", style=style))
    (created,) = of(
        play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Running", "")), e.CreatePod
    )
    play.tell(v.CreateEnded(app("a"), created.name, v.CreateResult.REFUSED, "exceeded quota"))
    assert of(play.wait(99), e.Ask) == []
    effects = play.wait(1)
    assert [ask.key for ask in of(effects, e.Ask)] == ["w1"]
    assert of(effects, e.RemoveApplication) == []
    assert of(effects, e.FailPod) == []


def test_a_member_whose_binding_is_under_way_is_none_that_somebody_else_has_bound() -> None:
    """The application is added again before the watch has told the binding."""
    play, pods = reserving()
    for pod in pods:
        play.bind(pod.metadata.uid, "n")
    play.allocate("w0", "n")
    play.tell(v.ApplicationUpdated(app("a"), "Completed", ""))
    assert of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod) == []


def test_a_member_that_runs_is_reported_when_its_application_is_added_again() -> None:
    play = started()
    play.put(placed(member("w0"), "n"))
    play.tell(v.ApplicationRejected(app("a"), "no queue"))
    play.tell(v.NodeRejected("n", "existingAllocations[0] (allocationKey 'w0'): no application", "w0"))
    effects = play.wait(60)
    (added,) = of(effects, e.AddApplication)
    (update,) = [one for one in of(effects, e.UpdateNode) if one.existing][-1:]
    assert added.tags["application.create.force"] == "true"
    assert [(one.key, one.task_group, one.is_placeholder) for one in update.existing] == [("w0", "g", False)]


def test_a_new_daemon_is_told_to_forget_what_only_has_placeholders_left() -> None:
    play, pods = reserving()
    play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Accepted", ""))
    for pod in pods:
        play.bind(pod.metadata.uid, "n")
        play.put(placed(pod, "n"))
    deleted = of(play.gone(member("w0"), member("w1")), e.DeletePod)
    assert len(deleted) == 2
    assert play.tell(v.Resynced()) == []
    effects = play.gone(*(placed(pod, "n") for pod in pods))
    assert effects[-1] == e.RemoveApplication(app("a"))
    assert play.cluster.model.applications == {}
