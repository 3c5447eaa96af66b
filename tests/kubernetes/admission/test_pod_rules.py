"""Pods: scheduler name, application id and user on their way in, and users that are forged."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from schedulerd.kubernetes.admission.rules.pods import PodRules, check_users, mutate
from schedulerd.kubernetes.admission.rules.review import Decision
from schedulerd.kubernetes.metadata.pods import User, read_metadata
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.meta import ObjectMeta
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.admission.reviews import (
    APP_ID,
    GROUPS,
    JSON,
    OWN,
    SYSTEM,
    YUNIKORN,
    patched,
    pod,
    request,
    rules,
    user_info,
)
from tests.loops import each_row

RULES = rules()
AUTOGEN = "yunikorn-team-autogen"


def after(document: JSON, rules: PodRules = RULES, namespace: ObjectMeta | None = None, **more: Any) -> JSON:
    """The object as it is stored; that a second call changes nothing is checked on the way."""
    decision = mutate(rules, request(copy.deepcopy(document), **more), namespace)
    assert decision.is_allowed, decision.refusal
    stored = patched(document, decision.patch)
    again = mutate(rules, request(copy.deepcopy(stored), **more), namespace)
    assert (again.is_allowed, again.patch) == (True, ()), "reinvocation"
    assert check_users(rules, request(copy.deepcopy(stored), **more)).is_allowed
    return stored


def refused(document: JSON, old: JSON | None = None, rules: PodRules = RULES, **more: Any) -> str:
    """Both webhooks refuse, with the same words."""
    decisions = [
        check_users(rules, request(copy.deepcopy(document), old, **more)),
        mutate(rules, request(copy.deepcopy(document), old, **more), None),
    ]
    assert decisions[0] == decisions[1]
    assert not decisions[0].is_allowed
    assert decisions[0].patch == ()
    return decisions[0].refusal


def untouched(document: JSON, rules: PodRules = RULES, namespace: ObjectMeta | None = None, **more: Any) -> bool:
    return mutate(rules, request(copy.deepcopy(document), **more), namespace) == Decision()


def test_a_pod_gets_scheduler_application_and_user() -> None:
    decision = mutate(RULES, request(pod()), None)
    assert decision.patch == (
        {"op": "replace", "path": "/spec/schedulerName", "value": "schedulerd"},
        {"op": "add", "path": "/metadata/labels", "value": {APP_ID: AUTOGEN}},
        {"op": "add", "path": "/metadata/annotations", "value": {OWN: user_info("ann")}},
    )
    assert after(pod()) == {
        "metadata": {
            "name": "p",
            "namespace": "team",
            "labels": {APP_ID: AUTOGEN},
            "annotations": {OWN: user_info("ann")},
        },
        "spec": {"schedulerName": "schedulerd", "containers": []},
    }


def test_keys_with_slashes_are_escaped_where_there_are_others() -> None:
    decision = mutate(RULES, request(pod({"a": "b"}, {"c": "d"})), None)
    assert [one["path"] for one in decision.patch] == [
        "/spec/schedulerName",
        "/metadata/labels/schedulerd.io~1app-id",
        "/metadata/annotations/schedulerd.io~1user.info",
    ]
    stored = after(pod({"a": "b"}, {"c": "d"}))
    assert stored["metadata"]["annotations"] == {"a": "b", OWN: user_info("ann")}
    assert stored["metadata"]["labels"] == {"c": "d", APP_ID: AUTOGEN}


def test_the_shim_reads_what_was_written() -> None:
    stored = convert(Pod, after(pod()))
    read = read_metadata(stored)
    assert (read.application_id.name, read.user) == (AUTOGEN, User("ann", tuple(GROUPS)))
    assert read.problems == ()
    assert read.application_id == read_metadata(convert(Pod, pod())).application_id, "what it would be without a label"


@each_row(
    "named",
    [
        pod({APP_ID: "a"}),
        pod(None, {APP_ID: "a"}),
        pod(None, {"yunikorn.apache.org/app-id": "a"}),
        pod({"yunikorn.apache.org/app-id": "a"}),
        pod(None, {"applicationId": "a"}),
        pod(None, {"spark-app-selector": "a"}),
        pod(None, {"scheduling.x-k8s.io/pod-group": "gang"}),
        pod(None, {"pod-group.scheduling.sigs.k8s.io": "gang"}),
        pod(schedulingGroup={"podGroupName": "gang"}),
        pod(workloadRef={"name": "gang"}),
    ],
)
def test_an_application_that_is_named_stays(named: JSON) -> None:
    stored = after(named)
    assert stored["metadata"].get("labels", {}).get(APP_ID) == (named["metadata"].get("labels") or {}).get(APP_ID)
    assert stored["spec"]["schedulerName"] == "schedulerd"
    assert stored["metadata"]["annotations"][OWN] == user_info("ann")


def test_an_empty_value_is_none() -> None:
    stored = after(pod({OWN: ""}, {APP_ID: ""}))
    assert stored["metadata"]["labels"][APP_ID] == AUTOGEN
    assert stored["metadata"]["annotations"][OWN] == user_info("ann")


@each_row("length", [1, 25, 26, 27, 45, 46, 47, 48, 62, 63])
@each_row("unique", [True, False])
def test_application_ids_are_labels_in_namespaces_of_any_length(length: int, unique: bool) -> None:
    namespace = ("a-" * 32)[: length - 1] + "z"
    decision = mutate(rules(one_application_per_pod=unique), request(pod(), namespace=namespace), None)
    (label,) = [one["value"][APP_ID] for one in decision.patch if one["path"] == "/metadata/labels"]
    assert 0 < len(label) <= 63
    assert label[0].isalnum()
    assert label[-1].isalnum()
    assert label.endswith("-uniqueautogen") == unique


def test_an_id_for_each_pod_becomes_its_uid() -> None:
    stored = after(pod(), rules(one_application_per_pod=True))
    stored["metadata"]["uid"] = "u-1"
    assert read_metadata(convert(Pod, stored)).application_id.name == "team-u-1"


@each_row(
    ("settings", "namespace", "scheduler", "labelled"),
    [
        ({}, "team", "schedulerd", True),
        ({"process_namespaces": ("team", "dev-.*")}, "team", "schedulerd", True),
        ({"process_namespaces": ("team", "dev-.*")}, "dev-1", "schedulerd", True),
        ({"process_namespaces": ("team",)}, "team-2", "default-scheduler", False),
        ({"process_namespaces": "dev-.*, ^team$"}, "team", "schedulerd", True),
        ({"bypass_namespaces": ("team",)}, "team", "default-scheduler", False),
        ({"process_namespaces": ("t.*",), "bypass_namespaces": ("team",)}, "team", "default-scheduler", False),
        ({"label_namespaces": ("other",)}, "team", "schedulerd", False),
        ({"no_label_namespaces": ("te?am",)}, "team", "schedulerd", False),
        ({"scheduler_name": "yunikorn,schedulerd"}, "team", "yunikorn", True),
    ],
)
def test_namespaces_by_name(settings: JSON, namespace: str, scheduler: str, labelled: bool) -> None:
    stored = after(pod(), rules(**settings), namespace=None) if namespace == "team" else None
    decision = mutate(rules(**settings), request(pod(), namespace=namespace), None)
    result = patched(pod(), decision.patch)
    assert stored is None or stored == result
    assert result["spec"]["schedulerName"] == scheduler
    assert (APP_ID in result["metadata"].get("labels", {})) == labelled
    assert (OWN in result["metadata"].get("annotations", {})) == (scheduler != "default-scheduler")


@pytest.mark.parametrize(
    ("annotations", "scheduler", "labelled"),
    [
        ({"schedulerd.io/namespace.enabled": "false"}, "default-scheduler", False),
        ({"yunikorn.apache.org/namespace.enableYuniKorn": "false"}, "default-scheduler", False),
        ({"schedulerd.io/namespace.enabled": "perhaps"}, "schedulerd", True),
        ({"schedulerd.io/namespace.generateAppId": "false"}, "schedulerd", False),
        ({"yunikorn.apache.org/namespace.generateAppId": "false"}, "schedulerd", False),
    ],
)
def test_annotations_of_a_namespace_win(annotations: JSON, scheduler: str, labelled: bool) -> None:
    stored = after(pod(), namespace=ObjectMeta(name="team", annotations=annotations))
    assert stored["spec"]["schedulerName"] == scheduler
    assert (APP_ID in stored["metadata"].get("labels", {})) == labelled


def test_a_namespace_that_no_pattern_has_can_ask_for_it() -> None:
    metadata = ObjectMeta(name="team", annotations={"schedulerd.io/namespace.enabled": "true"})
    stored = after(pod(), rules(process_namespaces=("other",)), metadata)
    assert stored["spec"]["schedulerName"] == "schedulerd"


def test_who_names_the_scheduler_is_looked_at_in_every_namespace() -> None:
    stored = after(pod(schedulerName="schedulerd"), rules(bypass_namespaces=("team",)))
    assert stored["metadata"]["annotations"][OWN] == user_info("ann")


def test_other_schedulers_and_pods_with_a_node_are_left_alone() -> None:
    assert untouched(pod(schedulerName="volcano"))
    assert untouched(pod(nodeName="n1"))


@pytest.mark.parametrize("settings", [{}, {"process_namespaces": (".*",), "bypass_namespaces": ()}])
@pytest.mark.parametrize("namespace", ["kube-system", SYSTEM])
def test_two_namespaces_are_never_touched(settings: JSON, namespace: str) -> None:
    enabled = ObjectMeta(name=namespace, annotations={"schedulerd.io/namespace.enabled": "true"})
    document = pod({OWN: user_info("root")}, schedulerName="schedulerd")
    for one in (document, pod()):
        assert mutate(rules(**settings), request(one, namespace=namespace), enabled) == Decision()
        assert check_users(rules(**settings), request(one, namespace=namespace)) == Decision()


def test_the_shim_makes_placeholders_for_anybody() -> None:
    shim = f"system:serviceaccount:{SYSTEM}:schedulerd"
    assert untouched(pod({OWN: user_info("bob")}, schedulerName="schedulerd"), user=shim)


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT", "PATCH", ""])
def test_other_operations_are_allowed(operation: str) -> None:
    document = pod({OWN: user_info("bob")})
    if operation:
        assert mutate(RULES, request(document, operation=operation), None) == Decision()
    assert mutate(RULES, request(document, subResource="status"), None) == Decision()
    assert mutate(RULES, request(None, pod(), operation="DELETE"), None) == Decision()


@each_row("key", [OWN, YUNIKORN])
@each_row(
    "value",
    [
        user_info("bob"),
        user_info("ann", []),
        user_info("ann", ["dev"]),
        user_info("ann", [*GROUPS, "admins"]),
        '{"user":"ann"}',
        "ann",
        "{",
        '["ann"]',
        '{"user":null}',
        "[" * 10_000,
        '{"user": "ann", "user": "bob"}',
        "x" * 200_000,
    ],
)
def test_nobody_can_pretend_to_be_somebody_else(key: str, value: str) -> None:
    message = refused(pod({key: value}, schedulerName="schedulerd"))
    assert key in message
    assert "'ann'" in message
    assert "--trusted-users" in message
    refused(pod({key: value}, schedulerName="default-scheduler"))


def test_both_names_are_looked_at() -> None:
    assert YUNIKORN in refused(pod({OWN: user_info("ann"), YUNIKORN: user_info("bob")}))
    assert OWN in refused(pod({OWN: user_info("bob"), YUNIKORN: user_info("ann")}))


@pytest.mark.parametrize("key", [OWN, YUNIKORN])
@pytest.mark.parametrize("value", [user_info("ann"), user_info("ann", GROUPS[::-1]), f" {user_info('ann')} "])
def test_everybody_can_be_themselves(key: str, value: str) -> None:
    assert after(pod({key: value}))["metadata"]["annotations"] == {key: value}


@pytest.mark.parametrize(
    ("settings", "user", "groups"),
    [
        ({}, "system:serviceaccount:kube-system:job-controller", []),
        ({}, "system:kube-controller-manager", []),
        ({}, "system:serviceaccount:kuberay-system:kuberay-operator", []),
        ({"trusted_users": "robot-[0-9]+"}, "robot-7", []),
        ({"trusted_groups": "pod-makers"}, "eve", ["pod-makers"]),
        ({"trusted_service_accounts": "argo/workflow"}, "system:serviceaccount:argo:workflow", []),
    ],
)
def test_who_is_trusted_may_write_anybody_and_stays_out_of_it(settings: JSON, user: str, groups: list[str]) -> None:
    stored = after(pod({OWN: user_info("bob")}), rules(**settings), user=user, groups=groups)
    assert stored["metadata"]["annotations"] == {OWN: user_info("bob")}
    assert "annotations" not in after(pod(), rules(**settings), user=user, groups=groups)["metadata"]


@each_row(
    ("settings", "user"),
    [
        ({"trusted_users": "robot"}, "robot-7"),
        ({"trusted_users": "robot"}, "a-robot"),
        ({"trusted_service_accounts": "argo/workflow"}, "system:serviceaccount:argo:workflow-2"),
        ({"trusted_service_accounts": "argo/workflow"}, "system:serviceaccount:other:workflow"),
        ({"trusted_service_accounts": "argo/workflow"}, "argo/workflow"),
        ({}, "system:serviceaccount:kube-system"),
        ({}, f"system:serviceaccount:{SYSTEM}-2:schedulerd"),
        ({}, "system:serviceaccount:team:kuberay-operator"),
    ],
)
def test_who_is_only_called_alike_is_not(settings: JSON, user: str) -> None:
    refused(pod({OWN: user_info("bob")}), rules=rules(**settings), user=user)


def test_a_service_account_is_told_the_setting_that_would_trust_it() -> None:
    message = refused(pod({OWN: user_info("bob")}), user="system:serviceaccount:argo:workflow")
    assert "--trusted-service-accounts argo/workflow" in message


@pytest.mark.parametrize("new", [user_info("bob"), user_info("ann"), "", None])
def test_the_user_of_a_living_pod_does_not_change(new: str | None) -> None:
    old = pod({OWN: user_info("carl")}, schedulerName="schedulerd")
    message = refused(pod({} if new is None else {OWN: new}, schedulerName="schedulerd"), old)
    assert OWN in message


def test_nobody_adds_a_user_to_a_living_pod() -> None:
    assert "cannot be changed" in refused(pod({OWN: user_info("ann")}), pod())


def test_other_updates_of_a_pod_change_nothing() -> None:
    old = pod({OWN: user_info("carl")}, schedulerName="schedulerd")
    new = pod({OWN: user_info("carl"), "note": "x"}, {"a": "b"}, schedulerName="schedulerd")
    assert mutate(RULES, request(new, old), None) == Decision()
    assert mutate(RULES, request(pod({"note": "x"}), pod()), None) == Decision()


def test_a_user_of_many_groups_gets_as_many_as_fit() -> None:
    groups = [f"group-{number:05}-{'x' * 100}" for number in range(2_000)]
    decision = mutate(RULES, request(pod(), groups=groups), None)
    (value,) = [one["value"][OWN] for one in decision.patch if one["path"] == "/metadata/annotations"]
    assert 65_000 < len(value) <= 65_536
    assert "of your 2000 groups" in decision.warnings[0]
    stored = patched(pod(), decision.patch)
    again = mutate(RULES, request(stored, groups=groups), None)
    assert (again.is_allowed, again.patch) == (True, ())


def test_names_with_quotes_and_other_letters() -> None:
    for user in ('o"hara', "back\\slash", "jürgen", "~/x", "new\nline"):
        stored = convert(Pod, after(pod(), user=user))
        assert read_metadata(stored).user == User(user, tuple(GROUPS))
