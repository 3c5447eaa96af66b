"""What gangs wish beside their size: a topology, to be preempted as a whole, a greatest number, a priority of all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from schedulerd.kubernetes.cluster import effects as e
from schedulerd.kubernetes.cluster import events as v
from schedulerd.kubernetes.cluster.gangs.model import GangSource
from schedulerd.kubernetes.metadata.gangs import InvalidGang, task_groups
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.kubernetes.objects.pod import Pod
from schedulerd.kubernetes.objects.pod_groups import GroupCondition, PodGroup, PodGroupStatus
from tests.kubernetes.builders import node, placed
from tests.kubernetes.cluster.gang_play import grouped, grouping, member, pod_group, started
from tests.kubernetes.cluster.play import Play, of, own
from tests.kubernetes.reasons.reader import FAILED

REQUIRED = {"schedulerd.io/topology-required": "rack"}


def declared(effects: list[e.Effect]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The tags of the application, and its task groups."""
    (added,) = of(effects, e.AddApplication)
    return dict(added.tags), json.loads(added.tags["schedulerd.io/task-groups"])


def scheduling_group(**spec: Any) -> PodGroup:
    policy = {"gang": {"minCount": 2}}
    return convert(
        PodGroup, {"metadata": {"name": "pg", "namespace": "ns"}, "spec": {"schedulingPolicy": policy, **spec}}
    )


def of_scheduling_group(name: str) -> Pod:
    return own(name, schedulingGroup={"podGroupName": "pg"})


def with_scheduling_group(group: PodGroup) -> Play:
    play = grouping(GangSource.KUBERNETES)
    play.put(group)
    return play


def test_a_pod_group_of_kubernetes_says_topology_disruption_and_priority() -> None:
    wishes = {"schedulingConstraints": {"topology": [{"key": "rack"}]}, "disruptionMode": "PodGroup", "priority": 7}
    play = with_scheduling_group(scheduling_group(**wishes))
    effects = play.put(of_scheduling_group("p0"), of_scheduling_group("p1"))
    tags, groups = declared(effects)
    assert tags.items() >= {**REQUIRED, "schedulerd.io/disruption": "gang"}.items()
    assert groups == [{"name": "members", "min": 2}]
    assert [ask.priority for ask in of(effects, e.Ask)] == [7, 7]


def test_fields_whose_gate_is_off_are_not_there() -> None:
    play = with_scheduling_group(scheduling_group())
    effects = play.put(of_scheduling_group("p0"), of_scheduling_group("p1"))
    tags, _ = declared(effects)
    assert not [name for name in tags if "topology" in name or "disruption" in name]
    assert [ask.priority for ask in of(effects, e.Ask)] == [0, 0]


def test_a_pod_group_without_a_gang_counts_with_its_priority_too() -> None:
    play = with_scheduling_group(scheduling_group(schedulingPolicy={"basic": {}}, priority=3))
    assert [ask.priority for ask in of(play.put(of_scheduling_group("p0")), e.Ask)] == [3]


@pytest.mark.parametrize(
    ("annotation", "tag"),
    [
        ("kueue.x-k8s.io/podset-required-topology", "schedulerd.io/topology-required"),
        ("kueue.x-k8s.io/podset-preferred-topology", "schedulerd.io/topology-preferred"),
        ("schedulerd.io/topology-preferred", "schedulerd.io/topology-preferred"),
    ],
)
def test_annotations_of_pods_say_it(annotation: str, tag: str) -> None:
    play = grouping()
    play.put(pod_group(1))
    pod = grouped("p0")
    annotated = own("p0", meta={"labels": pod.metadata.labels, "annotations": {annotation: "rack"}})
    assert declared(play.put(annotated))[0][tag] == "rack"


