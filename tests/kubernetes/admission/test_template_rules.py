"""Pod templates of all kinds: where they are, whose they become, and what an update does to them."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from schedulerd.kubernetes.admission.rules.pods import check_users, mutate
from schedulerd.kubernetes.admission.rules.review import Decision
from schedulerd.kubernetes.admission.rules.workloads import BUILT_IN, SPARK_CONF, Workload, parse_workload
from tests.kubernetes.admission.reviews import CUSTOM, JSON, OWN, YUNIKORN, patched, request, rules, user_info
from tests.loops import each_row

RULES = rules()
APPS = {"apps": ["deployments", "replicasets", "statefulsets", "daemonsets"], "batch": ["jobs", "cronjobs"]}
ANN, BOB = user_info("ann"), user_info("bob")
DEPLOYMENTS = ("apps", "deployments")
SPARK_APPLICATIONS = ("sparkoperator.k8s.io", "sparkapplications")


def at(path: str, value: Any) -> JSON:
    """An object with a value at a path; `*` is the element `a` of a map."""
    for step in reversed(path.split(".")):
        value = {"a" if step == "*" else step: value}
    assert isinstance(value, dict)
    return value


def template(annotations: JSON | None = None, image: str = "one", **spec: Any) -> JSON:
    made: JSON = {"spec": {"containers": [{"image": image}], **spec}}
    if annotations is not None:
        made["metadata"] = {"annotations": annotations}
    return made


def deployment(annotations: JSON | None = None, image: str = "one", replicas: int = 1, **spec: Any) -> JSON:
    return {"spec": {"replicas": replicas, "template": template(annotations, image, **spec)}}


def annotations_of(stored: JSON) -> JSON:
    found: JSON = stored["spec"]["template"].get("metadata", {}).get("annotations", {})
    return found


def after(new: JSON, old: JSON | None = None, resource: tuple[str, str] = DEPLOYMENTS, **more: Any) -> JSON:
    """As it is stored; a second call changes nothing."""
    decision = mutate(RULES, request(copy.deepcopy(new), old, resource=resource, **more), None)
    assert decision.is_allowed, decision.refusal
    stored = patched(new, decision.patch)
    again = mutate(RULES, request(copy.deepcopy(stored), old, resource=resource, **more), None)
    assert (again.is_allowed, again.patch) == (True, ())
    return stored


@each_row(
    ("resource", "path"),
    [
        ((one.group, one.resource), ".".join(path))
        for one in (*BUILT_IN, *CUSTOM)
        for path in one.paths
        if path[-1] != SPARK_CONF
    ],
)
def test_every_kind_gets_its_user_where_its_pods_take_it_from(resource: tuple[str, str], path: str) -> None:
    is_template = not path.endswith("annotations")
    parent = path if is_template else path.rpartition(".")[0]
    stored = after(at(parent, template()), resource=resource)
    found: Any = stored
    for step in parent.split("."):
        found = found["a" if step == "*" else step]
    assert (found["metadata"] if is_template else found)["annotations"] == {OWN: ANN}
    forged = at(parent, template({OWN: BOB}) if is_template else {"annotations": {OWN: BOB}})
    for decide in (
        check_users(RULES, request(forged, resource=resource)),
        mutate(RULES, request(forged, resource=resource), None),
    ):
        assert "names somebody else" in decide.refusal


def test_the_kinds_of_kubernetes_are_there() -> None:
    assert {(one.group, one.resource) for one in BUILT_IN} == {
        ("", "replicationcontrollers"),
        *((group, name) for group, names in APPS.items() for name in names),
    }


def test_the_patch_is_as_small_as_it_can_be() -> None:
    value = {OWN: ANN}
    cases: tuple[tuple[JSON, JSON], ...] = (
        (deployment(), {"op": "add", "path": "/spec/template/metadata", "value": {"annotations": value}}),
        (
            {"spec": {"template": {"metadata": {"labels": {}}}}},
            {"op": "add", "path": "/spec/template/metadata/annotations", "value": value},
        ),
        (
            deployment({"a": "b"}),
            {"op": "add", "path": "/spec/template/metadata/annotations/schedulerd.io~1user.info", "value": ANN},
        ),
        (
            deployment({OWN: ""}),
            {"op": "replace", "path": "/spec/template/metadata/annotations/schedulerd.io~1user.info", "value": ANN},
        ),
        (
            {"spec": {"template": {"metadata": {"annotations": None}}}},
            {"op": "add", "path": "/spec/template/metadata/annotations", "value": value},
        ),
    )
    for document, operation in cases:
        assert mutate(RULES, request(document, resource=DEPLOYMENTS), None).patch == (operation,)


def test_an_update_that_leaves_the_template_rolls_nothing_out() -> None:
    assert after(deployment(replicas=3), deployment()) == deployment(replicas=3)
    assert after(deployment({OWN: BOB}, replicas=3), deployment({OWN: BOB})) == deployment({OWN: BOB}, replicas=3)


def test_an_update_of_the_template_makes_it_yours_if_it_was_nobodys() -> None:
    assert annotations_of(after(deployment(image="two"), deployment())) == {OWN: ANN}


def test_an_update_of_somebody_elses_template_leaves_it_theirs() -> None:
    assert annotations_of(after(deployment({OWN: BOB}, "two"), deployment({OWN: BOB}))) == {OWN: BOB}


@pytest.mark.parametrize("key", [OWN, YUNIKORN])
def test_a_user_that_is_left_out_stays(key: str) -> None:
    assert annotations_of(after(deployment(), deployment({key: BOB}))) == {key: BOB}
    assert annotations_of(after(deployment(None, "two"), deployment({key: BOB, "a": "b"}))) == {key: BOB}


def test_you_may_take_over() -> None:
    assert annotations_of(after(deployment({OWN: ANN}, "two"), deployment({OWN: BOB}))) == {OWN: ANN}


def test_you_may_not_give_it_to_others() -> None:
    forged = request(deployment({OWN: BOB}), deployment({OWN: ANN}), resource=DEPLOYMENTS)
    assert (
        "spec.template.metadata.annotations: annotation schedulerd.io/user.info" in mutate(RULES, forged, None).refusal
    )


def test_controllers_change_nothing() -> None:
    for user in ("system:serviceaccount:kube-system:deployment-controller", "system:kube-controller-manager"):
        for document in (deployment(), deployment({OWN: BOB})):
            found = request(document, resource=("apps", "replicasets"), user=user)
            assert mutate(RULES, found, None) == Decision()


def test_templates_of_other_schedulers_and_namespaces_are_left_alone() -> None:
    assert after(deployment(schedulerName="volcano")) == deployment(schedulerName="volcano")
    for found in (rules(bypass_namespaces=("team",)), rules(process_namespaces=("other",))):
        assert mutate(found, request(deployment(), resource=DEPLOYMENTS), None) == Decision()
        named = mutate(found, request(deployment(schedulerName="schedulerd"), resource=DEPLOYMENTS), None)
        assert len(named.patch) == 1


def test_elements_of_lists_are_found_again_by_name() -> None:
    def cluster(*groups: tuple[str, JSON | None]) -> JSON:
        return {"spec": {"workerGroupSpecs": [{"groupName": n, "template": template(a)} for n, a in groups]}}

    ray = ("ray.io", "rayclusters")
    old = cluster(("a", {OWN: BOB}))
    stored = after(cluster(("b", None), ("a", {OWN: BOB})), old, ray)
    groups = stored["spec"]["workerGroupSpecs"]
    assert [one["template"]["metadata"]["annotations"][OWN] for one in groups] == [ANN, BOB]
    copied = request(cluster(("b", {OWN: BOB}), ("a", {OWN: BOB})), old, resource=ray)
    assert "workerGroupSpecs.0" in mutate(RULES, copied, None).refusal


def test_every_role_of_a_job_gets_the_user() -> None:
    roles = {"Master": {"template": template()}, "Wor/ker~": {"template": template({"a": "b"})}}
    job = {"spec": {"pytorchReplicaSpecs": roles}}
    decision = mutate(RULES, request(job, resource=("kubeflow.org", "pytorchjobs")), None)
    assert [one["path"] for one in decision.patch] == [
        "/spec/pytorchReplicaSpecs/Master/template/metadata",
        "/spec/pytorchReplicaSpecs/Wor~1ker~0/template/metadata/annotations/schedulerd.io~1user.info",
    ]


def test_executors_of_spark_are_the_drivers_business() -> None:
    application: JSON = {"spec": {"driver": {}, "executor": {}}}
    stored = after(application, resource=("sparkoperator.k8s.io", "sparkapplications"))
    assert stored == {"spec": {"driver": {"annotations": {OWN: ANN}}, "executor": {}}}


SPARK = [(kind, path) for kind in CUSTOM for path in kind.paths if path[-1] == SPARK_CONF]
PROPERTY = "spark.kubernetes.{}.annotation.{}"


@pytest.mark.parametrize(("kind", "path"), SPARK, ids=lambda one: getattr(one, "group", None))
def test_properties_of_spark_name_nobody_else(kind: Workload, path: tuple[str, ...]) -> None:
    """The operator, who is trusted, makes annotations of them."""
    resource, where = (kind.group, kind.resource), ".".join(path)

    def refusal(properties: JSON, before: JSON | None = None, **more: Any) -> str:
        old = None if before is None else at(where, before)
        asked = request(at(where, properties), old, resource=resource, **more)
        assert (check_users(RULES, asked).refusal == "") is mutate(RULES, asked, None).is_allowed
        return check_users(RULES, asked).refusal

    for role, key in itertools.product(("driver", "executor"), (OWN, YUNIKORN)):
        name = PROPERTY.format(role, key)
        assert f"{where}: annotation {key} names somebody else" in refusal({name: BOB})
        assert refusal({name: ANN}) == refusal({name: ""}) == refusal({name: BOB}, {name: BOB}) == ""
        assert refusal({name: BOB}, {name: ANN}) != ""
        assert refusal({name: BOB}, user="system:serviceaccount:kube-system:x") == ""
        # Key and value are joined by "=", and split at the first.
        assert "names somebody else" in refusal({f'{name}={{"user":"bob","x":"': '"}'})
    file = "spark.kubernetes.driver.podTemplateFile"
    for forged in ({file: "s3a://bob/pod.yaml"}, {f"{file}=s3a://bob": ""}):
        assert "leads to a pod template that cannot be checked" in refusal(forged)
        assert refusal(forged, forged) == ""
    assert refusal({"spark.kubernetes.executor.podTemplateFile": "a", "spark.executor.memory": "1g"}) == ""
    assert mutate(RULES, request(at(where, {"a": "b"}), resource=resource), None).patch == ()


def test_a_key_that_an_operator_would_split_is_refused() -> None:
    annotations = {f'{OWN}={{"user":"bob","x":"': '"}'}
    asked = request({"spec": {"driver": {"annotations": annotations}}}, resource=SPARK_APPLICATIONS)
    assert "spec.driver.annotations: annotation schedulerd.io/user.info" in check_users(RULES, asked).refusal


def test_the_template_of_a_driver_gets_the_user_too() -> None:
    stored = after({"spec": {"driver": {"template": template()}}}, resource=SPARK_APPLICATIONS)
    driver = stored["spec"]["driver"]
    assert driver["annotations"] == driver["template"]["metadata"]["annotations"] == {OWN: ANN}


@each_row(
    "document",
    [
        {},
        {"spec": {}},
        {"spec": None},
        {"spec": {"template": None}},
        {"spec": {"template": "text"}},
        {"spec": {"template": [1]}},
        {"spec": {"template": {"metadata": "text"}}},
        {"spec": {"template": {"metadata": {"annotations": ["a"]}}}},
        {"spec": {"template": {"metadata": {"annotations": {OWN: 5}}, "spec": 7}}},
    ],
)
def test_objects_without_a_template_where_one_should_be(document: JSON) -> None:
    ours = rules(custom_resources=("example.com/things=spec.template",))
    decision = mutate(ours, request(document, resource=("example.com", "things")), None)
    assert decision.patch == ()
    assert decision.is_allowed == (OWN not in str(document)), "a user that cannot be read is not the requester"


def test_only_so_many_templates_are_read() -> None:
    def job(count: int) -> JSON:
        return {"spec": {"replicatedJobs": [{"template": {"spec": {"template": {}}}} for _ in range(count)]}}

    jobsets = ("jobset.x-k8s.io", "jobsets")
    assert len(mutate(RULES, request(job(1_000), resource=jobsets), None).patch) == 1_000
    assert "more than 1000 pod templates" in mutate(RULES, request(job(1_001), resource=jobsets), None).refusal


def test_kinds_are_a_setting() -> None:
    ours = rules(custom_resources="example.com/batches=spec.parts.*.pod+spec.labels.annotations")
    batch = {"spec": {"parts": [{"pod": {}}, {"other": 1}], "labels": {}}}
    decision = mutate(ours, request(batch, resource=("example.com", "batches")), None)
    assert [one["path"] for one in decision.patch] == ["/spec/parts/0/pod/metadata", "/spec/labels/annotations"]
    assert mutate(ours, request(deployment(), resource=("ray.io", "rayclusters")), None) == Decision()


@each_row(
    "text",
    [
        "",
        "a/b",
        "a/b=",
        "/b=spec",
        "a/=spec",
        "a/b/c=spec",
        "a/b=spec..x",
        "a/b=spec.*",
        "a/b=x+",
        "a/b=" + "x" * 3_000,
    ],
)
def test_a_kind_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be GROUP/RESOURCE=PATH|a path ends with"):
        parse_workload(text)
