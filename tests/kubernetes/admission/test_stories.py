"""Stories on a real API server with kubectl: people make pods, and the webhooks are there, slow, gone or wrong."""

from __future__ import annotations

import base64
import copy
import itertools
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from schedulerd.kubernetes.admission.certificates import renewed
from schedulerd.kubernetes.admission.rules.workloads import ANNOTATIONS, ANY, SPARK_CONF, Workload, pod_templates
from tests.kubernetes.admission.cluster import NAMESPACE, Cluster, Webhooks, bundle
from tests.kubernetes.admission.reviews import APP_ID, CUSTOM, CUSTOM_TEXTS, JSON, OWN, user_info
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer, assets, free_ports

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SETUP_SECONDS_MAX)]
LIMIT_SECONDS = 40.0
CONFIG_MAP = "schedulerd-queues"
FORGED = "names somebody else than 'ann', who sent the request"
VERSIONS = {"Job": "batch/v1", "CronJob": "batch/v1beta1", "ReplicationController": "v1"}
KINDS = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", *VERSIONS]
QUEUES = "partitions:\n  - name: default\n    queues:\n      - name: root\n        queues:\n          - name: a\n"


@pytest.fixture(scope="module")
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def cluster(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """On a server of its own: webhooks are for the whole cluster."""
    folder = assets()
    if folder is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    with RealServer(folder) as real:
        real.start_controllers()
        cluster = Cluster(real, tmp_path_factory.mktemp("admission"))
        cluster.install(port)
        yield cluster


@pytest.fixture(scope="module")
def webhooks(cluster: Cluster, port: int) -> Iterator[Webhooks]:
    """One process for all stories in which it is there; those in which it is not come last."""
    with Webhooks(cluster, port, f"--custom-resources={','.join(CUSTOM_TEXTS)}") as running:
        until(lambda: httpx.get(f"{running.http_url}/readyz").status_code == 200)
        yield running


def until(is_reached: Callable[[], object]) -> None:
    end_s = time.monotonic() + LIMIT_SECONDS
    while not is_reached():
        assert time.monotonic() < end_s, "not reached in time"
        time.sleep(0.2)  # processes of other people, which have no other way to say that they are ready


def template(name: str, annotations: JSON | None = None, restart: str = "Always") -> JSON:
    spec = {"restartPolicy": restart, "containers": [{"name": "main", "image": "pause"}]}
    return {"metadata": {"labels": {"app": name}, "annotations": annotations or {}}, "spec": spec}


def workload(kind: str, name: str, team: str, annotations: JSON | None = None) -> JSON:
    spec: JSON = {"template": template(name, annotations, "Never" if "Job" in kind else "Always")}
    if "Job" not in kind:
        spec["selector"] = {"matchLabels": {"app": name}}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    if kind == "CronJob":
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": spec}}
    if kind == "ReplicationController":
        spec["selector"] = {"app": name}
    version = VERSIONS.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": team}, "spec": spec}


def pod(name: str, team: str, annotations: JSON | None = None, **spec: Any) -> JSON:
    made = template(name, annotations)
    metadata = {**made["metadata"], "name": name, "namespace": team}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**made["spec"], **spec}}


def template_of(document: JSON) -> JSON:
    spec = document["spec"]
    found: JSON = spec["jobTemplate"]["spec"]["template"] if document["kind"] == "CronJob" else spec["template"]
    return found


def user_of(metadata: JSON) -> str:
    value = metadata.get("annotations", {}).get(OWN)
    return str(json.loads(value)["user"]) if value else ""


def pods_of(cluster: Cluster, app: str, team: str) -> list[JSON]:
    found = cluster.get("pods", namespace=team)["items"]
    return [one for one in found if one["metadata"].get("labels", {}).get("app") == app]


