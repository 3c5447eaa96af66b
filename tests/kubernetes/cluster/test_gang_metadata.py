"""What pods say about gangs, and the names and bodies of placeholders."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd.kubernetes.cluster.gangs import placeholder_pods
from schedulerd.kubernetes.cluster.gangs.declaration import application_id
from schedulerd.kubernetes.cluster.gangs.model import GangSource, GroupKey
from schedulerd.kubernetes.metadata import gangs
from schedulerd.kubernetes.metadata.gangs import GangParameters, GangStyle, InvalidGang, PlaceholderKind
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.cluster.play import own
from tests.loops import each_row

GROUP: dict[str, Any] = {
    "name": "g",
    "minMember": 2,
    "minResource": {"cpu": "500m", "memory": "1Gi", "example.com/x": 1},
}


def meta(**annotations: str) -> ObjectMeta:
    return ObjectMeta(annotations={f"yunikorn.apache.org/{key.replace('_', '-')}": v for key, v in annotations.items()})


def declared(*groups: dict[str, Any]) -> ObjectMeta:
    return meta(task_groups=json.dumps(groups))


def test_a_pod_that_declares_none_has_no_task_groups() -> None:
    assert gangs.task_groups(meta()) == gangs.task_groups(meta(task_groups="")) == ()


def test_task_groups_are_read_whatever_the_case_of_their_keys() -> None:
    (group,) = gangs.task_groups(declared({"NAME": "g", "minmember": 2, "MinResource": {"cpu": "500m"}}))
    assert (group.name, group.members) == ("g", 2)
    assert group.resources == {"vcore": 500, "pods": 1}
    assert gangs.whole((group,)) == {"vcore": 1000, "pods": 2}


def test_a_group_without_a_minimum_is_no_part_of_the_gang() -> None:
    groups = gangs.task_groups(declared(GROUP, {**GROUP, "name": "workers", "minMember": 0}))
    assert [group.name for group in groups] == ["g"]
    assert gangs.task_groups(declared({**GROUP, "minMember": 0})) == ()
    with pytest.raises(gangs.InvalidGang, match="no minResource"):
        gangs.task_groups(declared(GROUP, {"name": "workers", "minMember": 0}))


def test_host_ports_of_members_are_declared_as_numbers_or_as_containers_have_them() -> None:
    ports = [7777, {"hostPort": 53, "protocol": "UDP", "containerPort": 53}, {"hostPort": 7777}]
    (group,) = gangs.task_groups(declared({**GROUP, "hostPorts": ports}))
    assert group.host_ports == ((7777, "TCP"), (53, "UDP"))
    (group,) = gangs.task_groups(declared(GROUP))
    assert group.host_ports == ()


@each_row("ports", [7777, {}, [0], [65_536], [True], ["80"], [{}], [{"hostPort": 1, "protocol": "X"}]])
def test_host_ports_that_are_none(ports: object) -> None:
    with pytest.raises(gangs.InvalidGang, match="hostPorts"):
        gangs.task_groups(declared({**GROUP, "hostPorts": ports}))


def test_the_own_prefix_wins() -> None:
    both = ObjectMeta(
        annotations={
            "yunikorn.apache.org/task-groups": "unusable",
            "schedulerd.io/task-groups": json.dumps([GROUP]),
            "yunikorn.apache.org/task-group-name": "other",
            "schedulerd.io/task-group-name": "g",
        }
    )
    assert gangs.task_groups(both)[0].resources["example.com/x"] == 1
    assert gangs.task_group_name(both) == "g"


@each_row(
    ("change", "why"),
    [
        ({"name": ""}, "no name"),
        ({"name": ["g"] * 9}, "^task group 1 has no name$"),
        ({"name": "n" * 254}, "^task group 'n{80}': the name has more than 253 characters$"),
        ({"minMember": -1}, "minMember"),
        ({"minMember": True}, "minMember"),
        ({"minMember": "3"}, "minMember"),
        ({"minResource": None}, "no minResource"),
        ({"minResource": {}}, "no minResource"),
        ({"minResource": {"cpu": "-1"}}, "below 0"),
        ({"minResource": {"cpu": "much"}}, "no quantity"),
        ({"minResource": {"cpu": 1.5}}, "no quantity"),
        ({"minResource": {"cpu": 1, "vcore": 1}}, "both cpu and vcore"),
        ({"minResource": {"pods": 1}}, "pods"),
        ({"minMember": 9_000, "minResource": {"memory": "9E"}}, "2\\^63"),
        ({"name": "g"}, "two task groups have the same name"),
        ({"minMember": 10_001}, "more than"),
        ({"tolerations": {"key": "a"}}, "tolerations"),
        ({"labels": {"a": 1}}, "labels"),
        ({"affinity": []}, None),
        ({"affinity": [1]}, "affinity"),
        ({"affinity": {"nodeAffinity": "x"}}, "'h': affinity.nodeAffinity: Expected `object"),
        ({"tolerations": [{"key": 5}]}, "tolerations\\[0\\].key"),
        ({"topologySpreadConstraints": [{"maxSkew": "1"}]}, "maxSkew"),
        ({"nodeSelector": {"a": 1}}, "nodeSelector"),
    ],
)
def test_unusable_task_groups_are_refused_as_a_whole(change: dict[str, Any], why: str | None) -> None:
    groups = declared(GROUP, {**GROUP, "name": "h", **change})
    if why is None:
        assert len(gangs.task_groups(groups)) == 2
        return
    with pytest.raises(InvalidGang, match=why):
        gangs.task_groups(groups)


@pytest.mark.parametrize("text", ["[]", "{}", "nonsense", "[1]", "[" * 5000])
def test_what_is_no_list_of_task_groups_is_refused(text: str) -> None:
    with pytest.raises(InvalidGang):
        gangs.task_groups(meta(task_groups=text))


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("", GangParameters()),
        ("placeholderTimeoutInSeconds=30 gangSchedulingStyle=Hard", GangParameters(GangStyle.HARD, 30)),
        ("gangSchedulingStyle=requeue", GangParameters(GangStyle.REQUEUE)),
        ("gangSchedulingStyle=other placeholderTimeoutInSeconds=x", GangParameters(GangStyle.SOFT)),
        ("placeholderTimeoutInSeconds=-3", GangParameters()),
    ],
)
def test_parameters(text: str, parameters: GangParameters) -> None:
    assert gangs.parameters(meta(schedulingPolicyParameters=text)) == parameters


def test_what_is_not_understood_is_named() -> None:
    good = "placeholderTimeoutInSeconds=30 gangSchedulingStyle=hard"
    assert gangs.ignored(meta(schedulingPolicyParameters=good, placeholders="none")) == ""
    bad = "placeholderTimeoutInSeconds=5m gangSchedulingStyle=Firm x gangSchedulingStyle=Hard"
    assert gangs.ignored(meta(schedulingPolicyParameters=bad, placeholders="Virtual")) == (
        "placeholders 'Virtual', schedulingPolicyParameters 'placeholderTimeoutInSeconds=5m', "
        "schedulingPolicyParameters 'gangSchedulingStyle=Firm', schedulingPolicyParameters 'x'"
    )


def test_placeholders_of_either_scheduler_are_known() -> None:
    assert gangs.is_placeholder(ObjectMeta(annotations={"internal.yunikorn.apache.org/placeholder": "t"}))
    assert gangs.is_placeholder(ObjectMeta(annotations={"schedulerd.io/placeholder": "true"}))
    assert not gangs.is_placeholder(ObjectMeta(annotations={"schedulerd.io/placeholder": "false"}))
    assert gangs.placeholder_kind(ObjectMeta(annotations={"schedulerd.io/placeholders": "none"})) is (
        PlaceholderKind.NONE
    )
    assert gangs.placeholder_kind(ObjectMeta(annotations={"schedulerd.io/placeholders": "other"})) is None


@pytest.mark.parametrize(
    ("inputs", "name"),
    [
        (("uid-1", "app", "workers", 0), "tg-app-workers-uhdq3x3eps"),
        (("uid-1", "app", "workers", 1), "tg-app-workers-dxitxa2ncq"),
        (("uid-2", "app", "workers", 0), "tg-app-workers-rqvtnxjuyi"),
        (
            ("2b1f0f4e-8a57-4b8e-9a55-6a7e1f3b7c11", "Spark_Application-" + "x" * 60, "Größe/Executors.of.a.kind", 17),
            "tg-spark-application-xxxxxxxxxx-gr-e-executors-of-a-khqncoddqf",
        ),
        (("u", "---", "", 0), "tg-oldqqbyf3h"),
    ],
)
def test_names_of_placeholders_never_change(inputs: tuple[str, str, str, int], name: str) -> None:
    """An older version has made pods of these names: never change what is expected here."""
    assert placeholder_pods.name(*inputs) == name
    assert len(name) <= 63


def test_the_body_of_a_placeholder() -> None:
    group = {
        **GROUP,
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "nodeSelector": {"zone": "z"},
        "tolerations": [{"key": "t", "operator": "Exists"}],
    }
    (task_group,) = gangs.task_groups(declared(group))
    originator = own(
        "driver",
        meta={"annotations": {"yunikorn.apache.org/user.info": '{"user":"ann"}'}},
        priorityClassName="high",
        imagePullSecrets=[{"name": "s"}],
    )
    body = placeholder_pods.body(
        "tg-x", originator, "app", "root.q", task_group, {"e": "f"}, scheduler_name="schedulerd", image="pause"
    )
    about, spec = body["metadata"], body["spec"]
    (owner,) = about["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", "driver", False)
    assert about["labels"] == {
        "a": "b",
        "sidecar.istio.io/inject": "false",
        "schedulerd.io/app-id": "app",
        "schedulerd.io/queue": "root.q",
    }
    assert about["annotations"] == {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
        "c": "d",
        "e": "f",
        "sidecar.istio.io/inject": "false",
        "schedulerd.io/placeholder": "true",
        "schedulerd.io/task-group-name": "g",
        "schedulerd.io/user.info": '{"user":"ann"}',
    }
    (container,) = spec["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"] == GROUP["minResource"]
    assert spec["nodeSelector"] == {"zone": "z"}
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 0)
    assert (spec["priorityClassName"], spec["imagePullSecrets"]) == ("high", [{"name": "s"}])
    assert gangs.is_placeholder(convert(Pod, body).metadata)


def test_a_placeholder_is_allowed_in_restricted_namespaces() -> None:
    """Of Kubernetes and of OpenShift, which refuses pods that choose a user themselves."""
    (task_group,) = gangs.task_groups(declared(GROUP))

    def spec_of(user: int | None) -> dict[str, Any]:
        pod = placeholder_pods.body(
            "tg-x", own("driver"), "app", "", task_group, {}, scheduler_name="schedulerd", image="pause", user=user
        )
        return dict(pod["spec"])

    spec = spec_of(None)
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["securityContext"] == restricted
    assert spec["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec_of(7)["securityContext"] == {**restricted, "runAsUser": 7, "runAsGroup": 7}


def test_what_cannot_be_a_label_is_an_annotation() -> None:
    (task_group,) = gangs.task_groups(declared(GROUP))
    body = placeholder_pods.body(
        "tg-x", own("driver"), "an app", "root.@q", task_group, {}, scheduler_name="schedulerd", image="pause"
    )
    assert set(body["metadata"]["labels"]) == {"sidecar.istio.io/inject"}
    assert body["metadata"]["annotations"]["schedulerd.io/app-id"] == "an app"


def test_application_ids_of_pod_groups_differ() -> None:
    keys = [
        GroupKey(GangSource.COSCHEDULING, "a", "b"),
        GroupKey(GangSource.KUBERNETES, "a", "b"),
        GroupKey(GangSource.COSCHEDULING, "a", "b.c"),
        GroupKey(GangSource.KUBERNETES, "a", "b/c/"),
        GroupKey(GangSource.KUBERNETES, "a", "b/c/0"),
        GroupKey(GangSource.COSCHEDULING, "a", "x" * 100),
        GroupKey(GangSource.COSCHEDULING, "a", "x" * 101),
    ]
    ids = [application_id(key) for key in keys]
    assert ids[0] == "podgroup.a.b"
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) <= 63