def test_a_gang_with_a_topology_has_no_placeholder_pods_unless_it_has_to() -> None:
    play = started()
    first = member("w0", 3, placeholders="pods", topology_required="rack")
    tags, (group,) = declared(play.put(first))
    assert tags["schedulerd.io/topology-required"] == "rack"
    assert (group["min"], group["resources"]["vcore"]) == (3, 1000)
    assert (
        of(play.tell(v.ApplicationAccepted(play.cluster.model.pods["w0"].metadata.application_id)), e.CreatePod) == []
    )
    forced = started()
    (added,) = of(forced.put(member("w0", 3, placeholders="always", topology_required="rack")), e.AddApplication)
    assert added.placeholder_ask == {"vcore": 3000, "pods": 3}
    assert added.tags["schedulerd.io/topology-required"] == "rack"


def groups_of(**more: Any) -> str:
    return json.dumps([{"name": "g", "minMember": 2, "minResource": {"cpu": "1"}, **more}])


def test_a_task_group_says_its_greatest_number_and_its_topology() -> None:
    play = started()
    text = groups_of(maxMember=5, topology={"preferred": "rack"})
    _, (group,) = declared(play.put(member("w0", placeholders="none", task_groups=text)))
    assert (group["min"], group["max"], group["topology"]) == (2, 5, {"preferred": "rack"})


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"maxMember": 1}, "task group 'g': maxMember is not a whole number of 2 or more"),
        ({"maxMember": "5"}, "task group 'g': maxMember is not a whole number of 2 or more"),
        ({"topology": {"required": ""}}, "task group 'g': topology is not one of required and preferred, with a level"),
        ({"topology": "rack"}, "task group 'g': topology is not one of required and preferred, with a level"),
    ],
)
def test_what_cannot_be_read_is_refused(more: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidGang) as refused:
        task_groups(ObjectMeta(annotations={"schedulerd.io/task-groups": groups_of(**more)}))
    assert str(refused.value) == why


def test_the_daemon_is_told_when_a_pod_group_needs_another_number() -> None:
    play = grouping()
    play.put(node("n", cpu="8"), pod_group(2))
    (added,) = of(play.put(grouped("p0"), grouped("p1")), e.AddApplication)
    play.tell(v.ApplicationAccepted(added.application_id))
    effects = play.put(pod_group(3))
    assert declared(effects)[1] == [{"name": "members", "min": 3}]
    assert of(play.tell(v.ApplicationAccepted(added.application_id)), e.AddApplication) == []


def told(effects: list[e.Effect]) -> list[tuple[bool, str, int]]:
    return [(one.is_true, one.reason, one.generation) for one in of(effects, e.PatchGroupCondition)]


def with_status(group: PodGroup, status: str) -> PodGroup:
    condition = GroupCondition("PodGroupScheduled", status)
    return replace(group, status=PodGroupStatus((condition,)))


def test_the_condition_of_a_pod_group_says_that_it_finds_no_node_and_once_that_it_runs() -> None:
    group = scheduling_group()
    group = replace(group, metadata=replace(group.metadata, uid="g1", generation=4))
    play = with_scheduling_group(group)
    pods = [of_scheduling_group("p0"), of_scheduling_group("p1")]
    (added,) = of(play.put(*pods), e.AddApplication)
    waits = [v.PendingReasonTold(added.application_id, pod.metadata.uid, FAILED) for pod in pods]
    assert told(play.all(v.ApplicationAccepted(added.application_id), *waits)) == [(False, "Unschedulable", 4)]
    for pod in pods:
        play.bind(pod.metadata.uid, "n")
    assert told(play.put(placed(pods[0], "n"))) == []
    assert told(play.put(placed(pods[1], "n"))) == [(True, "Scheduled", 4)]
    play.put(with_status(group, "True"))
    assert told(play.gone(placed(pods[1], "n"))) == []
    (again,) = [of_scheduling_group("p2")]
    effects = play.put(again)
    effects += play.all(v.PendingReasonTold(added.application_id, "p2", FAILED))
    assert told([*effects, *play.wait(100)]) == [], "it is never taken back"
