"""What makes pods a gang besides annotations of their own, and annotations that cannot be used."""

from __future__ import annotations

import json

import pytest

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.model import ALL_MEMBERS, GangSource
from schedulerd.kubernetes.metadata import gangs as metadata
from schedulerd.kubernetes.metadata.gangs import TaskGroup
from schedulerd.kubernetes.objects.decode import decode
from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import (
    CoschedulingPodGroup,
    GangPolicy,
    SchedulingPolicy,
    Workload,
    WorkloadGroup,
    WorkloadSpec,
)
from tests.kubernetes.builders import app, node, placed
from tests.kubernetes.cluster.gang_play import grouped, grouping, member, pod_group, started, whole
from tests.kubernetes.cluster.play import Play, of, own, the_ask


def test_pods_of_a_group_wait_for_it_and_for_each_other() -> None:
    play = grouping()
    assert play.put(grouped("p0")) == []
    assert of(play.put(pod_group(3)), e.AddApplication) == []
    play.put(grouped("p1", cpu="2"))
    effects = play.put(grouped("p2"), grouped("p3"))
    (added,) = of(effects, e.AddApplication)
    assert added.application_id == app("podgroup.ns.pg")
    assert (whole(added), added.gang_style) == (3, "Requeue")
    assert [(ask.key, ask.task_group, ask.is_placeholder) for ask in of(effects, e.Ask)] == [
        (f"p{number}", ALL_MEMBERS, False) for number in range(4)
    ]


def unreadable_group(text: str) -> CoschedulingPodGroup:
    body = {"metadata": {"name": "pg", "namespace": "ns"}, "spec": {"minMember": text}}
    return decode(CoschedulingPodGroup, json.dumps(body).encode())


def shown_by(play: Play, pod: str) -> str:
    waiting = play.cluster.model.pods[pod].reason.current
    return "" if waiting is None else waiting.text


def test_pods_of_a_group_that_cannot_be_read_say_why() -> None:
    play = grouping()
    play.put(grouped("p0"))
    assert shown_by(play, "p0") == "PodGroup 'pg' not found"
    play.put(unreadable_group("three"))
    why = "PodGroup 'pg' cannot be read: spec.minMember: Expected `int`, got `str`"
    assert shown_by(play, "p0") == why
    play.put(grouped("p1"))
    assert shown_by(play, "p1") == why
    assert play.all_put(unreadable_group("three")) == [], "nothing new is said"
    play.gone(unreadable_group("three"))
    play.put(grouped("p2"))
    assert shown_by(play, "p2") == "PodGroup 'pg' not found"
    assert of(play.put(pod_group(3)), e.AddApplication) != []


def test_pods_that_wait_for_others_say_that_their_group_cannot_be_read_any_longer() -> None:
    play = grouping()
    play.put(pod_group(3), grouped("p0"))
    play.put(unreadable_group("three"))
    assert shown_by(play, "p0").startswith("PodGroup 'pg' cannot be read: ")
    assert play.put(grouped("p1"), grouped("p2")) == []
    assert of(play.put(pod_group(3)), e.AddApplication) != []


def test_pods_that_wait_for_others_say_that_their_group_is_deleted() -> None:
    play = grouping()
    play.put(pod_group(3), grouped("p0"))

    def shown() -> str:
        return shown_by(play, "p0")

    assert shown() == "the gang of PodGroup 'pg' waits for its pods: 1 of 3 exist"
    play.gone(pod_group(3))
    assert shown() == "PodGroup 'pg' not found"
    play.put(grouped("p1"))
    assert of(play.put(pod_group(2)), e.AddApplication) != []


def test_annotations_of_a_gang_that_are_not_understood_are_told() -> None:
    play = started()
    effects = play.all_put(member("w0", style="Firm"), member("w1"))
    (event,) = of(effects, e.RecordEvent)
    assert (event.regarding.name, event.reason) == ("w0", "GangAnnotation")
    assert event.note == "not understood, and ignored: schedulingPolicyParameters 'gangSchedulingStyle=Firm'"