@pytest.mark.usefixtures("webhooks")
class TestWithWebhooks:
    def test_a_pod_becomes_its_makers(self, cluster: Cluster) -> None:
        cluster.team("pods")
        stored = cluster.create(pod("one", "pods"))
        assert stored["spec"]["schedulerName"] == "schedulerd"
        assert stored["metadata"]["labels"][APP_ID] == "yunikorn-pods-autogen"
        groups = json.loads(stored["metadata"]["annotations"][OWN])["groups"]
        assert user_of(stored["metadata"]) == "ann"
        assert sorted(groups) == ["dev", "system:authenticated"]
        dry = cluster.create(pod("two", "pods"), "bob", "--dry-run=server")
        assert (user_of(dry["metadata"]), dry["spec"]["schedulerName"]) == ("bob", "schedulerd")
        assert cluster.try_("get", "pod", "two", "-n", "pods").code != 0

    @pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"])
    def test_pods_that_controllers_make_are_the_persons(self, cluster: Cluster, kind: str) -> None:
        team = kind.lower()
        cluster.team(team)
        stored = cluster.create(workload(kind, "web", team))
        assert user_of(stored["spec"]["template"]["metadata"]) == "ann"
        until(lambda: pods_of(cluster, "web", team))
        (made,) = pods_of(cluster, "web", team)
        assert user_of(made["metadata"]) == "ann"
        assert made["spec"]["schedulerName"] == "schedulerd"

    def test_the_user_of_a_pod_is_not_changed_by_its_status(self, cluster: Cluster) -> None:
        cluster.team("status")
        stored = cluster.create(pod("one", "status"))
        path = "/api/v1/namespaces/status/pods/one/status"
        forged = copy.deepcopy(stored)
        forged["metadata"]["annotations"][OWN] = '{"user":"bob","groups":["dev"]}'
        refused = cluster.try_("replace", "--raw", path, "-f", "-", user="ann", given=forged)
        assert refused.code != 0
        assert FORGED in refused.error
        stored["metadata"]["annotations"]["other"] = "x"
        cluster("replace", "--raw", path, "-f", "-", user="ann", given=stored)
        annotations = cluster.get("pod", "one", "status")["metadata"]["annotations"]
        assert (json.loads(annotations[OWN])["user"], annotations["other"]) == ("ann", "x")

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_template_of_each_kind(self, cluster: Cluster, kind: str) -> None:
        team = f"of-{kind.lower()}"
        cluster.team(team)
        bob = {OWN: '{"user":"bob","groups":["dev"]}'}
        assert FORGED in cluster.refused(workload(kind, "web", team, bob))
        stored = cluster.create(workload(kind, "web", team))
        assert user_of(template_of(stored)["metadata"]) == "ann"
        assert FORGED in cluster.refused(workload(kind, "web", team, bob), verb="replace")
        if kind == "Job":
            return  # a Job's template is as it is
        changed = cluster.replace(workload(kind, "web", team, {"note": "x"}), "bob")
        assert user_of(template_of(changed)["metadata"]) == "ann", "kept, although it was left out"
        assert template_of(changed)["metadata"]["annotations"]["note"] == "x"
        mine = {OWN: user_info("bob", ["dev", "system:authenticated"])}
        taken = cluster.replace(workload(kind, "web", team, mine), "bob")
        assert user_of(template_of(taken)["metadata"]) == "bob"

    def test_an_update_by_somebody_else_rolls_nothing_out(self, cluster: Cluster) -> None:
        cluster.team("rollout")
        cluster.create(workload("Deployment", "web", "rollout"))
        cluster("label", "deployment", "web", "a=b", "-n", "rollout", user="bob")
        cluster("scale", "deployment", "web", "--replicas=2", "-n", "rollout", user="bob")
        found = cluster.get("deployment", "web", "rollout")
        assert user_of(found["spec"]["template"]["metadata"]) == "ann"
        cluster.replace(workload("Deployment", "web", "rollout"), "bob")
        found = cluster.get("deployment", "web", "rollout")
        assert user_of(found["spec"]["template"]["metadata"]) == "ann", "kept, although it was left out"
        until(lambda: cluster.get("deployment", "web", "rollout")["status"].get("observedGeneration", 0) >= 3)
        assert len(cluster.get("replicasets", namespace="rollout")["items"]) == 1

    def test_nobody_is_somebody_else(self, cluster: Cluster) -> None:
        cluster.team("forged")
        bob = {OWN: '{"user":"bob","groups":["dev"]}'}
        for document in (pod("p", "forged", bob), workload("Deployment", "web", "forged", bob)):
            text = cluster.refused(document)
            assert "names somebody else than 'ann', who sent the request" in text
            assert "schedulerd.io" in text
        assert user_of(cluster.create(pod("by-controller", "forged", bob), "")["metadata"]) == "bob"
        cluster.create(pod("p", "forged"))
        said = cluster.try_("annotate", "pod", "p", "-n", "forged", "--overwrite", f"{OWN}={bob[OWN]}", user="ann")
        assert "names somebody else" in said.error
        said = cluster.try_("annotate", "pod", "p", "-n", "forged", f"{OWN}-", user="ann")
        assert "cannot be changed" in said.error
        cluster("annotate", "pod", "p", "-n", "forged", "note=x", user="bob")

    def test_namespaces_that_do_not_want_to(self, cluster: Cluster) -> None:
        cluster.team("bypassed", {"schedulerd.io/namespace.enabled": "false"})
        stored = cluster.create(pod("p", "bypassed"))
        assert stored["spec"]["schedulerName"] == "default-scheduler"
        assert OWN not in stored["metadata"].get("annotations", {})
        assert "names somebody else" in cluster.refused(pod("q", "bypassed", {OWN: '{"user":"bob"}'}))
        for system in ("kube-system", NAMESPACE):
            cluster("create", "rolebinding", "dev", "-n", system, "--clusterrole=cluster-admin", "--group=dev")
            stored = cluster.create(pod("p", system, {OWN: '{"user":"bob"}'}))
            assert (user_of(stored["metadata"]), stored["spec"]["schedulerName"]) == ("bob", "default-scheduler")
            cluster("delete", "rolebinding", "dev", "-n", system)
            cluster("delete", "pod", "p", "-n", system, "--force", "--grace-period=0")

    def test_custom_resources(self, cluster: Cluster) -> None:
        cluster.team("custom")
        groups = sorted({(one.group, one.resource) for one in CUSTOM})
        cluster("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": [*map(definition, groups)]})
        until(lambda: all(cluster.try_("get", f"{name}.{group}", "-n", "custom").code == 0 for group, name in groups))
        bob = {OWN: '{"user":"bob","groups":["dev"]}'}
        for one in CUSTOM:
            assert FORGED in cluster.refused(custom(one, bob)), one
            owners = ["ann"] * len(template_paths(one))
            assert annotations_in(cluster.create(custom(one, {"a": "b"})), one) == owners, one
            changed = cluster.replace(custom(one, {"a": "c"}), "bob")
            assert annotations_in(changed, one) == owners, one
            assert FORGED in cluster.refused(custom(one, bob), verb="replace"), one

    def test_the_queue_files(self, cluster: Cluster) -> None:
        cluster("create", "rolebinding", "ops", "-n", NAMESPACE, "--clusterrole=edit", "--user=olga")
        said = cluster.try_("create", "-f", "-", user="olga", given=queues(QUEUES.replace("name: a", "name: a b")))
        assert said.code != 0
        assert "queues.yaml: line 6: partitions[0].queues[0].queues[0].name = 'a b'" in said.error
        said = cluster.try_("create", "-f", "-", user="olga", given=queues(QUEUES))
        assert said.code == 0, said.error
        assert "Warning: impact unknown: no daemon is set to ask (--daemon)" in said.error
        cluster("create", "-f", "-", user="olga", given=queues("nonsense", "other", {}))
        cluster("annotate", "configmap", CONFIG_MAP, "-n", NAMESPACE, "note=x", user="olga")

    def test_breaking_the_glass(self, cluster: Cluster) -> None:
        cluster("create", "rolebinding", "ops-2", "-n", NAMESPACE, "--clusterrole=edit", "--user=otto")
        broken = queues("nonsense", labels={"schedulerd.io/break-glass": "true"})
        assert "you have to be allowed the verb 'break-glass'" in cluster.refused(broken, "otto", verb="apply")
        cluster("create", "rolebinding", "glass", "-n", NAMESPACE, "--role=schedulerd-break-glass", "--user=otto")
        until(lambda: cluster.try_("apply", "-f", "-", user="otto", given=broken).code == 0)
        said = cluster.try_("annotate", "configmap", CONFIG_MAP, "-n", NAMESPACE, "again=1", user="otto")
        assert said.code == 0, said.error

    def test_metrics_and_rights(self, webhooks: Webhooks) -> None:
        text = httpx.get(f"{webhooks.http_url}/metrics").text
        for webhook, operation, result in (
            ("mutate", "CREATE", "patched"),
            ("mutate", "UPDATE", "patched"),
            ("mutate", "CREATE", "refused"),
            ("check-users", "CREATE", "allowed"),
            ("check-users", "UPDATE", "refused"),
            ("check-queues", "CREATE", "refused"),
        ):
            counted = f'operation="{operation}",result="{result}",webhook="{webhook}"'
            assert f"schedulerd_admission_reviews_total{{{counted}}}" in text
        for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            assert f'schedulerd_admission_ca_bundle_current{{configuration="{resource}"}} 1.0' in text
        failed = re.findall(r"^schedulerd_admission_reviews_failed_total\{.*\} (.*)$", text, re.MULTILINE)
        assert set(failed) == {"0.0"}


