"""The pod that declares the task groups is seen after other pods of its application."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs import late_declaration
from schedulerd.kubernetes.cluster.model import Application, Model, OwnPod
from schedulerd.kubernetes.cluster.pod_lifecycle import PodState
from schedulerd.kubernetes.cluster.settings import SECOND_NS
from schedulerd.kubernetes.metadata.application_ids import ApplicationIds
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import JSON, app, node, placed, terminating
from tests.kubernetes.cluster.gang_play import accepted, conditions, made, member, started, whole
from tests.kubernetes.cluster.play import EPOCH_NS, Play, of, own

WAIT = "waits a few seconds for the pod that declares task group 'g' of application 'a'"


def executor(name: str = "x", app: str = "a", at: int = 0, group: str = "g", **spec: Any) -> Pod:
    """Names its task group, and declares none."""
    meta: JSON = {
        "labels": {"applicationId": app} if app else {},
        "annotations": {"yunikorn.apache.org/task-group-name": group} if group else {},
        "creationTimestamp": f"2026-01-01T00:00:{at:02}Z",
    }
    return own(name, meta=meta, **spec)


def driver(name: str = "d", **annotations: Any) -> Pod:
    return member(name, placeholders="none", **annotations)


def later(pod: Pod, **metadata: Any) -> Pod:
    """The pod is younger than all others."""
    about = replace(pod.metadata, creation_timestamp="2026-01-01T00:00:09Z", **metadata)
    return replace(pod, metadata=about)


def gated(pod: Pod) -> Pod:
    gates = executor("gated", schedulingGates=[{"name": "later"}]).spec.scheduling_gates
    return replace(pod, spec=replace(pod.spec, scheduling_gates=gates))


def test_a_member_waits_for_the_pod_that_declares_its_task_group() -> None:
    play = started()
    effects = play.all_put(executor())
    assert not of(effects, e.AddApplication)
    assert not of(effects, e.Ask)
    assert conditions(effects) == [("x", "SchedulingSkipped")]
    (patched,), (event,) = of(effects, e.PatchPodCondition), of(effects, e.RecordEvent)
    assert (event.reason, event.note, event.is_warning) == ("GangForming", patched.message, True)
    assert patched.message.startswith(WAIT)
    play.wait(2)
    effects = play.put(driver())
    (added,) = of(effects, e.AddApplication)
    assert whole(added) == 2
    asks = [(ask.key, ask.task_group, ask.is_originator) for ask in of(effects, e.Ask) if not ask.is_placeholder]
    assert sorted(asks) == [("d", "g", True), ("x", "g", False)]
    assert of(play.wait(60), e.Ask) == [], "it has waited"
    assert play.cluster.model.waiting_for_declaration == {}


def test_pods_of_others_that_declare_a_gang_are_looked_at_once_for_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    may_declare = late_declaration._may_declare

    def counting(model: Model, application: Application, own: OwnPod) -> bool:
        looked_at.append(own.uid)
        return may_declare(model, application, own)

    monkeypatch.setattr(late_declaration, "_may_declare", counting)
    play = started()
    play.put(*(of_user(gated(driver(f"d{number}")), "eve") for number in range(20)))
    assert of(play.put(*(of_user(executor(f"x{number}"), "bob") for number in range(20))), e.Ask) == []
    assert len(looked_at) == 20
    (added,) = of(play.put(of_user(driver("own"), "bob")), e.AddApplication)
    assert whole(added)


def test_without_that_pod_it_is_scheduled_without_a_gang_after_a_while() -> None:
    play = started()
    play.put(executor("x0"))
    play.wait(2)
    play.put(executor("x1", at=2))
    assert of(play.wait(2.9), e.Ask) == []
    effects = play.wait(0.1)
    (added,) = of(effects, e.AddApplication)
    assert not whole(added)
    assert [ask.key for ask in of(effects, e.Ask)] == ["x0", "x1"], "the application is there now, for both"
    effects = play.all_put(driver())
    assert [ask.key for ask in of(effects, e.Ask)] == ["d"]
    assert [one.reason for one in of(effects, e.RecordEvent)] == ["TaskGroupsError"], "too late"


def test_its_reason_shows_no_longer_when_it_is_one_of_its_gang() -> None:
    play = started()
    play.put(executor())
    effects = play.put(member("d"))
    pod = play.cluster.model.pods["x"]
    assert (pod.state, pod.reason.waiting) == (PodState.HELD, None)
    assert len(accepted(play, effects)) == 2


def test_what_comes_in_one_step_with_the_end_of_the_wait_is_not_too_late() -> None:
    """The clock is past the end, and no timer has rung: an event of the pod that waits, and then the declaration."""
    play = started()
    play.put(executor())
    play.now_ns += 6 * SECOND_NS
    effects = play.put(executor(priority=1), driver())
    assert whole(of(effects, e.AddApplication)[0]) == 2


def test_the_order_of_pods_that_come_late_does_not_matter() -> None:
    """The watch was cut off for longer than pods wait, and tells all of them now."""
    play = started()
    play.wait(60)
    effects = play.put(executor(), driver())
    assert whole(of(effects, e.AddApplication)[0]) == 2


def test_nobody_else_takes_the_application_in_the_step_in_which_the_wait_ends() -> None:
    play = started()
    play.put(of_user(executor(), "ann"))
    play.now_ns += 6 * SECOND_NS
    (added,) = of(play.put(later(of_user(executor("other", group=""), "bob"))), e.AddApplication)
    assert added.user == "ann"


@pytest.mark.parametrize(
    "pod",
    [
        executor(group=""),
        executor(app=""),
        own("x", meta={"labels": {"applicationId": "a"}, "annotations": {"schedulerd.io/placeholder": "false"}}),
    ],
)
def test_no_other_pod_waits(pod: Pod) -> None:
    assert [ask.key for ask in of(started().put(pod), e.Ask)] == ["x"]


def test_a_pod_that_is_not_new_does_not_wait() -> None:
    play = started()
    play.wait(5)
    assert [ask.key for ask in of(play.put(executor()), e.Ask)] == ["x"]


def test_an_application_that_is_there_is_joined_at_once() -> None:
    play = started()
    play.put(executor("plain", group=""))
    assert [ask.key for ask in of(play.put(executor()), e.Ask)] == ["x"]


def test_a_clock_that_is_behind_lets_it_wait_no_longer() -> None:
    play = started()
    assert of(play.put(executor(at=59)), e.Ask) == []
    assert [ask.key for ask in of(play.wait(5), e.Ask)] == ["x"]


def test_a_pod_that_goes_waits_no_longer() -> None:
    play = started()
    for gone in (executor("x0"), executor("x1")):
        play.put(gone)
        play.gone(gone)
    play.put(executor("x2"))
    play.put(terminating(executor("x2")))
    assert of(play.wait(60), e.AddApplication) == []
    play.gone(executor("x2"))
    model = play.cluster.model
    assert (model.waiting_for_declaration, model.declaring, model.applications) == ({}, {}, {})
    assert model.undeclared_for == {}


def test_a_declaration_by_a_pod_that_cannot_be_asked_for_yet_counts() -> None:
    play = started()
    held = gated(driver())
    assert of(play.put(held), e.Ask) == []
    effects = play.put(executor())
    assert whole(of(effects, e.AddApplication)[0]) == 2
    play.gone(held)
    assert play.cluster.model.declaring == {}


def test_the_first_pod_owns_the_placeholders_of_one_that_has_no_part_in_the_gang_yet() -> None:
    play = started()
    play.put(gated(member("d")))
    created = accepted(play, play.put(executor()))
    assert [owner["name"] for one in created for owner in one.body["metadata"]["ownerReferences"]] == ["x", "x"]
    play.put(member("d"))
    late = Play()
    late.start(node(), executor(), member("d"), made(created[0]))
    (again,) = of(late.tell(v.ApplicationAccepted(app("a"))), e.CreatePod)
    assert again.name == created[1].name, "a new shim finds them by their owner"


def test_a_pod_that_others_have_bound_makes_the_application_with_its_gang() -> None:
    play = started()
    play.put(gated(driver()))
    play.put(executor("waits", at=1))
    gang = play.cluster.model.applications[app("a")].gang
    assert gang is not None
    assert of(play.put(placed(executor(), "n")), e.AddApplication) == []


def test_members_that_wait_join_when_one_of_them_is_bound_by_somebody() -> None:
    play = started()
    play.put(executor("x0"), executor("x1"))
    effects = play.put(placed(executor("x0"), "n"))
    assert len(of(effects, e.AddApplication)) == 1
    assert [ask.key for ask in of(effects, e.Ask)] == ["x1"]


def test_the_order_of_the_lists_at_a_start_does_not_matter() -> None:
    pods = [driver("z-driver"), executor("a-executor"), executor("b-executor", group="other"), executor("c", group="")]
    reports = []
    for order in itertools.permutations(pods):
        report = Play().start(node(), *order)
        (added,) = report.applications
        assert whole(added) == 2
        reports.append(report)
    assert all(report == reports[0] for report in reports)


def test_the_age_of_the_pods_at_a_start_does_not_matter() -> None:
    play = Play()
    play.start(node(), executor(), later(driver()))
    own_gang = play.cluster.model.applications[app("a")].gang
    assert own_gang is not None
    assert own_gang.originator is play.cluster.model.pods["d"], "it owns the placeholders"


def test_a_member_that_ran_before_a_start_does_not_make_the_application_without_its_gang() -> None:
    report = Play().start(node(), placed(executor("x0"), "n"), executor("x1"), driver())
    assert whole(report.applications[0]) == 2, "the daemon counts the one that is there"


def test_an_old_pod_does_not_wait_at_a_start() -> None:
    play = Play()
    play.put(node(), executor())
    report = play.tell(v.Started(EPOCH_NS + 60_000_000_000))[0]
    assert isinstance(report, e.Recovery)
    assert [ask.key for ask in report.asks] == ["x"]


def test_nobody_declares_a_gang_for_the_application_of_a_namespace() -> None:
    """It has the pods of everybody in the namespace."""
    report = Play().start(node(), executor(app="", group=""), later(driver(), labels={}))
    (added,) = report.applications
    assert not whole(added)


BARE = ApplicationIds.BARE


def of_user(pod: Pod, user: str) -> Pod:
    annotations = {**(pod.metadata.annotations or {}), "schedulerd.io/user.info": f'{{"user": "{user}"}}'}
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


def of_others(pod: Pod) -> list[Pod]:
    return [later(pod, namespace="other"), later(of_user(pod, "bob"))]


@pytest.mark.parametrize("other", of_others(driver()))
@pytest.mark.parametrize("is_gated", [False, True])
def test_nobody_declares_a_gang_for_others(other: Pod, is_gated: bool) -> None:
    """Pods of another namespace, or of another user, that name the application wait for its end."""
    play = Play(application_ids=BARE)
    assert play.start(node(), of_user(executor(), "ann"), gated(other) if is_gated else other).applications == ()
    (added,) = of(play.wait(5), e.AddApplication)
    assert (added.tags["namespace"], added.user, whole(added)) == ("ns", "ann", 0)


@pytest.mark.parametrize("other", of_others(gated(driver("other"))))
def test_a_gang_that_others_declare_ends_no_wait(other: Pod) -> None:
    play = started(application_ids=BARE)
    play.put(other)
    assert of(play.put(of_user(executor(), "ann")), e.AddApplication) == []
    (added,) = of(play.put(of_user(driver(), "ann")), e.AddApplication)
    assert whole(added) == 2


@pytest.mark.parametrize("other", [*of_others(driver("other")), *of_others(executor("other"))])
def test_nobody_takes_an_application_whose_first_pod_waits(other: Pod) -> None:
    play = started(application_ids=BARE)
    play.put(of_user(executor(), "ann"))
    assert of(play.put(other), e.AddApplication) == []
    assert of(play.put(other), e.AddApplication) == [], "an event of the pod changes nothing"
    own_pod = play.cluster.model.pods["other"]
    assert own_pod.reason.waiting is not None
    assert own_pod.reason.waiting.text.startswith("application 'a' is one of")
    (added,) = of(play.put(of_user(driver(), "ann")), e.AddApplication)
    assert (added.user, whole(added)) == ("ann", 2)
    assert play.cluster.model.waiting_for_declaration == {}
    assert list(play.cluster.model.applications[app("a", "")].others) == ["other"]


OF_OTHER_NAMESPACE, OF_OTHER_USER = of_others(placed(executor("other"), "n"))


@pytest.mark.parametrize(
    ("other", "at_start"), [(OF_OTHER_NAMESPACE, False), (OF_OTHER_USER, False), (OF_OTHER_USER, True)]
)
def test_nobody_takes_it_with_a_pod_that_has_a_node(other: Pod, at_start: bool) -> None:
    play, mine = Play(application_ids=BARE), of_user(executor(), "ann")
    report = play.start(node(), *([mine, other] if at_start else []))
    effects = [*report.nodes, *play.put(*([] if at_start else [mine, other]))]
    assert play.cluster.model.applications == {}
    counted = [one.occupied for one in effects if isinstance(one, e.CreateNode | e.UpdateNode) and one.occupied]
    assert [used["pods"] for used in counted] == [1]
    effects = play.put(of_user(driver(), "ann"))
    (added,) = of(effects, e.AddApplication)
    assert (added.user, whole(added)) == ("ann", 2)
    joins = other.metadata.namespace == "ns"
    assert ("other" in play.cluster.model.applications[app("a", "")].pods) is joins
    assert [one.key for update in of(effects, e.UpdateNode) for one in update.existing] == ["other"] * joins


def test_a_pod_that_has_a_node_makes_it_when_the_one_that_waited_goes() -> None:
    play = started(application_ids=BARE)
    play.put(of_user(executor(), "ann"), OF_OTHER_USER)
    play.gone(of_user(executor(), "ann"))
    effects = play.wait(5)
    assert [one.user for one in of(effects, e.AddApplication)] == ["bob"]
    assert [one.key for update in of(effects, e.UpdateNode) for one in update.existing] == ["other"]
    assert play.cluster.model.waiting_for_declaration == {}


@pytest.mark.parametrize("other", of_others(driver("other")))
def test_an_application_is_free_when_the_pod_that_waited_goes(other: Pod) -> None:
    play = started(application_ids=BARE)
    play.put(of_user(executor(), "ann"), other)
    play.gone(of_user(executor(), "ann"))
    (added,) = of(play.wait(5), e.AddApplication)
    assert whole(added) == 2
    assert play.cluster.model.waiting_for_declaration == {}


def test_a_pod_that_leaves_without_having_run_declares_no_gang() -> None:
    play = started()
    play.put(terminating(driver("of an earlier run", members=5)))
    assert of(play.put(executor()), e.AddApplication) == []
    (added,) = of(play.put(driver()), e.AddApplication)
    assert whole(added) == 2


def test_no_pod_waits_in_an_application_of_its_own() -> None:
    assert [ask.key for ask in of(started(one_application_per_pod=True).put(executor(app="")), e.Ask)] == ["x"]
    assert [ask.key for ask in of(started().put(executor(app="a-uniqueautogen")), e.Ask)] == ["x"]
