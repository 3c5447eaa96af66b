"""Gangs in the state machine, event by event."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.model import ApplicationState
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import app, containers, node, placed, terminating
from tests.kubernetes.cluster.gang_play import (
    accepted,
    conditions,
    made,
    member,
    placeholders,
    reserving,
    started,
    whole,
    with_one_bound,
)
from tests.kubernetes.cluster.play import Play, of, own, the_ask


def test_real_pods_are_asked_for_when_all_placeholders_are() -> None:
    play = started()
    effects = play.put(member("w0"), member("w1"))
    (added,) = of(effects, e.AddApplication)
    assert whole(added) == 2
    assert (added.gang_style, added.gang_timeout_s) == ("Soft", 100)
    assert of(effects, e.CreatePod) == [], "not before the daemon has accepted the application"
    created = accepted(play, effects)
    assert len({one.name for one in created}) == 2
    assert of(effects, e.Ask) == []
    first = the_ask(play.put(made(created[0])))
    assert (first.task_group, first.is_placeholder) == ("g", True)
    asks = of(play.put(made(created[1])), e.Ask)
    assert [ask.key for ask in asks] == [f"{created[1].name}!", "w0", "w1"]
    assert [(ask.task_group, ask.is_placeholder, ask.is_originator) for ask in asks[1:]] == [
        ("g", False, True),
        ("g", False, False),
    ]


def test_long_task_groups_are_copied_neither_to_placeholders_nor_to_the_application() -> None:
    """4,000 placeholder pods with 120 kB each had been more than a kube-apiserver could hold in 12 GB."""
    play = started()
    groups = [{"name": f"g{number}", "minMember": 1, "minResource": {"cpu": "1"}} for number in range(1_000)]
    declared = {"schedulerd.io/task-groups": json.dumps(groups), "schedulerd.io/task-group-name": "g0"}
    effects = play.put(own("w0", meta={"labels": {"applicationId": "a"}, "annotations": declared}))
    (added,) = of(effects, e.AddApplication)
    assert added.placeholder_ask == {"vcore": 1_000_000, "pods": 1_000}
    assert sum(len(text) for text in added.tags.values()) < 1_000, "the daemon rejects applications with too long tags"
    created = accepted(play, effects)
    assert len(created) == 1_000
    assert max(len(json.dumps(one.body)) for one in created) < 2_000


@pytest.mark.parametrize(
    ("requests", "containers"),
    [
        ([{"cpu": "400m", "memory": "1Gi"}, {"cpu": "0.6"}], [{"cpu": "400m"}, {"cpu": "0.6"}]),
        ([{"cpu": "400m"}, {"cpu": "1"}], [{"cpu": "1"}]),
        ([{"cpu": "1"}], [{"cpu": "1"}]),
        ([{"cpu": "1"}, {}], [{"cpu": "1"}, {}]),
        ([{"cpu": "50m"}] * 21, [{"cpu": "1"}]),
    ],
)
def test_a_placeholder_has_the_containers_of_a_member_as_a_limit_range_is_about_each(
    requests: list[dict[str, str]], containers: list[dict[str, str]]
) -> None:
    play = started()
    pod = member("p")
    parts = [{"name": f"c{number}", "resources": {"requests": one}} for number, one in enumerate(requests)]
    play.put(replace(pod, spec=own("p", containers=parts).spec))
    created = of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod)
    made_of = [one["resources"]["requests"] for one in created[0].body["spec"]["containers"]]
    assert made_of == containers


def test_an_autoscaler_may_remove_nodes_with_placeholders() -> None:
    play = Play()
    play.start(node("n"))
    play.put(member("p"))
    created = of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod)
    said = {one.body["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] for one in created}
    assert said == {"true"}


def test_task_groups_without_any_minimum_are_no_gang() -> None:
    play = started()
    (added,) = of(effects := play.put(member("w0", members=0)), e.AddApplication)
    assert (whole(added), the_ask(effects).key) == (0, "w0")


def test_pods_of_a_group_without_a_minimum_run_when_the_gang_does() -> None:
    group = {"minResource": {"cpu": "1"}}
    groups = json.dumps([{**group, "name": "head", "minMember": 1}, {**group, "name": "workers", "minMember": 0}])

    def of_group(name: str, group: str) -> Pod:
        said = {
            "schedulerd.io/task-groups": groups,
            "schedulerd.io/task-group-name": group,
            "schedulerd.io/placeholders": "always",
        }
        return own(name, meta={"labels": {"applicationId": "a"}, "annotations": said})

    play = Play()
    play.start(node("n"))
    play.put(of_group("head", "head"), of_group("worker", "workers"))
    (created,) = of(play.tell(v.ApplicationAccepted(app("a"))), e.CreatePod)
    asks = of(play.put(made(created)), e.Ask)
    assert {(ask.key, ask.task_group) for ask in asks if not ask.is_placeholder} == {("head", "head"), ("worker", "")}


def test_a_placeholder_is_asked_for_with_the_size_that_the_server_returned() -> None:
    play = started()
    (created, _) = accepted(play, play.put(member("w0"), member("w1")))
    pod = made(created)
    sidecar = convert(Pod, {"spec": {"containers": containers({"cpu": "1"}, {"cpu": "200m"})}}).spec.containers
    spec = {field: getattr(pod.spec, field) for field in pod.spec.__struct_fields__}
    larger = Pod(pod.metadata, type(pod.spec)(**{**spec, "containers": sidecar}), pod.status)
    assert the_ask(play.put(larger)).resources["vcore"] == 1200


def test_a_placeholder_is_deleted_for_its_pod_and_confirmed_when_it_is_gone() -> None:
    play, pods = reserving()
    key = pods[0].metadata.uid
    play.bind(key, "n")
    bound = placed(pods[0], "n")
    play.put(bound)
    (deleted,) = play.tell(v.ReleaseWanted(app("a"), key, f"u-{key}", v.Cause.REPLACED, ""))
    assert deleted == e.DeletePod(e.PodName("ns", pods[0].metadata.name, key))
    effects = play.gone(terminating(bound))
    assert effects[0] == e.ConfirmRelease(f"u-{key}")
    assert of(effects, e.CreatePod) == []
    assert of(play.wait(300), e.CreatePod) == []
    (bind,) = play.allocate("w0", "n")
    assert isinstance(bind, e.Bind)


def test_a_replaced_placeholder_that_somebody_binds_meanwhile_is_not_made_again() -> None:
    play = started()
    play.put(node("n2"))
    play.tell(v.NodeAccepted("n2"))
    pods = placeholders(play)
    play.put(*pods)
    key = pods[0].metadata.uid
    play.allocate(key, "n")
    play.tell(v.ReleaseWanted(app("a"), key, f"u-{key}", v.Cause.REPLACED, ""))
    elsewhere = placed(pods[0], "n2")
    assert e.ConfirmRelease(f"u-{key}") in play.put(elsewhere)
    play.gone(terminating(elsewhere))
    assert of(play.wait(300), e.CreatePod) == []


def test_a_refused_creation_is_told_and_tried_again_until_the_time_is_over() -> None:
    play = started()
    created = accepted(play, play.put(member("w0"), member("w1")))
    play.put(made(created[0]))
    refused = v.CreateEnded(app("a"), created[1].name, v.CreateResult.REFUSED, "exceeded quota")
    effects = play.all(refused)
    (event,) = of(effects, e.RecordEvent)[:1]
    assert (event.reason, event.regarding.name, event.is_warning) == ("PlaceholderCreateFailed", "w0", True)
    assert conditions(effects) == [("w0", "SchedulingSkipped"), ("w1", "SchedulingSkipped")]
    assert all("exceeded quota" in one.message for one in of(effects, e.PatchPodCondition))
    tries, asks = 0, []
    for _ in range(101):
        effects = play.wait(1)
        asks += of(effects, e.Ask)
        for _ in of(effects, e.CreatePod):
            tries += 1
            asks += of(play.tell(refused), e.Ask)
    assert 5 <= tries <= 8
    assert [ask.key for ask in asks] == ["w0", "w1"], "Soft: they go on without the gang"
    assert all(ask.task_group == "g" for ask in asks)


def test_what_has_the_name_of_a_placeholder_is_looked_at() -> None:
    play = started()
    created, other = accepted(play, play.put(member("w0"), member("w1")))
    ended = made(created)
    ended = Pod(ended.metadata, ended.spec, type(ended.status)(phase="Failed"))
    exists = v.CreateResult.EXISTS
    (deleted,) = play.tell(v.CreateEnded(app("a"), created.name, exists, "", ended))
    assert isinstance(deleted, e.DeletePod)
    assert deleted.pod.uid == ended.metadata.uid
    assert play.tell(v.CreateEnded(app("a"), other.name, exists, "", terminating(made(other)))) == []
    again = of(play.wait(1), e.CreatePod)
    assert [one.name for one in again] == [created.name, other.name]
    foreign = own(created.name)
    effects = play.all(v.CreateEnded(app("a"), created.name, exists, "", foreign))
    assert any("is none of this gang" in one.note for one in of(effects, e.RecordEvent))
    assert of(effects, e.DeletePod) == []
    assert play.tell(v.CreateEnded(app("a"), other.name, exists, "", made(other))) == [], "the watch tells it"
    assert [one.name for one in of(play.wait(5), e.CreatePod)] == [created.name]


def test_the_last_pod_takes_all_placeholders_with_it() -> None:
    play = started()
    pods = placeholders(play)
    play.put(pods[0])
    play.gone(member("w1"))
    effects = play.gone(member("w0"))
    assert of(effects, e.DeletePod) == [e.DeletePod(e.PodName("ns", pods[0].metadata.name, pods[0].metadata.uid))]
    assert of(effects, e.RemoveApplication) == [e.RemoveApplication(app("a"))]
    late = play.put(pods[1])
    assert of(late, e.DeletePod) == [e.DeletePod(e.PodName("ns", pods[1].metadata.name, pods[1].metadata.uid))]
    assert of(late, e.Ask) == []


def test_a_pod_that_comes_while_the_placeholders_of_its_gang_go_reserves_anew() -> None:
    play, pods = with_one_bound()
    assert len(of(play.gone(member("w0"), member("w1")), e.DeletePod)) == len(pods)
    created = of(play.put(member("w2")), e.CreatePod)
    assert len(created) == len(pods)
    assert {one.name for one in created}.isdisjoint(one.metadata.name for one in pods)


def test_the_next_gang_of_an_id_waits_for_the_withdrawals_of_the_one_before() -> None:
    """The daemon may hear of the new application before it has heard of the asks of the old one."""
    play = started()
    play.put(member("w0", placeholders="none"), member("w1", placeholders="none"))
    assert of(play.gone(member("w0"), member("w1")), e.RemoveApplication) == [e.RemoveApplication(app("a"))]
    assert play.put(member("w2", placeholders="none"), member("w3", placeholders="none")) == []
    assert play.wait(0.9) == []
    effects = play.wait(0.2)
    assert [one.application_id for one in of(effects, e.AddApplication)] == [app("a")]
    assert [ask.key for ask in of(effects, e.Ask)] == ["w2", "w3"]
    assert play.cluster.model.gangs_removed == {}


def test_an_id_whose_gang_was_removed_long_ago_is_remembered_no_longer() -> None:
    play = started()
    play.put(member("w0"))
    play.gone(member("w0"))
    assert list(play.cluster.model.gangs_removed) == [app("a")]
    play.wait(2)
    other = own("o", meta={**msgspec.to_builtins(member("o").metadata), "labels": {"applicationId": "b"}})
    play.put(other)
    play.gone(other)
    assert list(play.cluster.model.gangs_removed) == [app("b")]


def test_hard_pods_fail_once_and_successors_wait() -> None:
    play = started()
    pods = placeholders_of(play, "Hard")
    effects = fail(play)
    failed = of(effects, e.FailPod)
    assert [one.pod.name for one in failed] == ["w0", "w1"]
    assert {one.reason for one in failed} == {"ResourceReservationTimeout"}
    play.gone(*pods, member("w0", style="Hard"), member("w1", style="Hard"))
    assert play.put(member("x0", style="Hard"), member("x1", style="Hard")) == []
    assert of(play.wait(59), e.AddApplication) == []
    again = play.wait(2)
    assert len(of(again, e.AddApplication)) == 1
    for one in accepted(play, again):
        play.put(made(one))
    assert of(fail(play), e.FailPod) == [], "only once"
    assert of(play.wait(119), e.AddApplication) == []
    assert len(of(play.wait(2), e.AddApplication)) == 1


def placeholders_of(play: Play, style: str) -> list[Pod]:
    created = accepted(play, play.put(member("w0", style=style), member("w1", style=style)))
    pods = [made(one) for one in created]
    play.put(*pods)
    return pods


def fail(play: Play) -> list[e.Effect]:
    """The time of the gang is over at the daemon."""
    effects = play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Accepted", ""))
    effects += play.tell(v.ApplicationUpdated(app("a"), "Failing", "no room"))
    return effects + play.tell(v.ApplicationUpdated(app("a"), "Failed", "no room"))


def test_a_soft_gang_that_the_daemon_gives_up_gives_its_placeholders_back() -> None:
    play, pods = reserving()
    play.tell(v.ApplicationAccepted(app("a")))
    effects = play.tell(v.ApplicationUpdated(app("a"), "Resuming", "no room"))
    assert {one.pod.uid for one in of(effects, e.DeletePod)} == {pod.metadata.uid for pod in pods}
    play.gone(*pods)
    assert of(play.wait(100), e.CreatePod) == [], "and none is made again"


def test_requeued_pods_wait_twice_as_long_each_time() -> None:
    play = started()
    placeholders_of(play, "Requeue")
    seconds = 60
    for _ in range(7):
        effects = fail(play)
        assert of(effects, e.FailPod) == []
        assert len(of(effects, e.DeletePod)) == 2
        for pod in list(play.cluster.model.pods.values()):
            if pod.is_placeholder:
                play.gone(pod.pod)
        assert play.cluster.model.applications[app("a")].state is ApplicationState.WAITING
        assert of(play.wait(seconds - 1), e.AddApplication) == []
        again = play.wait(2)
        assert len(of(again, e.AddApplication)) == 1
        for one in accepted(play, again):
            play.put(made(one))
        seconds = min(2 * seconds, 1800)


def test_a_member_or_placeholder_that_is_resized_stays_in_its_task_group() -> None:
    play, (pod, other) = reserving()
    for one in (pod, other):
        play.bind(one.metadata.uid, "n")
    larger = msgspec.structs.replace(placed(pod, "n").spec, containers=own("x", cpu="2").spec.containers)
    ask = the_ask(play.put(msgspec.structs.replace(pod, spec=larger)))
    assert (ask.key, ask.task_group, ask.is_placeholder, ask.resources["vcore"]) == (pod.metadata.uid, "g", True, 2000)
    play.bind("w0", "n")
    ask = the_ask(play.put(placed(member("w0", cpu="3"), "n")))
    assert (ask.key, ask.task_group, ask.is_placeholder, ask.resources["vcore"]) == ("w0", "g", False, 3000)


def test_a_gang_that_the_daemon_rejects_waits_with_its_reason() -> None:
    play = started()
    assert of(play.put(member("w0"), member("w1")), e.CreatePod) == []
    effects = play.all(v.ApplicationRejected(app("a"), "the gang could never be placed"))
    assert [(one.regarding.name, one.reason) for one in of(effects, e.RecordEvent)] == [
        ("w0", "ApplicationRejected"),
        ("w1", "ApplicationRejected"),
    ]
    assert of(effects, e.CreatePod) == []
    effects = play.wait(61)
    assert len(of(effects, e.AddApplication)) == 1
    assert len(accepted(play, effects)) == 2


def test_a_gang_with_more_members_than_the_setting_runs_without_a_gang() -> None:
    play = started(gang_members_max=2)
    effects = play.all_put(member("w0", members=3))
    (event,) = [one for one in of(effects, e.RecordEvent) if one.reason == "TaskGroupsError"]
    assert event.note == "the task groups cannot be used: more than 2 members"
    assert (the_ask(effects).key, accepted(play, effects)) == ("w0", [])


def test_a_placeholder_pod_that_comes_too_late_for_its_gang_is_deleted() -> None:
    play = started()
    created = accepted(play, play.put(member("w0"), member("w1")))
    play.tell(v.ApplicationUpdated(app("a"), "Failed", "no"))
    (deleted,) = of(play.put(made(created[0])), e.DeletePod)
    assert deleted.pod.name == created[0].name


def test_an_application_that_has_completed_is_added_at_once_if_a_pod_of_it_runs() -> None:
    play = started()
    play.put(member("w0", placeholders="none"))
    play.tell(v.ApplicationAccepted(app("a")), v.ApplicationUpdated(app("a"), "Running", ""))
    play.put(placed(member("w0", placeholders="none"), "n"))
    play.put(member("w1", placeholders="none"))
    effects = play.tell(v.ApplicationUpdated(app("a"), "Completed", ""))
    assert of(effects, e.ReleaseAsk)
    assert len(of(effects, e.AddApplication)) == 1
