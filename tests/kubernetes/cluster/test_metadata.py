"""Labels and annotations of pods: names, precedence, defaults, and what is told about those that are wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedulerd.kubernetes.metadata.namespaces import namespace_tags
from schedulerd.kubernetes.metadata.pods import (
    User,
    daemon_set_named,
    may_be_preempted,
    may_preempt,
    only_node,
    read_metadata,
)
from schedulerd.kubernetes.objects.cluster import Namespace, PriorityClass
from schedulerd.kubernetes.objects.decode import convert
from schedulerd.kubernetes.objects.pod import Pod
from tests.kubernetes.builders import app, node_affinity, pod
from tests.loops import each_row

YUNIKORN = "yunikorn.apache.org/"
OWN = "schedulerd.io/"


def marked(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> Pod:
    return pod("p", labels=labels, meta={"annotations": annotations})


@each_row(
    ("labels", "annotations", "expected"),
    [
        ({OWN + "app-id": "a", YUNIKORN + "app-id": "b", "applicationId": "c"}, {}, "a"),
        ({YUNIKORN + "app-id": "b"}, {OWN + "app-id": "a"}, "a"),
        ({YUNIKORN + "app-id": "b"}, {YUNIKORN + "app-id": "c"}, "b"),
        ({"applicationId": "c", "spark-app-selector": "d"}, {YUNIKORN + "app-id": "b"}, "b"),
        ({"applicationId": "c", "spark-app-selector": "d"}, {}, "c"),
        ({"spark-app-selector": "d"}, {}, "d"),
        ({"applicationId": "", "spark-app-selector": "d"}, {}, "d"),
        ({}, {}, "yunikorn-ns-autogen"),
        ({"applicationId": "x-uniqueautogen"}, {}, "x-p"),
        ({"applicationId": "x" * 80}, {}, "x" * 63),
        ({"applicationId": "x" * 61 + "-uniqueautogen"}, {}, "x" * 61 + "-p"),
    ],
)
def test_the_application_id(labels: dict[str, str], annotations: dict[str, str], expected: str) -> None:
    assert read_metadata(marked(labels, annotations)).application_id == app(expected)


def test_pods_without_an_application_can_be_one_each() -> None:
    assert read_metadata(marked(), one_application_per_pod=True).application_id == app("ns-p")
    given = marked({"applicationId": "a"})
    assert read_metadata(given, one_application_per_pod=True).application_id == app("a")


def test_values_that_are_ignored_are_told() -> None:
    found = read_metadata(marked({OWN + "queue": "root.a", "queue": "root.b"}, {YUNIKORN + "queue": "root.a"}))
    assert found.queue == "root.a"
    (problem,) = found.problems
    assert problem == "queue 'root.a' of label schedulerd.io/queue is used; label queue differ and are ignored"
    assert read_metadata(marked({"queue": "root.b"})).problems == ()


def test_what_a_pod_says_to_other_schedulers_is_told() -> None:
    said = marked({"volcano.sh/queue-name": "q"}, {"scheduling.k8s.io/group-name": "job-1"})
    group, queue = read_metadata(said).problems
    assert group.startswith(
        "scheduling.k8s.io/group-name 'job-1' is for Volcano and is ignored: the pod has no gang here"
    )
    assert queue == "volcano.sh/queue-name 'q' is for Volcano and is ignored: the label queue names the queue here"
    groups = {"scheduling.k8s.io/group-name": "job-1", YUNIKORN + "task-group-name": "g"}
    assert read_metadata(marked({"volcano.sh/queue-name": "q", "queue": "root.q"}, groups)).problems == ()


@pytest.mark.parametrize(
    ("text", "user", "problem"),
    [
        ("", None, ""),
        ('{"user":"ann","groups":["dev","ops"]}', User("ann", ("dev", "ops")), ""),
        ('{"user":"ann"}', User("ann"), ""),
        ('{"user":7}', None, "cannot be read"),
        ("[" * 5000, None, "cannot be read"),
        ('{"groups":["dev"]}', None, "names no user"),
    ],
)
def test_the_user(text: str, user: User | None, problem: str) -> None:
    found = read_metadata(marked(annotations={YUNIKORN + "user.info": text}))
    assert found.user == user
    assert len(found.problems) == bool(problem)
    assert all(problem in one for one in found.problems)


def test_opting_out_of_preemption() -> None:
    def priority_class(said: str) -> PriorityClass:
        metadata = {"name": "c", "annotations": {YUNIKORN + "allow-preemption": said}}
        return convert(PriorityClass, {"metadata": metadata})

    def says(said: str) -> Pod:
        return marked(annotations={YUNIKORN + "allow-preemption": said})

    assert may_be_preempted(marked(), None)
    assert not may_be_preempted(says("false"), None)
    assert not may_be_preempted(marked(), priority_class("false"))
    assert may_be_preempted(says("true"), priority_class("false"))
    assert may_be_preempted(says("no"), priority_class("true"))
    assert may_preempt(marked())
    assert not may_preempt(pod(preemptionPolicy="Never"))


def test_the_daemon_set_that_a_pod_names() -> None:
    def named(**reference: Any) -> str:
        said = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "7", "controller": True, **reference}
        return daemon_set_named(pod(meta={"ownerReferences": [{"kind": "Node", "uid": "n"}, said]}))

    assert named() == "7"
    assert named(controller=False) == named(kind="ReplicaSet") == named(apiVersion="evil.io/v1") == ""
    assert daemon_set_named(pod()) == ""


def test_the_only_node_of_a_pod() -> None:
    def field(*names: str) -> Any:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [*names]}]}

    def node(*terms: Any) -> str:
        return only_node(pod(affinity=node_affinity(*terms)))

    assert node(field("n")) == node(field("n"), field("n")) == "n"
    assert node(field("n"), field("m")) == node(field("n", "m")) == node({}) == node(field("n"), {}) == ""
    assert only_node(pod()) == ""


def namespace(**annotations: str) -> Namespace:
    named = {YUNIKORN + name.replace("_", "."): text for name, text in annotations.items()}
    return convert(Namespace, {"metadata": {"name": "ns", "annotations": named}})


def test_quotas_of_a_namespace() -> None:
    found = namespace_tags(
        namespace(
            namespace_quota='{"cpu": "2500m", "memory": "1Gi", "nvidia.com/gpu": 2}',
            namespace_max_cpu="1",
            namespace_guaranteed='{"cpu": 1}',
            namespace_maxApps="3",
            parentqueue="root.team",
        )
    )
    assert found.problems == ()
    assert found.tags == {
        "namespace.resourcequota": '{"resources":{"memory":{"value":1073741824},"nvidia.com/gpu":{"value":2},'
        '"vcore":{"value":2500}}}',
        "namespace.resourceguaranteed": '{"resources":{"vcore":{"value":1000}}}',
        "namespace.resourcemaxapps": "3",
        "namespace.parentqueue": "root.team",
    }
    older = namespace_tags(namespace(namespace_max_cpu="1", namespace_max_memory="1k"))
    assert older.tags["namespace.resourcequota"] == '{"resources":{"memory":{"value":1000},"vcore":{"value":1000}}}'


@each_row(
    "annotations",
    [
        {"namespace_quota": '{"cpu": "much"}'},
        {"namespace_quota": "cpu=1"},
        {"namespace_quota": '{"cpu": -1}'},
        {"namespace_quota": '{"": "1"}'},
        {"namespace_quota": json.dumps({"cpu": 1, "x" * 257: 1})},
        {"namespace_guaranteed": json.dumps({f"r{number}": 1 for number in range(65)})},
        {"namespace_guaranteed": "[]"},
        {"namespace_max_cpu": "one"},
        {"namespace_maxApps": "-1"},
        {"namespace_maxApps": "²"},
    ],
)
def test_quotas_that_cannot_be_read_are_told_and_ignored(annotations: dict[str, str]) -> None:
    found = namespace_tags(namespace(**annotations))
    assert found.tags == {}
    assert len(found.problems) == 1


def test_a_quota_of_zero_is_a_quota_of_nothing() -> None:
    found = namespace_tags(namespace(namespace_quota='{"cpu": 0}', namespace_max_cpu="1"))
    assert found.tags == {"namespace.resourcequota": '{"resources":{"vcore":{"value":0}}}'}
    assert namespace_tags(namespace(namespace_quota="{}")).tags == {}
