"""Conditions of webhooks, and the policy about forged users, evaluated as API servers do: what is asked, and refused.

The policy and the webhook are written twice, in CEL and in Python; here they answer the same requests.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from schedulerd.kubernetes.admission.rules.pods import check_users, mutate
from schedulerd.kubernetes.admission.rules.review import AdmissionRequest
from schedulerd.kubernetes.admission.rules.users import value_of
from schedulerd.kubernetes.admission.rules.workloads import BUILT_IN, PODS, Workload
from tests.kubernetes.admission.expressions import ExpressionFailed, Policy, evaluate, is_asked, selects
from tests.kubernetes.admission.reviews import (
    CUSTOM,
    GROUPS,
    JSON,
    OWN,
    YUNIKORN,
    pod,
    request,
    review,
    rules,
    user_info,
)
from tests.kubernetes.chart.helm import admission, needs_helm
from tests.kubernetes.rights import MANIFESTS
from tests.loops import each_row

SYSTEM = "schedulerd"
"""The namespace of the manifests."""
RULES = rules(SYSTEM)
OBJECTS = list(YAML(typ="safe").load_all((MANIFESTS / "admission" / "webhooks.yaml").read_text()))
OLD_OBJECTS = list(YAML(typ="safe").load_all((MANIFESTS / "admission" / "webhooks-before-1.30.yaml").read_text()))
(POLICY,) = (Policy(one) for one in OBJECTS if one["kind"] == "ValidatingAdmissionPolicy")
WEBHOOKS: dict[str, JSON] = {one["name"]: one for each in OBJECTS for one in each.get("webhooks") or ()}
OLD_WEBHOOKS: dict[str, JSON] = {one["name"]: one for each in OLD_OBJECTS for one in each["webhooks"]}
POD = Workload(*PODS, paths=())
KINDS = [POD, *BUILT_IN]
BOB = user_info("bob", ["dev"])
TRUSTED = [
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:job-controller",
    f"system:serviceaccount:{SYSTEM}:schedulerd",
    "system:serviceaccount:spark-operator:spark-operator-controller",
    "system:serviceaccount:kubeflow:training-operator",
]
UNTRUSTED = [
    "ann",
    "system:kube-controller-manager-2",
    "x-system:kube-controller-manager",
    f"system:serviceaccount:{SYSTEM}-2:schedulerd",
    "system:serviceaccount:kubeflow:training-operator-2",
    "system:serviceaccount:team:spark-operator-controller",
    'quo"te\\back',
]


def an_object(kind: Workload, annotations: JSON | None) -> JSON:
    """With these annotations on its pods, where the kind has them; without a place for them for None."""
    if kind is POD:
        return pod(annotations)
    inner: JSON = {} if annotations is None else {"metadata": {"annotations": annotations}}
    found: JSON = {**inner, "spec": {}}
    for step in reversed(kind.paths[0]):
        found = {step: found}
    return {"metadata": {"name": "o", "namespace": "team"}, **found}


def ask(kind: Workload, new: JSON | None, old: JSON | None = None, **more: Any) -> JSON:
    """The request of a review; both are annotations of pods. An UPDATE with `operation`."""
    is_update = more.get("operation") == "UPDATE"
    before = an_object(kind, old) if is_update else None
    asked = review(an_object(kind, new), before, resource=(kind.group, kind.resource), **more)["request"]
    return dict(asked)


def of_rules(asked: JSON) -> AdmissionRequest:
    more = {key: asked[key] for key in ("operation", "namespace", "subResource") if key in asked}
    user = asked["userInfo"]
    return request(
        copy.deepcopy(asked["object"]),
        copy.deepcopy(asked["oldObject"]),
        resource=(asked["resource"]["group"], asked["resource"]["resource"]),
        user=user["username"],
        groups=user["groups"],
        **more,
    )


def refused_by_webhook(asked: JSON) -> str:
    return check_users(RULES, of_rules(asked)).refusal


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource)
class TestPolicy:
    def test_nobody_is_somebody_else(self, kind: Workload) -> None:
        for key in (OWN, YUNIKORN):
            for operation in ("CREATE", "UPDATE"):
                text = POLICY.refusal(ask(kind, {key: BOB}, {}, operation=operation))
                assert text == f"annotation {key} names somebody else than ann, who sent the request"

    def test_everybody_is_themselves(self, kind: Workload) -> None:
        for given_ in (None, {}, {"other": "x"}, {OWN: ""}, {OWN: user_info("ann")}, {YUNIKORN: user_info("ann")}):
            assert POLICY.refusal(ask(kind, given_)) == ""

    @pytest.mark.parametrize("name", UNTRUSTED)
    def test_people_with_names_of_all_kinds(self, kind: Workload, name: str) -> None:
        assert "names somebody else" in POLICY.refusal(ask(kind, {OWN: BOB}, user=name))
        assert POLICY.refusal(ask(kind, {OWN: user_info(name)}, user=name)) == ""

    def test_what_was_there_stays(self, kind: Workload) -> None:
        for key in (OWN, YUNIKORN):
            assert POLICY.refusal(ask(kind, {key: BOB}, {key: BOB}, operation="UPDATE")) == ""
            changed = POLICY.refusal(ask(kind, {key: BOB}, {key: user_info("eve")}, operation="UPDATE"))
            assert "names somebody else" in changed

    @pytest.mark.parametrize("name", TRUSTED)
    def test_the_trusted_write_everybody(self, kind: Workload, name: str) -> None:
        assert POLICY.refusal(ask(kind, {OWN: BOB}, user=name)) == ""

    def test_two_namespaces_are_left_alone(self, kind: Workload) -> None:
        for namespace in ("kube-system", SYSTEM):
            assert POLICY.refusal(ask(kind, {OWN: BOB}, namespace=namespace)) == ""


def change(part: str, new: JSON | None, old: JSON | None = None, resource: str = "pods", **more: Any) -> JSON:
    """The request for a subresource that changes the metadata of a pod: an UPDATE of its status, or a Binding."""
    before = pod(old) if part == "status" else None
    document = pod(new) if part == "status" else {"metadata": pod(new)["metadata"], "target": {"name": "n"}}
    operation = "UPDATE" if part == "status" else "CREATE"
    named: JSON = {"subResource": part} if part else {}
    return dict(review(document, before, resource=("", resource), operation=operation, **named, **more)["request"])


CHANGES = [("status", "pods"), ("binding", "pods"), ("", "bindings")]


@pytest.mark.parametrize(("part", "resource"), CHANGES)
def test_subresources_that_carry_metadata_of_a_pod_change_no_user(part: str, resource: str) -> None:
    for key in (OWN, YUNIKORN):
        for value in (BOB, user_info("ann")):
            forged = change(part, {key: value}, {}, resource)
            assert POLICY.refusal(forged)
            assert refused_by_webhook(forged)
            assert is_asked(WEBHOOKS["users.schedulerd.io"], forged)
            assert is_asked(OLD_WEBHOOKS["users.schedulerd.io"], forged) is (part == "status"), "documented"
            by_schedulerd = {**forged, "userInfo": {"username": TRUSTED[2], "groups": []}}
            assert POLICY.refusal(by_schedulerd) == refused_by_webhook(by_schedulerd) == ""
        for harmless in (change(part, {}, {}, resource), change(part, {"other": "x"}, {}, resource)):
            assert POLICY.refusal(harmless) == refused_by_webhook(harmless) == ""
    kept = change("status", {OWN: BOB}, {OWN: BOB})
    assert POLICY.refusal(kept) == refused_by_webhook(kept) == ""
    assert not is_asked(WEBHOOKS["users.schedulerd.io"], kept), "of each change of a status, few change annotations"
    assert not is_asked(WEBHOOKS["users.schedulerd.io"], change(part, None, None, resource))
    assert mutate(RULES, of_rules(change(part, {}, {}, resource)), None).patch == ()


def test_an_optional_variable_is_not_chained() -> None:
    """What a server refuses nothing by."""
    broken = copy.deepcopy(next(one for one in OBJECTS if one["kind"] == "ValidatingAdmissionPolicy"))
    broken["spec"]["variables"].append({"name": "x", "expression": "variables.metadata.?annotations.hasValue()"})
    with pytest.raises(AssertionError, match="a server finds nothing there"):
        Policy(broken)


def test_the_user_of_a_living_pod_does_not_change() -> None:
    asked = ask(POD, {}, {OWN: user_info("ann")}, operation="UPDATE")
    assert POLICY.refusal(asked) == "the user.info of a pod cannot be changed; delete the pod and make it again"
    for kind in BUILT_IN:
        assert POLICY.refusal(ask(kind, {}, {OWN: user_info("ann")}, operation="UPDATE")) == ""


NAMES = st.sampled_from(["ann", "bob", *TRUSTED[:3], *UNTRUSTED[1:4], 'quo"te\\back'])
SOME_GROUPS = st.sampled_from([GROUPS, [], ["dev"], ['a"b', "c\\d"]])
VALUES = st.one_of(st.just(""), st.just("nonsense"), st.builds(user_info, NAMES, SOME_GROUPS))
ANNOTATIONS = st.dictionaries(st.sampled_from([OWN, YUNIKORN, "other"]), VALUES, max_size=3)


@given(
    kind=st.sampled_from(KINDS),
    new=ANNOTATIONS,
    old=ANNOTATIONS,
    operation=st.sampled_from(["CREATE", "UPDATE"]),
    user=NAMES,
    groups=SOME_GROUPS,
    namespace=st.sampled_from(["team", "kube-system", SYSTEM]),
)
def test_the_policy_and_the_webhook_decide_alike(
    kind: Workload, new: JSON, old: JSON, operation: str, user: str, groups: list[str], namespace: str
) -> None:
    asked = ask(kind, new, old, operation=operation, user=user, groups=groups, namespace=namespace)
    by_policy, by_webhook = POLICY.refusal(asked), refused_by_webhook(asked)
    assert bool(by_policy) == bool(by_webhook), (by_policy, by_webhook)


def test_the_policy_wants_what_schedulerd_writes() -> None:
    """The same in another form is let through by the webhook alone."""
    asked = ask(POD, {OWN: json.dumps({"user": "ann", "groups": list(reversed(GROUPS))})})
    assert refused_by_webhook(asked) == ""
    assert "names somebody else" in POLICY.refusal(asked)
    user = request(pod(), user="ann").user_info
    assert POLICY.refusal(ask(POD, {OWN: value_of(user)[0]})) == ""


@needs_helm
def test_trust_is_that_of_the_values() -> None:
    objects = admission(
        {
            "admission": {
                "trustedUsers": [r"ci-\d+", r"a.b|c"],
                "trustedGroups": ["ops:.*"],
                "trustedServiceAccounts": ["own/operator"],
            }
        },
        kube_version="1.30",
    )
    (policy,) = (Policy(one) for one in objects if one["kind"] == "ValidatingAdmissionPolicy")
    for name in ("ci-7", "axb", "c", "system:serviceaccount:own:operator"):
        assert policy.refusal(ask(POD, {OWN: BOB}, user=name)) == ""
    for name in ("ci-", "ci-7x", "xc", "cc", "system:serviceaccount:own:operator2", TRUSTED[0]):
        assert policy.refusal(ask(POD, {OWN: BOB}, user=name)) != ""
    assert policy.refusal(ask(POD, {OWN: BOB}, groups=["dev", "ops:night"])) == ""
    assert policy.refusal(ask(POD, {OWN: BOB}, groups=["dev-ops:night"])) != ""


@pytest.mark.parametrize("webhooks", [WEBHOOKS, OLD_WEBHOOKS], ids=["1.30", "before 1.30"])
class TestWebhooks:
    @each_row("kind", [*KINDS, *CUSTOM], ids=lambda kind: f"{kind.group}/{kind.resource}")
    def test_each_kind_is_seen(self, webhooks: dict[str, JSON], kind: Workload) -> None:
        created = ask(kind, {}) if len(kind.paths) == 1 and "*" not in kind.paths[0] else custom(kind)
        assert is_asked(webhooks["pods.schedulerd.io"], created)
        assert is_asked(webhooks["users.schedulerd.io"], created), "the policy is a second lock, not the only one"
        for name in webhooks:
            for namespace in ("kube-system", SYSTEM):
                assert not is_asked(webhooks[name], {**created, "namespace": namespace})

    def test_a_static_pod_of_a_kubelet(self, webhooks: dict[str, JSON]) -> None:
        asked = ask(POD, {}, user="system:node:a", groups=["system:nodes", "system:authenticated"])
        assert is_asked(webhooks["pods.schedulerd.io"], asked) is (webhooks is OLD_WEBHOOKS)

    def test_updates(self, webhooks: dict[str, JSON]) -> None:
        webhook = webhooks["pods.schedulerd.io"]
        assert not is_asked(webhook, ask(POD, {}, {"a": "b"}, operation="UPDATE"))
        for kind in BUILT_IN:
            assert is_asked(webhook, ask(kind, {}, {"a": "b"}, operation="UPDATE"))
            same = ask(kind, {"a": "b"}, {"a": "b"}, operation="UPDATE")
            assert is_asked(webhook, same) is (webhooks is OLD_WEBHOOKS)

    def test_one_config_map(self, webhooks: dict[str, JSON]) -> None:
        webhook = webhooks["queues.schedulerd.io"]
        assert is_asked(webhook, config_map({"schedulerd.io/queue-files": "true"}))
        assert not is_asked(webhook, config_map({}))
        assert not is_asked(webhook, config_map({"schedulerd.io/queue-files": "true"}, namespace="team"))
        # The label is taken away, to have a file stored that is not validated.
        before = config_map({"schedulerd.io/queue-files": "true"})["object"]
        assert is_asked(webhook, {**config_map({}), "operation": "UPDATE", "oldObject": before})

    def test_breaking_the_glass(self, webhooks: dict[str, JSON]) -> None:
        seen = []

        def allows(wanted: JSON) -> bool:
            seen.append(wanted)
            return True

        webhook = webhooks["queues.schedulerd.io"]
        asked = config_map({"schedulerd.io/queue-files": "true", "schedulerd.io/break-glass": "true"})
        assert is_asked(webhook, asked)
        assert is_asked(webhook, asked, allows=allows) is (webhooks is OLD_WEBHOOKS)
        right = {"group": "schedulerd.io", "resource": "queueconfigurations", "namespace": SYSTEM, "name": "schedulerd"}
        assert seen == ([] if webhooks is OLD_WEBHOOKS else [{**right, "check": "break-glass"}])


def custom(kind: Workload) -> JSON:
    document = {"metadata": {"name": "o", "namespace": "team"}, "spec": {}}
    return dict(review(document, resource=(kind.group, kind.resource))["request"])


def config_map(labels: JSON, namespace: str = SYSTEM) -> JSON:
    document = {"metadata": {"name": "schedulerd", "namespace": namespace, "labels": labels}, "data": {}}
    return dict(review(document, resource=("", "configmaps"), namespace=namespace)["request"])


def test_an_expression_that_fails_is_no_answer() -> None:
    with pytest.raises(ExpressionFailed, match="Key not found"):
        evaluate("object.missing == 1", ask(POD, {}))
    with pytest.raises(Exception, match="undeclared reference"):
        evaluate("objekt.metadata", ask(POD, {}))
    assert not selects({"matchLabels": {"a": "b"}}, {"a": "c"})
