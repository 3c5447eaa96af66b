"""The ValidatingAdmissionPolicy about forged users, run by a server that has policies: from Kubernetes 1.30 on.

A policy that refuses nothing looks like one that has nothing to refuse. So the first test waits for a control to be
refused, and each test has one that has to be refused beside those that have to pass.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML

from tests.kubernetes.admission.reviews import OWN, YUNIKORN
from tests.kubernetes.contract.conftest import SETUP_SECONDS_MAX
from tests.kubernetes.contract.real_server import RealServer, assets
from tests.kubernetes.rights import MANIFESTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SETUP_SECONDS_MAX)]
JSON = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
KINDS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
}
OBJECTS = list(YAML(typ="safe").load_all((MANIFESTS / "admission" / "webhooks.yaml").read_text()))
TEAM, GROUPS = "team", ["dev", "system:authenticated"]
IN_FORCE_SECONDS = 60.0
"""For the server to take a new policy into force."""
POD_SPEC = {"containers": [{"name": "main", "image": "pause"}], "restartPolicy": "Never"}


class Server:
    """A real server with the policy of the manifests, as people see it."""

    def __init__(self, real: RealServer) -> None:
        self._client = httpx.Client(
            base_url=real.url, verify=False, timeout=30.0, headers={"Authorization": f"Bearer {real.token}"}
        )

    def __call__(
        self, method: str, path: str, body: JSON | None = None, user: str = "", kind: str = "application/json"
    ) -> httpx.Response:
        """As administrator, or as a user of the group dev."""
        headers = [("Content-Type", kind)]
        if user:
            headers += [("Impersonate-User", user), *(("Impersonate-Group", one) for one in GROUPS)]
        return self._client.request(method, path, content=json.dumps(body), headers=headers)

    def close(self) -> None:
        self._client.close()

    def put_up(self) -> None:
        """A namespace in which everybody of dev may do everything, and the policy."""
        made = [
            self("POST", "/api/v1/namespaces", {"metadata": {"name": TEAM}}),
            self(
                "POST",
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                {
                    "metadata": {"name": "dev"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "cluster-admin",
                    },
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "dev"}],
                },
            ),
        ]
        for one in OBJECTS:
            dry = "?dryRun=All" if "Webhook" in one["kind"] else ""  # conditions are compiled; nobody would answer
            made.append(self("POST", f"{GROUP}/{KINDS[one['kind']]}{dry}", one))
        assert [one.text for one in made if one.status_code != 201] == []

    def refusal(self, method: str, path: str, body: JSON, user: str = "ann", **more: Any) -> str:
        """What the policy says; empty if the request passes."""
        answer = self(method, path, body, user, **more)
        if answer.is_success:
            return ""
        message = str(answer.json()["message"])
        assert "ValidatingAdmissionPolicy" in message, message
        return message


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """On a server of its own: a policy is for the whole cluster."""
    folder = assets()
    if folder is None:
        pytest.skip("KUBEBUILDER_ASSETS names no folder with a real API server")
    with RealServer(folder) as real:
        made = Server(real)
        known = made("GET", GROUP).json().get("resources", ())
        if "validatingadmissionpolicies" not in {one["name"] for one in known}:
            version = made("GET", "/version").json()["gitVersion"]
            made.close()
            pytest.skip(f"kube-apiserver {version} has no ValidatingAdmissionPolicy (1.30 is the first)")
        made.put_up()
        end_s = time.monotonic() + IN_FORCE_SECONDS
        while not made.refusal("POST", pods(dry=True), pod("control", {OWN: info("bob")})):
            assert time.monotonic() < end_s, "the policy refuses nothing"
            time.sleep(0.2)  # a process of somebody else, which has no other way to say that it is ready
        yield made
        made.close()


def info(user: str) -> str:
    return json.dumps({"user": user, "groups": GROUPS}, separators=(",", ":"))


def pods(name: str = "", *, dry: bool = False) -> str:
    return f"/api/v1/namespaces/{TEAM}/pods{name and '/' + name}" + ("?dryRun=All" if dry else "")


def pod(name: str, annotations: JSON | None = None) -> JSON:
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": POD_SPEC}


@pytest.mark.parametrize("key", [OWN, YUNIKORN])
def test_a_forged_user_of_a_pod_is_refused(server: Server, key: str) -> None:
    assert "names somebody else than ann" in server.refusal("POST", pods(dry=True), pod("p", {key: info("bob")}))
    for harmless in ({}, {"other": "x"}, {key: ""}, {key: info("ann")}):
        assert server.refusal("POST", pods(dry=True), pod("p", harmless)) == ""


WORKLOADS = {
    "replicationcontrollers": ("/api/v1", ("spec", "template")),
    "deployments": ("/apis/apps/v1", ("spec", "template")),
    "replicasets": ("/apis/apps/v1", ("spec", "template")),
    "statefulsets": ("/apis/apps/v1", ("spec", "template")),
    "daemonsets": ("/apis/apps/v1", ("spec", "template")),
    "jobs": ("/apis/batch/v1", ("spec", "template")),
    "cronjobs": ("/apis/batch/v1", ("spec", "jobTemplate", "spec", "template")),
}


def workload(resource: str, annotations: JSON) -> JSON:
    restart = "Never" if "job" in resource else "Always"
    template: JSON = {
        "metadata": {"labels": {"app": "a"}, "annotations": annotations},
        "spec": {**POD_SPEC, "restartPolicy": restart},
    }
    spec: JSON = {"template": template}
    if resource == "cronjobs":
        spec = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}
    elif resource == "replicationcontrollers":
        spec["selector"] = {"app": "a"}
    elif resource != "jobs":
        spec["selector"] = {"matchLabels": {"app": "a"}}
    if resource == "statefulsets":
        spec["serviceName"] = "a"
    return {"metadata": {"name": "w"}, "spec": spec}


@pytest.mark.parametrize("resource", WORKLOADS)
def test_a_forged_user_of_a_template_is_refused(server: Server, resource: str) -> None:
    prefix, path = WORKLOADS[resource]
    url = f"{prefix}/namespaces/{TEAM}/{resource}"
    assert "names somebody else" in server.refusal("POST", url, workload(resource, {OWN: info("bob")}))
    assert server.refusal("POST", url, workload(resource, {OWN: info("ann")})) == ""
    forged: JSON = {"metadata": {"annotations": {OWN: info("eve")}}}
    kept: JSON = {"metadata": {"annotations": {"other": "x"}}}
    for step in reversed(path):
        forged, kept = {step: forged}, {step: kept}
    merge = "application/merge-patch+json"
    if resource != "jobs":  # whose template cannot be changed at all
        # What was there stays, whoever changes the rest.
        assert server.refusal("PATCH", f"{url}/w", kept, "bob", kind=merge) == ""
        assert "names somebody else" in server.refusal("PATCH", f"{url}/w", forged, "bob", kind=merge)


def test_the_user_of_a_living_pod_does_not_change(server: Server) -> None:
    merge = "application/merge-patch+json"
    assert server.refusal("POST", pods(), pod("living", {OWN: info("ann")})) == ""
    for part in ("", "/status"):
        at = pods("living") + part
        for value in (info("bob"), None):
            forged: JSON = {"metadata": {"annotations": {OWN: value}}}
            assert server.refusal("PATCH", at, forged, kind=merge), (part, value)
            assert server.refusal("PATCH", at, forged, "bob", kind=merge), (part, value)
        assert server.refusal("PATCH", at, {"metadata": {"annotations": {"other": "x"}}}, "bob", kind=merge) == ""
        document = server("GET", pods("living")).json()
        changed = copy.deepcopy(document)
        changed["metadata"]["annotations"][YUNIKORN] = info("ann")
        assert server.refusal("PUT", at, changed), part
        assert server.refusal("PUT", at, document) == ""
    stored = server("GET", pods("living")).json()["metadata"]["annotations"]
    assert stored[OWN] == info("ann")
    assert YUNIKORN not in stored


def test_a_binding_gives_a_pod_no_user(server: Server) -> None:
    assert server.refusal("POST", pods(), pod("bound")) == ""
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    for url in (f"{pods('bound')}/binding", f"/api/v1/namespaces/{TEAM}/bindings"):
        forged = {"metadata": {"name": "bound", "annotations": {OWN: info("bob")}}, "target": target}
        assert server.refusal("POST", url, forged), url
    assert server.refusal("POST", f"{pods('bound')}/binding", {"metadata": {"name": "bound"}, "target": target}) == ""


def test_the_trusted_write_everybody(server: Server) -> None:
    for user in ("system:kube-controller-manager", "system:serviceaccount:schedulerd:schedulerd"):
        assert server.refusal("POST", pods(dry=True), pod("p", {OWN: info("bob")}), user) == ""
    assert server.refusal("POST", pods(dry=True), pod("p", {OWN: info("bob")}), "system:kube-controller-manager-2")