class TestWithoutWebhooks:
    """In this order: they change how the webhooks are found."""

    def test_slow(self, cluster: Cluster, webhooks: Webhooks, port: int) -> None:
        assert webhooks.stop() == 0
        cluster.team("without")
        with socket.create_server(("127.0.0.1", port)):  # takes connections, and says nothing
            started_s = time.monotonic()
            cluster("patch", "mutatingwebhookconfiguration", "schedulerd", "-p", one_second("pods.schedulerd.io"))
            cluster("patch", "validatingwebhookconfiguration", "schedulerd", "-p", one_second("users.schedulerd.io"))
            answer(cluster, "Fail")
            assert "users.schedulerd.io" in cluster.refused(pod("p", "without")), "forged or not: nobody can tell"
            answer(cluster, "Ignore")
            stored = as_it_is(cluster, pod("p", "without"))
            assert time.monotonic() - started_s < LIMIT_SECONDS
        assert stored["spec"]["schedulerName"] == "default-scheduler"

    def test_gone(self, cluster: Cluster) -> None:
        assert as_it_is(cluster, pod("q", "without"))["spec"]["schedulerName"] == "default-scheduler"
        cluster("apply", "-f", "-", given=queues("nonsense too"))
        assert cluster.get("configmap", CONFIG_MAP, NAMESPACE)["data"] == {"queues.yaml": "nonsense too"}

    @pytest.mark.nightly
    def test_a_wrong_authority_is_put_right(self, cluster: Cluster, port: int) -> None:
        before = bundle(cluster)
        wrong = renewed(None, ["schedulerd-admission.schedulerd.svc"], datetime.now(UTC)).ca_certificates
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            set_bundle(cluster, kind, wrong)
        with Webhooks(cluster, port) as running:
            running.wait_for("MutatingWebhookConfiguration schedulerd has the authorities")
            running.wait_for("a certificate that is valid until")
            assert bundle(cluster) == before, "that of the Secret, which was there"
            until(lambda: httpx.get(f"{running.http_url}/readyz").status_code == 200)
            until(lambda: not may_forge(cluster))
            set_bundle(cluster, "mutatingwebhookconfigurations", wrong)
            set_bundle(cluster, "validatingwebhookconfigurations", wrong)
            until(lambda: may_forge(cluster))
            running.wait_for("ValidatingWebhookConfiguration schedulerd has the authorities")
            until(lambda: not may_forge(cluster))
            assert bundle(cluster) == bundle(cluster, "validatingwebhookconfigurations")[:1] == before
            assert running.stop() == 0


