"""Pods of a gang come while its application id is still in use."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import app, node, placed, terminating
from tests.kubernetes.cluster.gang_play import bound_here, grouped, grouping, made, member, pod_group, started, whole
from tests.kubernetes.cluster.play import Play, of, own
from tests.unit.core.test_work import calls_during

KINDS = ["always", "none"]


def gang_of(prefix: str, members: int, kind: str) -> list[Pod]:
    return [member(f"{prefix}{number}", members=members, placeholders=kind) for number in range(members)]


def begun(play: Play, pods: list[Pod]) -> list[Pod]:
    """The gang of these pods is placed; the pods as they are then."""
    effects = play.put(*pods)
    (added,) = of(effects, e.AddApplication)
    name = added.application_id
    effects += play.tell(v.ApplicationAccepted(name), v.ApplicationUpdated(name, "Accepted", ""))
    creations = [made(one) for one in of(effects, e.CreatePod)]
    effects += play.put(*creations)
    there = {one.metadata.uid: one for one in creations}
    for key in [ask.key for ask in of(effects, e.Ask) if ask.is_placeholder]:
        play.tell(v.Allocated(name, key, f"u-{key}", "n"))
        if key in there:
            play.tell(v.BindEnded(key, "n", v.BindResult.DONE))
            play.put(placed(there[key], "n"))
        play.tell(v.ReleaseWanted(name, key, f"u-{key}", v.Cause.REPLACED, ""))
        if key in there:
            play.gone(placed(there[key], "n"))
    for pod in pods:
        play.bind(pod.metadata.uid, "n")
    running = [bound_here(pod, "n") for pod in pods]
    play.put(*running)
    play.tell(v.ApplicationUpdated(name, "Running", ""))
    assert all(play.cluster.model.pods[pod.metadata.uid].state is PodState.BOUND for pod in pods)
    return running


def said(play: Play, name: str) -> str:
    waiting = play.cluster.model.pods[name].reason.waiting
    return waiting.text if waiting is not None else ""


def asked(effects: list[e.Effect]) -> list[str]:
    return [ask.key for ask in of(effects, e.Ask) if not ask.is_placeholder]


def is_formed_anew(play: Play, name: str, members: int) -> None:
    """The application is removed, and added again with the room for its whole gang."""
    effects = play.wait(1)
    (added,) = of(effects, e.AddApplication)
    assert (added.application_id.name, whole(added)) == (name, members)
    effects += play.tell(v.ApplicationAccepted(added.application_id))
    held = len(of(effects, e.CreatePod)) + sum(ask.is_placeholder for ask in of(effects, e.Ask))
    assert held in (members, 0), "by placeholders, or by the daemon"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_gang_that_is_made_again_waits_until_the_pods_of_before_are_gone(kind: str, restarts: bool) -> None:
    play = started()
    old = [terminating(one) for one in begun(play, gang_of("old", 3, kind))]
    new = gang_of("new", 3, kind)
    play.put(*old)
    if restarts:
        play = Play()
        report = play.start(node(), *old, *new)
        assert of(report.asks, e.Ask) == []
        play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Running", ""))
    else:
        assert asked(play.put(*new)) == []
    told = "was used by pods that are being deleted: the pod waits until 3 pods have ended: old0, old1, old2"
    assert {said(play, one.metadata.name) for one in new} == {f"application 'a' {told}"}
    effects = [*play.gone(old[0]), *play.wait(1)]
    assert said(play, "new2").endswith("the pod waits until 2 pods have ended: old1, old2")
    effects += [*play.gone(old[1]), *play.wait(1)]
    assert asked(effects) == []
    effects = play.gone(old[2])
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication(app("a"))]
    is_formed_anew(play, "a", 3)


def test_a_pod_group_that_is_made_again_waits_too() -> None:
    play = grouping()
    play.put(pod_group(2))
    old = [terminating(one) for one in begun(play, [grouped("old0"), grouped("old1")])]
    play.put(*old)
    assert asked(play.put(grouped("new0"), grouped("new1"))) == []
    assert "old0, old1" in said(play, "new1")
    play.gone(*old)
    is_formed_anew(play, "podgroup.ns.pg", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_one_member_that_is_made_again_is_no_new_run(kind: str) -> None:
    play = started()
    old = begun(play, gang_of("old", 3, kind))
    play.put(terminating(old[0]))
    assert asked(play.put(member("new", members=3, placeholders=kind))) == ["new"]


@pytest.mark.parametrize("kind", KINDS)
def test_pods_that_have_ended_are_in_no_run(kind: str) -> None:
    play = started()
    old = begun(play, gang_of("old", 2, kind))
    for phase, one in zip(("Succeeded", "Failed"), old, strict=True):
        play.put(replace(one, status=replace(one.status, phase=phase)))
    play.put(*gang_of("new", 2, kind))
    is_formed_anew(play, "a", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_of_a_copied_id_waits_for_the_one_that_runs(kind: str) -> None:
    play = started()
    old = begun(play, gang_of("old", 2, kind))
    other = gang_of("new", 3, kind)
    assert asked(play.put(*other)) == []
    told = "has other task groups: the pod needs another application id, or waits until its pods have ended: old0, old1"
    assert {said(play, one.metadata.name) for one in other} == {f"application 'a' {told}"}
    play.put(*map(terminating, old))
    assert asked(play.wait(2)) == []
    play.gone(*old)
    is_formed_anew(play, "a", 3)


def test_a_gang_of_a_copied_id_waits_also_for_one_that_has_no_room_yet() -> None:
    play = started()
    play.put(*gang_of("old", 2, "none"))
    assert asked(play.put(*gang_of("new", 3, "none"))) == []
    assert said(play, "new0").endswith("until its pods have ended: old0, old1")
    effects = play.gone(*gang_of("old", 2, "none"))
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication(app("a"))]
    is_formed_anew(play, "a", 3)


@pytest.mark.parametrize(
    "more",
    [
        member("more", members=2, placeholders="none"),
        member("more", task_groups="", placeholders="none"),
        own("more", meta={"labels": {"applicationId": "a"}}),
    ],
    ids=["declares the same", "names a group", "declares none"],
)
def test_others_join_a_run_that_goes_on_and_wait_for_the_end_of_one_that_ends(more: Pod) -> None:
    play = started()
    old = begun(play, gang_of("old", 2, "none"))
    assert asked(play.put(more)) == ["more"]
    play.gone(more)
    play.put(*map(terminating, old))
    assert asked(play.put(more)) == []
    assert "are being deleted" in said(play, "more")


def test_a_pod_that_joins_a_gang_which_runs_is_told_that_it_does_so_alone() -> None:
    play = started()
    begun(play, gang_of("old", 2, "none"))
    effects = play.all_put(member("more", members=2, placeholders="none"))
    (event,) = of(effects, e.RecordEvent)
    assert (event.regarding.name, event.reason, event.is_warning) == ("more", "GangRuns", False)
    assert event.note.startswith("the gang of application 'a' runs already: the pod is placed by itself")
    effects = play.all_put(member("executor", task_groups="", placeholders="none"))
    assert of(effects, e.RecordEvent) == [], "workers that are made later name a task group only"


def test_a_run_of_which_a_pod_gets_a_node_after_all_goes_on() -> None:
    play = started()
    old = begun(play, gang_of("old", 2, "none"))
    play.put(member("late", members=2, placeholders="none"))
    play.put(*map(terminating, old))
    play.put(member("new", members=2, placeholders="none"))
    play.bind("late", "n")
    assert asked(play.put(bound_here(member("late", members=2, placeholders="none"), "n"))) == ["new"]


def test_workers_of_a_run_that_was_made_again_wait_for_the_pod_that_declares_their_gang() -> None:
    play = started()
    old = begun(play, gang_of("old", 2, "none"))
    play.gone(*old)
    worker = member("worker", task_groups="", placeholders="none")
    assert asked(play.put(worker)) == []
    assert "waits a few seconds" in said(play, "worker")
    play.put(member("driver", members=4, placeholders="none"))
    is_formed_anew(play, "a", 4)
    assert list(play.cluster.model.applications[app("a")].next_run) == []


def unnamed(pod: Pod) -> Pod:
    """It names no application."""
    return replace(pod, metadata=replace(pod.metadata, labels={"queue": "root.q"}))


def test_in_the_application_of_a_namespace_only_pods_of_gangs_wait() -> None:
    """A Deployment whose pods name no application replaces its only pod."""
    play = started()
    old = begun(play, [unnamed(one) for one in gang_of("old", 2, "none")])
    play.put(*map(terminating, old))
    assert asked(play.put(unnamed(own("plain")))) == ["plain"]
    assert asked(play.put(unnamed(member("new", placeholders="none")))) == []


def test_a_pod_that_waits_and_goes_leaves_nothing() -> None:
    play = started()
    play.put(*map(terminating, begun(play, gang_of("old", 2, "none"))))
    new = gang_of("new", 2, "none")
    play.put(*new)
    assert list(play.cluster.model.applications[app("a")].next_run) == ["new0", "new1"]
    play.gone(new[0])
    assert list(play.cluster.model.applications[app("a")].next_run) == ["new1"]


def test_the_end_of_a_pod_costs_the_same_however_many_wait_for_it() -> None:
    def calls(members: int) -> int:
        play = Play()
        play.start(node(cpu="1k", pods="1k"))
        old = [terminating(one) for one in begun(play, gang_of("old", members, "none"))]
        play.put(*old)
        play.put(*gang_of("new", members, "none"))
        play.gone(old[0])
        return calls_during(lambda: play.cluster.step(play.now_ns, (v.Gone(old[1]),)))

    once = calls(10)
    assert once > 10
    assert calls(100) <= once