def test_without_the_custom_resource_the_label_means_nothing() -> None:
    effects = started().put(grouped("p0"))
    assert of(effects, e.AddApplication)[0].placeholder_ask is None
    assert [ask.key for ask in of(effects, e.Ask)] == ["p0"]


def test_a_workload_of_kubernetes_makes_a_gang_of_each_replica() -> None:
    play = grouping(GangSource.KUBERNETES)
    policy = SchedulingPolicy(GangPolicy(min_count=2))
    groups = (WorkloadGroup("workers", policy), WorkloadGroup("single"))
    play.put(Workload(own("w").metadata, WorkloadSpec(groups)))

    def pod(name: str, group: str, replica: str = "") -> Pod:
        return own(name, workloadRef={"name": "w", "podGroup": group, "podGroupReplicaKey": replica})

    assert of(play.put(pod("a0", "workers", "0"), pod("b0", "workers", "1")), e.AddApplication) == []
    (added,) = of(play.put(pod("a1", "workers", "0")), e.AddApplication)
    assert whole(added) == 2
    (single,) = of(play.put(pod("s", "single")), e.AddApplication)
    assert single.placeholder_ask is None


def test_a_member_of_a_pod_group_that_is_resized_stays_in_its_task_group() -> None:
    play = grouping(GangSource.COSCHEDULING)
    play.put(node("n", cpu="8"), pod_group(2))
    effects = play.put(grouped("w0"), grouped("w1", at=1))
    assert {ask.task_group for ask in of(effects, e.Ask)} == {ALL_MEMBERS}
    play.bind("w0", "n")
    ask = the_ask(play.put(placed(grouped("w0", cpu="3"), "n")))
    assert (ask.key, ask.task_group, ask.resources["vcore"]) == ("w0", ALL_MEMBERS, 3000)


def test_unusable_task_groups_run_or_wait() -> None:
    play = started()
    unusable = {"schedulerd.io/task-groups": "[]"}
    effects = play.all(v.Put(own("runs", meta={"annotations": unusable})))
    assert [ask.key for ask in of(effects, e.Ask)] == ["runs"]
    assert [one.reason for one in of(effects, e.RecordEvent)] == ["TaskGroupsError"]
    assert [one.type for one in of(effects, e.PatchPodCondition)] == ["schedulerd.io/Gang"]
    unusable["schedulerd.io/on-invalid-gang"] = "fail"
    effects = play.all(v.Put(own("waits", meta={"annotations": unusable})))
    assert of(effects, e.Ask) == []
    assert {one.type for one in of(effects, e.PatchPodCondition)} == {"schedulerd.io/Gang", "PodScheduled"}


def test_unusable_task_groups_are_read_for_their_own_pod_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be long, and so many that each other pod of the application would hold up the loop."""
    read: list[ObjectMeta] = []
    task_groups = metadata.task_groups

    def counting(about: ObjectMeta, members_max: int) -> tuple[TaskGroup, ...]:
        read.append(about)
        return task_groups(about, members_max)

    monkeypatch.setattr(metadata, "task_groups", counting)
    play, labels = started(), {"labels": {"applicationId": "a"}}
    unusable = {**labels, "annotations": {"schedulerd.io/task-groups": "[]"}}
    play.put(*(own(f"gated{number}", meta=unusable, schedulingGates=[{"name": "g"}]) for number in range(10)))
    assert len(read) == 10
    assert [ask.key for ask in of(play.put(own("p", meta=labels)), e.Ask)] == ["p"]
    assert len(read) <= 11


def test_task_groups_that_come_too_late_are_told() -> None:
    play = started()
    play.put(own("first", meta={"labels": {"applicationId": "a"}}))
    effects = play.all(v.Put(member("w0")))
    assert [ask.task_group for ask in of(effects, e.Ask)] == [""]
    (event,) = of(effects, e.RecordEvent)
    assert (event.reason, event.is_warning) == ("TaskGroupsError", True)