def as_it_is(cluster: Cluster, document: JSON) -> JSON:
    """Created by the API server alone."""
    found: JSON = json.loads(cluster("create", "-f", "-", "-o", "json", user="ann", given=document))
    return found


def may_forge(cluster: Cluster) -> bool:
    """Whether the webhook, which may be ignored, is not heard."""
    forged = pod("r", "without", {OWN: '{"user":"bob"}'})
    return cluster.try_("create", "-f", "-", "--dry-run=server", user="ann", given=forged).code == 0


def queues(text: str, name: str = CONFIG_MAP, labels: JSON | None = None) -> JSON:
    marked = {"schedulerd.io/queue-files": "true", **(labels or {})} if labels != {} else {}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": marked}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"queues.yaml": text}}


def one_second(webhook: str) -> str:
    return json.dumps({"webhooks": [{"name": webhook, "timeoutSeconds": 1}]})


def answer(cluster: Cluster, policy: str) -> None:
    """What the API server does without an answer."""
    patch = {"webhooks": [{"name": "users.schedulerd.io", "failurePolicy": policy}]}
    cluster("patch", "validatingwebhookconfiguration", "schedulerd", "-p", json.dumps(patch))


def set_bundle(cluster: Cluster, kind: str, authorities: bytes) -> None:
    text = base64.b64encode(authorities).decode()
    names = [webhook["name"] for webhook in cluster.get(kind, "schedulerd")["webhooks"]]
    patch = {"webhooks": [{"name": name, "clientConfig": {"caBundle": text}} for name in names]}
    cluster("patch", kind, "schedulerd", "-p", json.dumps(patch))


def definition(kind: tuple[str, str]) -> JSON:
    """A CustomResourceDefinition that takes everything."""
    group, resource = kind
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    singular = resource.removesuffix("s")
    names = {"kind": singular.title(), "listKind": f"{singular.title()}List", "plural": resource, "singular": singular}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{resource}.{group}",
            "annotations": {"api-approved.kubernetes.io": "https://example.com"},
        },
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def template_paths(kind: Workload) -> list[tuple[str, ...]]:
    return [path for path in kind.paths if path[-1] != SPARK_CONF]


def custom(kind: Workload, annotations: JSON) -> JSON:
    """An object with a template, or annotations, at each of the paths."""
    metadata = {"name": "o", "namespace": "custom"}
    version, made = f"{kind.group}/v1", kind.resource.removesuffix("s").title()
    document: JSON = {"apiVersion": version, "kind": made, "metadata": metadata}
    for path in template_paths(kind):
        at: Any = document
        for step, after in itertools.pairwise(path):
            if step != ANY:
                at = at.setdefault(step, [{"name": "w"}] if after == ANY and path[-1] != ANNOTATIONS else {})
            else:
                at = at[0]
        at[path[-1]] = annotations if path[-1] == ANNOTATIONS else {"metadata": {"annotations": annotations}}
    return document


def annotations_in(document: JSON, kind: Workload) -> list[str]:
    """Users of the templates at the paths."""
    templates = pod_templates(kind, document)
    assert templates is not None
    return [user_of({"annotations": one.annotations}) for one in templates]
