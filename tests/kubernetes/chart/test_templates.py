"""What the chart makes of its values, on servers of many versions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import schedulerd
from tests.kubernetes.chart.helm import (
    CHART,
    CUSTOM,
    HelmFailed,
    needs_helm,
    one_of,
    render,
    run,
    scheduler,
)
from tests.kubernetes.command_lines import settings_of
from tests.kubernetes.rights import SCHEDULING_GROUPS, Right, granted, rights_of
from tests.loops import each_row
from tests.packaging.dockerfile import parse

pytestmark = needs_helm
JSON = dict[str, Any]
ALONE = {"replicas": 1, "leaderElection": {"enabled": False}}
EVERYTHING: JSON = {
    "fullnameOverride": "batch",
    "commonLabels": {"team": "platform"},
    "image": {"repository": "registry.example/schedulerd", "digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "schedulerNames": ["schedulerd", "yunikorn"],
    "gangs": {"podGroups": True, "schedulingGroups": True},
    "daemon": {
        "extraArgs": ["--retention-days=1"],
        "extraEnv": [{"name": "SCHEDULERD_INBOX_MAX", "value": "500"}],
        "extraVolumeMounts": [{"name": "journal", "mountPath": "/var/lib/schedulerd"}],
        "httpTokens": {"existingSecret": "tokens", "key": "t"},
        "debugState": False,
    },
    "shim": {
        "extraArgs": ["--writes-per-s=500"],
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraVolumeMounts": [{"name": "journal", "mountPath": "/var/lib/schedulerd"}],
    },
    "serviceAccount": {"annotations": {"a/b": "c"}},
    "podLabels": {"p": "q"},
    "podAnnotations": {"r": "s"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "control", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        "webhooksFrom": [{"ipBlock": {"cidr": "10.1.2.3/32"}}],
        "apiServers": [{"cidr": "10.1.2.3/32", "port": 6443}],
    },
    "podMonitor": {
        "labels": {"release": "prometheus", "team": "monitoring"},
        "interval": "15s",
        "scrapeTimeout": "10s",
        "relabelings": [{"action": "labeldrop", "regex": "pod_.*"}],
        "metricRelabelings": [{"action": "drop", "regex": "x", "sourceLabels": ["__name__"]}],
    },
    "prometheusRule": {"runbookUrl": "https://docs.example/runbooks/"},
    "bindAddress": "[::]",
    "resourceQuota": {"enabled": True, "pods": 7},
    "revisionHistoryLimit": 3,
    "service": {"annotations": {"a/b": "c"}, "type": "NodePort"},
    "extraVolumes": [{"name": "journal", "emptyDir": {}}],
    "admission": {
        "enabled": True,
        "excludedNamespaces": ["cni", "storage"],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "ports": {"webhooks": 10443, "http": 10082},
        "podLabels": {"u": "v"},
        "nodeSelector": {"infra": "true"},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "processNamespaces": ["team-.*"],
        "labelNamespaces": ["team-.*"],
        "noLabelNamespaces": ["team-x"],
        "oneApplicationPerPod": True,
        "trustedGroups": ["ops"],
        "customResources": [{"group": "example.com", "resource": "batches", "paths": ["spec.a", "spec.b.*.template"]}],
        "breakGlass": {"subjects": [{"kind": "Group", "name": "ops", "apiGroup": "rbac.authorization.k8s.io"}]},
        "extraArgs": ["--drain-timeout-s=3"],
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "affinity": {"podAntiAffinity": {}},
        "serviceAccount": {"annotations": {"a/b": "c"}},
    },
    "helmTest": {"podLabels": {"queue": "root.default"}},
}
OFF: JSON = {"enabled": False}
MATRIX: dict[str, JSON] = {
    "defaults": {},
    "webhooks": {"admission": {"enabled": True}},
    "webhooks on the network of nodes": {"admission": {"enabled": True, "hostNetwork": True}},
    "alone": ALONE,
    "everything": EVERYTHING,
    "no placeholders": {"gangs": {"placeholders": "none", "podGroups": "false"}},
    "objects of others": {
        "queueFile": {"existingConfigMap": "yunikorn-configs"},
        "admission": {"enabled": True},
        "serviceAccount": {"create": False, "name": "theirs"},
        "rbac": {"create": False},
    },
    "as little as possible": {
        **dict.fromkeys(
            ("podDisruptionBudget", "flowSchemas", "networkPolicy", "podMonitor", "prometheusRule", "dashboards"), OFF
        ),
        "admission": OFF,
        "priorityClassName": "",
        "podSecurityContext": None,
    },
    "certificates of cert-manager": {"admission": {"enabled": True, "certificates": {"source": "cert-manager"}}},
    "certificates of an issuer": {
        "admission": {
            "enabled": True,
            "certificates": {"source": "cert-manager", "issuer": {"name": "ours", "kind": "ClusterIssuer"}},
            "impact": OFF,
        }
    },
    "webhooks alone": {
        "admission": {
            "enabled": True,
            "forgedUsers": {"refusedBy": "webhook", "failurePolicy": "Fail"},
            "customResources": [],
            "url": "https://webhooks.example:8443",
        }
    },
}
OF_OTHERS = ("monitoring.coreos.com/", "cert-manager.io/")
"""API groups for which there are no schemas."""


@each_row("name", MATRIX)
def test_lint(name: str) -> None:
    out = run("lint", str(CHART), "--strict", "--values", "-", given=json.dumps(MATRIX[name]))
    assert "0 chart(s) failed" in out


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(("defaults", "everything"), id="few"),
        pytest.param(tuple(MATRIX), id="nightly", marks=pytest.mark.nightly),
    ],
)
def test_old_and_new_versions_of_kubernetes_take_the_objects(names: tuple[str, ...]) -> None:
    import kubernetes_validate  # takes four seconds, which no other test need wait
    from kubernetes_validate.utils import all_versions, major_minor

    versions = [one for one in map(major_minor, all_versions()) if int(one.partition(".")[2]) >= 28]
    assert len(versions) >= 9, "versions of which there are schemas"
    for name in names:
        for version in (versions[0], versions[-1]):
            objects = render(MATRIX[name], kube_version=version, api_versions=CUSTOM)
            assert {"Deployment", "Service", "Pod"} <= {one["kind"] for one in objects}, (name, version)
            for one in objects:
                if not one["apiVersion"].startswith(OF_OTHERS):
                    kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("name", MATRIX)
def test_the_command_lines_are_understood(name: str, tmp_path: Path) -> None:
    values = MATRIX[name]
    (tmp_path / "queues.yaml").touch()
    pod = one_of(scheduler(values), "Deployment")["spec"]["template"]["spec"]
    daemon, shim = (settings_of(one, tmp_path).model_dump() for one in pod["containers"])
    assert daemon["grpc_bind"] == shim["daemon"] == "unix:/run/schedulerd/grpc.sock"
    assert shim["scheduler_name"] == tuple(values.get("schedulerNames", ["schedulerd"]))
    assert shim["leader_elect"] is (name != "alone")


@each_row("name", MATRIX)
def test_pods_are_hardened(name: str) -> None:
    pods = [one["spec"]["template"]["spec"] for one in render(MATRIX[name]) if one["kind"] == "Deployment"]
    for pod in [*pods, one_of(render(MATRIX[name]), "Pod")["spec"]]:
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False, "variables of Services would be taken for settings"
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
        if MATRIX[name].get("podSecurityContext", {}) is not None:
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_user_is_that_of_the_image() -> None:
    user = parse((CHART.parents[1] / "Dockerfile").read_text())[-1].last("USER").text
    context = one_of(scheduler(), "Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


@pytest.mark.smoke
def test_the_shim_alone_has_a_token_and_the_daemon_alone_the_queue_file() -> None:
    daemon, shim = one_of(scheduler(MATRIX["webhooks"]), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in daemon["volumeMounts"]] == ["run", "queues", "tls"]
    assert [one["name"] for one in shim["volumeMounts"]] == ["run", "api-access"]


def test_rights_are_those_of_what_is_on() -> None:
    def rights(values: JSON | None = None, custom: tuple[str, ...] = CUSTOM) -> frozenset[Right]:
        return rights_of(scheduler(values, api_versions=custom), "ClusterRole")

    everywhere = granted("ClusterRole")
    assert rights() == everywhere
    assert rights(custom=()) == everywhere - {(verb, "scheduling.x-k8s.io", "podgroups") for verb in ("list", "watch")}
    both = {"gangs": {"podGroups": True, "schedulingGroups": True}}
    assert rights(both, custom=()) == everywhere | SCHEDULING_GROUPS
    assert rights({"gangs": {"placeholders": "none"}}) == everywhere - {("create", "", "pods")}
    assert rights_of(render({"rbac": {"create": False}})) == frozenset()


def test_pod_groups_that_are_not_watched_need_no_rights() -> None:
    for custom, flag in (((), "--no-pod-groups"), (CUSTOM, "--pod-groups")):
        _, shim = one_of(scheduler(api_versions=custom), "Deployment")["spec"]["template"]["spec"]["containers"]
        assert flag in shim["args"]


def test_with_leader_election_there_are_rights_on_one_lease_in_the_own_namespace() -> None:
    role = one_of(scheduler(), "Role")
    assert role["metadata"]["namespace"] == "schedulerd"
    named = [rule for rule in role["rules"] if rule.get("resourceNames") == ["schedulerd"]]
    assert [rule["verbs"] for rule in named] == [["get", "list", "watch", "update"]]
    assert rights_of([role]) == {
        *((verb, "coordination.k8s.io", "leases") for verb in ("create", "get", "list", "watch", "update")),
        ("patch", "", "pods"),
    }


def test_without_leader_election_there_is_never_more_than_one() -> None:
    assert one_of(scheduler(ALONE), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert not [one for one in scheduler(ALONE) if one["kind"] in ("Role", "RoleBinding")]
    strategy = one_of(scheduler(), "Deployment")["spec"]["strategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def test_a_changed_queue_file_starts_no_pod_again() -> None:
    first, second = (scheduler({"queueFile": {"text": text}}) for text in ("partitions: []", "partitions: [{}]"))
    assert one_of(first, "ConfigMap", "schedulerd-queues") != one_of(second, "ConfigMap", "schedulerd-queues")
    assert one_of(first, "Deployment") == one_of(second, "Deployment")


def test_a_config_map_of_yunikorn_is_mounted_as_it_is() -> None:
    objects = scheduler({**MATRIX["objects of others"], "dashboards": OFF})
    assert not [one for one in objects if one["kind"] in ("ConfigMap", "ServiceAccount", "ClusterRole")]
    pod = one_of(objects, "Deployment")["spec"]["template"]["spec"]
    assert {"name": "queues", "configMap": {"name": "yunikorn-configs"}} in pod["volumes"]
    assert pod["serviceAccountName"] == "theirs"


@pytest.mark.parametrize(("version", "expected"), [("1.28", "v1beta3"), ("1.29", "v1"), ("1.36", "v1")])
def test_flow_schemas_have_the_newest_version_that_there_is(version: str, expected: str) -> None:
    schemas = [one for one in render(kube_version=version) if one["kind"] == "FlowSchema"]
    assert [one["apiVersion"] for one in schemas] == [f"flowcontrol.apiserver.k8s.io/{expected}"] * 2


def test_kinds_that_the_server_lacks_are_left_out() -> None:
    kinds = {"PodMonitor", "PrometheusRule"}
    assert not kinds & {one["kind"] for one in render()}
    objects = render({"prometheusRule": {"runbookUrl": "https://x/"}}, api_versions=CUSTOM)
    assert kinds <= {one["kind"] for one in objects}
    rules = [rule for group in one_of(objects, "PrometheusRule")["spec"]["groups"] for rule in group["rules"]]
    assert all(rule["annotations"]["runbook_url"] == f"https://x/{rule['alert']}.md" for rule in rules)


@each_row(
    ("values", "words"),
    [
        ({"replica": 2}, "replica"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"replicas": "two"}, "/replicas"),
        ({"leaderElection": {"enabled": False}}, "replicas: more than 1 needs leaderElection.enabled"),
        ({"replicas": -1}, "/replicas"),
        ({"image": {"tag": "a b"}}, "/image/tag"),
        ({"image": {"digest": "sha256:12"}}, "/image/digest"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"schedulerNames": []}, "/schedulerNames"),
        ({"schedulerNames": ["default-scheduler"]}, "podSchedulerName: default-scheduler is one of schedulerNames"),
        ({"gangs": {"placeholders": "some"}}, "/gangs/placeholders"),
        ({"gangs": {"podGroups": "maybe"}}, "/gangs/podGroups"),
        ({"daemon": {"extraArgs": ["retention-days"]}}, "/daemon/extraArgs/0"),
        ({"daemon": {"logLevel": "trace"}}, "/daemon/logLevel"),
        ({"shim": {"resources": {"requests": {"memory": "1 GB"}}}}, "/shim/resources/requests/memory"),
        ({"probes": {"liveness": {"periodSeconds": 0}}}, "/probes/liveness/periodSeconds"),
        ({"terminationGracePeriodSeconds": 5}, "/terminationGracePeriodSeconds"),
        ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "/podDisruptionBudget/maxUnavailable"),
        ({"networkPolicy": {"apiServers": [{"cidr": "here", "port": 1}]}}, "/networkPolicy/apiServers/0/cidr"),
        ({"networkPolicy": {"apiServers": [{"cidr": "::/0"}]}}, "/networkPolicy/apiServers/0"),
        ({"prometheusRule": {"runbookUrl": "https://x"}}, "/prometheusRule/runbookUrl"),
        ({"queueFile": {"text": ""}}, "/queueFile/text"),
        ({"podLabels": {"a": 1}}, "/podLabels/a"),
        ({"podLabels": {"app.kubernetes.io/name": "x"}}, "/podLabels/app.kubernetes.io/name"),
        ({"podLabels": {"schedulerd.io/role": "leader"}}, "/podLabels/schedulerd.io/role"),
        ({"commonLabels": {"helm.sh/chart": "x"}}, "/commonLabels"),
        ({"helmTest": {"podLabels": {"app.kubernetes.io/instance": "x"}}}, "/helmTest/podLabels"),
        ({"queueFile": {"key": "queues.yml"}}, "/queueFile/key"),
        ({"bindAddress": "::"}, "/bindAddress"),
        ({"service": {"type": "ExternalName"}}, "/service/type"),
        ({"extraVolumes": [{"emptyDir": {}}]}, "/extraVolumes/0"),
        ({"daemon": {"extraVolumeMounts": [{"name": "a"}]}}, "/daemon/extraVolumeMounts/0"),
        ({"daemon": {"debugState": "token"}}, "/daemon/debugState"),
        ({"admission": {"excludedNamespaces": ["team-.*"]}}, "/admission/excludedNamespaces/0"),
        ({"admission": {"ports": {"webhooks": 0}}}, "/admission/ports/webhooks"),
        ({"podMonitor": {"scrapeTimeout": "soon"}}, "/podMonitor/scrapeTimeout"),
        ({"admission": {"trustedUsers": ["a,b"]}}, "/admission/trustedUsers/0"),
        ({"admission": {"trustedServiceAccounts": ["operator"]}}, "/admission/trustedServiceAccounts/0"),
        ({"admission": {"customResources": [{"group": "a.b", "resource": "c"}]}}, "/admission/customResources/0"),
        ({"admission": {"url": "http://x"}}, "/admission/url"),
        ({"admission": {"certificates": {"source": "vault"}}}, "/admission/certificates/source"),
        ({"admission": {"forgedUsers": {"failurePolicy": "Maybe"}}}, "/admission/forgedUsers/failurePolicy"),
        (
            {"leaderElection": {"enabled": True, "renewDeadlineSeconds": 15}},
            "leaderElection.renewDeadlineSeconds: 15 must be less than leaseDurationSeconds: 15",
        ),
        (
            {"leaderElection": {"enabled": True, "retryPeriodSeconds": 9}},
            "leaderElection.retryPeriodSeconds: 1.2 times 9 must be less than renewDeadlineSeconds: 10",
        ),
    ],
)
def test_wrong_values_are_refused_by_name(values: JSON, words: str) -> None:
    with pytest.raises(HelmFailed) as refused:
        render(values)
    assert words.replace("/", ".").strip(".") in re.sub(r"/|~1", ".", str(refused.value))


def test_the_versions_are_those_of_the_package() -> None:
    shown = run("show", "chart", str(CHART))
    assert f"\nversion: {schedulerd.__version__}\n" in f"\n{shown}"
    assert f"\nappVersion: {schedulerd.__version__}\n" in f"\n{shown}"
    assert "kubeVersion" not in shown
