"""What the chart makes for the admission webhooks, and what never changes, whatever the values are."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from schedulerd.kubernetes.admission.rules.workloads import BUILT_IN, PODS
from schedulerd.kubernetes.admission.settings import AdmissionSettings
from tests.kubernetes.admission.expressions import Policy, is_asked
from tests.kubernetes.admission.reviews import CUSTOM, OF_CHART, OWN, pod, review, user_info
from tests.kubernetes.chart.helm import HelmFailed, admission, needs_helm, one_of, render
from tests.kubernetes.chart.test_templates import MATRIX, OFF
from tests.kubernetes.command_lines import settings_of
from tests.kubernetes.rights import rights_of

pytestmark = needs_helm
JSON = dict[str, Any]
CERT_MANAGER = {"admission": {"certificates": {"source": "cert-manager"}}}
BEFORE_POLICIES = "1.29"
OF_THE_INSTALLATION = {
    "namespace",
    "scheduler_name",
    "queue_config_map",
    "policy_group",
    "daemon",
    "daemon_ca_file",
    "daemon_cert_file",
    "daemon_key_file",
    "certificate_names",
    *OF_CHART,
}
"""Settings that the chart gives because it knows them."""


def with_admission(values: JSON) -> JSON:
    return {**values, "admission": {"enabled": True, **values.get("admission", {})}}


def settings(values: JSON, folder: Path) -> AdmissionSettings:
    pod = one_of(admission(values), "Deployment")["spec"]["template"]["spec"]
    found = settings_of(pod["containers"][0], folder)
    assert isinstance(found, AdmissionSettings)
    return found


def test_the_defaults_of_the_values_are_those_of_the_settings(tmp_path: Path) -> None:
    found, default = settings({}, tmp_path), AdmissionSettings()
    changed = {name for name in AdmissionSettings.model_fields if getattr(found, name) != getattr(default, name)}
    # The queue file has its own default, and names are those of a release with the name of the chart.
    assert changed <= OF_THE_INSTALLATION
    assert found.queue_config_map == default.queue_config_map
    assert found.scheduler_name == default.scheduler_name


@pytest.mark.parametrize("name", [name for name in MATRIX if MATRIX[name].get("admission", OFF) != OFF])
def test_the_command_line_is_understood(name: str, tmp_path: Path) -> None:
    values = MATRIX[name]
    found = settings(values, tmp_path)
    fullname = values.get("fullnameOverride", "schedulerd")
    assert (found.namespace, found.service) == ("schedulerd", f"{fullname}-admission")
    assert found.queue_config_map == values.get("queueFile", {}).get("existingConfigMap", f"{fullname}-queues")
    assert (found.tls_dir is not None) is (found.mutating_configuration != fullname or "certificates" in name)


def test_everything_that_can_be_set_arrives(tmp_path: Path) -> None:
    found = settings(MATRIX["everything"], tmp_path)
    assert found.process_namespaces == found.label_namespaces == ("team-.*",)
    assert (found.no_label_namespaces, found.trusted_groups) == (("team-x",), ("ops",))
    assert found.custom_resources == ("example.com/batches=spec.a+spec.b.*.template",)
    assert (found.one_application_per_pod, found.drain_timeout_s) == (True, 3.0)
    assert found.scheduler_name == ("schedulerd", "yunikorn")


@pytest.mark.parametrize("values", [{}, {"admission": OFF}])
def test_it_is_there_by_value_only(values: JSON) -> None:
    """An installation with default values changes no pod of anybody."""
    objects = render(values)
    names = {one["metadata"]["name"] for one in objects}
    assert not [name for name in names if "admission" in name or "break-glass" in name]
    assert not [one["kind"] for one in objects if one["apiVersion"].startswith("admissionregistration.k8s.io/")]
    daemon, _ = one_of(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert not [one for one in daemon["args"] if "tls" in one]


def webhooks(objects: list[JSON]) -> dict[str, JSON]:
    return {webhook["name"]: webhook for one in objects for webhook in one.get("webhooks") or ()}


def asked_about(webhook: JSON, operation: str) -> set[tuple[str, str]]:
    return {
        (group, resource)
        for rule in webhook["rules"]
        if operation in rule["operations"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_webhooks_are_asked_about_every_kind_that_there_are_rules_for() -> None:
    own = {(one.group, one.resource) for one in BUILT_IN}
    custom = {(one.group, one.resource) for one in CUSTOM}
    for version in (BEFORE_POLICIES, "1.30"):
        found = webhooks(admission(kube_version=version))
        assert asked_about(found["pods.schedulerd.io"], "CREATE") == {PODS, *own, *custom}
        assert asked_about(found["pods.schedulerd.io"], "UPDATE") == own | custom
        pods = {PODS, ("", "pods/status")}
        assert asked_about(found["users.schedulerd.io"], "UPDATE") == {*pods, *own, *custom}
        bindings = set() if version == BEFORE_POLICIES else {("", "pods/binding"), ("", "bindings")}
        assert asked_about(found["users.schedulerd.io"], "CREATE") == {PODS, *bindings, *own, *custom}
    found = webhooks(admission(MATRIX["everything"], kube_version="1.30"))
    assert ("example.com", "batches") in asked_about(found["users.schedulerd.io"], "CREATE")
    assert ("example.com", "batches") in asked_about(found["pods.schedulerd.io"], "CREATE")


def test_the_port_of_the_webhooks_is_limited() -> None:
    def sources(**values: Any) -> list[JSON]:
        policies = [one for one in admission({"networkPolicy": values}) if one["kind"] == "NetworkPolicy"]
        (policy,) = (one for one in policies if one["metadata"]["name"].endswith("-admission"))
        (rule,) = (one for one in policy["spec"]["ingress"] if one["ports"][0]["port"] == "webhooks")
        return list(rule["from"])

    agents = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    assert sources() == [agents, {"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]
    assert sources(podCIDRs=["10.244.0.0/16", "fd00::/48"]) == [
        agents,
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/16"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fd00::/48"]}},
    ]
    known = [{"ipBlock": {"cidr": "192.0.2.7/32"}}]
    assert sources(webhooksFrom=known) == known


VALUES: tuple[tuple[Any, Any], ...] = (
    (BEFORE_POLICIES, "1.30"),
    ("auto", "webhook"),
    ("Fail", "Ignore"),
    ("own", "cert-manager"),
    ([], None),
    ([], [".*"]),
    ([], ["cni", "kube-system"]),
)
COMBINATIONS = [
    tuple(pair[(row & at).bit_count() % 2] for at, pair in enumerate(VALUES, start=1)) for row in range(len(VALUES) + 1)
]
"""An orthogonal array: each two values meet."""


@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_what_is_never_touched(combination: tuple[Any, ...]) -> None:
    """Whatever the values are: kube-system, the namespace of the release, and so schedulerd's own pods."""
    version, refused_by, failure, source, custom, patterns, excluded = combination
    values: JSON = {
        "enabled": True,
        "excludedNamespaces": excluded,
        "forgedUsers": {"refusedBy": refused_by, "failurePolicy": failure},
        "certificates": {"source": source},
        "processNamespaces": patterns,
        "bypassNamespaces": [],
        "labelNamespaces": patterns,
        "trustedUsers": [],
        "trustedServiceAccounts": [],
        **({} if custom is None else {"customResources": custom}),
    }
    objects = render({"admission": values}, namespace="batch", kube_version=version)
    forged = pod({OWN: user_info("bob")})
    for namespace, is_touched in (("kube-system", False), ("batch", False), ("cni", not excluded), ("team", True)):
        asked = review(forged, namespace=namespace)["request"]
        found = webhooks(objects)
        assert is_asked(found["pods.schedulerd.io"], asked) is is_touched
        policies = [Policy(one) for one in objects if one["kind"] == "ValidatingAdmissionPolicy"]
        by_webhook = "users.schedulerd.io" in found and is_asked(found["users.schedulerd.io"], asked)
        assert ([policy.refusal(asked) != "" for policy in policies] or [by_webhook]) == [is_touched]
    for one in objects:
        if one["kind"] in ("Deployment", "Pod"):
            assert one["metadata"]["namespace"] == "batch"
        if one["kind"] == "Deployment":
            assert one["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"


def test_failure_policies() -> None:
    """Everything goes on without webhooks, unless the value says that forged users never pass."""
    for version, value in itertools.product((BEFORE_POLICIES, "1.30"), ("Fail", "Ignore", None)):
        forged = {} if value is None else {"forgedUsers": {"failurePolicy": value}}
        objects = admission({"admission": forged}, kube_version=version)
        found = {name: one["failurePolicy"] for name, one in webhooks(objects).items()}
        expected = dict.fromkeys(found, "Ignore") | {"users.schedulerd.io": value or "Ignore"}
        assert found == expected
        policies = [one for one in objects if one["kind"] == "ValidatingAdmissionPolicy"]
        assert [one["spec"]["failurePolicy"] for one in policies] == ([] if version == BEFORE_POLICIES else ["Fail"])
    with pytest.raises(HelmFailed, match="policy needs ValidatingAdmissionPolicy"):
        admission({"admission": {"forgedUsers": {"refusedBy": "policy"}}}, kube_version=BEFORE_POLICIES)


def test_the_queue_file_is_the_one_that_is_validated() -> None:
    labels = one_of(render(), "ConfigMap", "schedulerd-queues")["metadata"]["labels"]
    selector = webhooks(admission())["queues.schedulerd.io"]["objectSelector"]["matchLabels"]
    assert selector.items() <= labels.items()


def test_rights_are_those_of_what_it_does() -> None:
    needed = {
        *((verb, "", "namespaces") for verb in ("get", "list", "watch")),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    }
    objects = [one for one in admission() if not one["metadata"]["name"].endswith("break-glass")]
    of_certificates = {
        (verb, "admissionregistration.k8s.io", f"{kind}webhookconfigurations")
        for verb in ("get", "patch")
        for kind in ("mutating", "validating")
    }
    assert rights_of(objects, "ClusterRole") == needed | of_certificates
    assert rights_of(objects, "Role") == {("get", "", "secrets"), ("update", "", "secrets")}
    for role in (one for one in objects if one["kind"] in ("ClusterRole", "Role")):
        for rule in role["rules"]:
            assert "resourceNames" in rule or {verb for verb, *_ in needed} >= set(rule["verbs"])
    objects = [one for one in admission(CERT_MANAGER) if not one["metadata"]["name"].endswith("break-glass")]
    assert rights_of(objects) == needed


def test_who_may_break_the_glass() -> None:
    assert not [one for one in admission() if one["kind"] == "RoleBinding" and "break" in one["metadata"]["name"]]
    objects = admission(MATRIX["everything"])
    binding = one_of(objects, "RoleBinding", "batch-break-glass")
    role = one_of(objects, "Role", binding["roleRef"]["name"])
    assert role["rules"][0]["resourceNames"] == ["batch-queues"]
    assert binding["subjects"] == MATRIX["everything"]["admission"]["breakGlass"]["subjects"]


def test_certificates_of_its_own_are_in_a_secret_that_is_there_first() -> None:
    objects = admission()
    assert "data" not in one_of(objects, "Secret", "schedulerd-admission-tls")
    for one in render(with_admission({})):
        if one["kind"] == "Deployment":
            (volume,) = [each for each in one["spec"]["template"]["spec"]["volumes"] if each["name"] == "tls"]
            assert {item["key"] for item in volume["secret"]["items"]} == {"tls.crt", "tls.key", "ca.crt"}
    assert not [one for one in objects if one["apiVersion"].startswith("cert-manager.io/")]


def test_certificates_of_cert_manager() -> None:
    objects = admission(CERT_MANAGER)
    leaf = one_of(objects, "Certificate", "schedulerd-admission")["spec"]
    names = ["schedulerd-admission.schedulerd.svc", "schedulerd-leader.schedulerd.svc"]
    assert (leaf["secretName"], leaf["dnsNames"]) == ("schedulerd-admission-tls", names)
    authority = one_of(objects, "Certificate", "schedulerd-admission-authority")["spec"]
    assert one_of(objects, "Issuer", leaf["issuerRef"]["name"])["spec"]["ca"]["secretName"] == authority["secretName"]
    for one in objects:
        if one["kind"].endswith("WebhookConfiguration"):
            assert one["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == "schedulerd/schedulerd-admission"
    assert not [one for one in objects if one["kind"] == "Secret"]
    theirs = admission(MATRIX["certificates of an issuer"])
    assert one_of(theirs, "Certificate")["spec"]["issuerRef"] == {"name": "ours", "kind": "ClusterIssuer"}
    assert not [one for one in theirs if one["kind"] == "Issuer"]


def test_the_daemon_is_asked_by_its_leader_with_certificates(tmp_path: Path) -> None:
    found = settings({}, tmp_path)
    assert found.daemon == "schedulerd-leader.schedulerd.svc:3333"
    assert found.certificate_names == ("schedulerd-leader.schedulerd.svc",)
    assert None not in (found.daemon_ca_file, found.daemon_cert_file, found.daemon_key_file)
    objects = render(with_admission({}))
    ports = one_of(objects, "Service", "schedulerd-leader")["spec"]["ports"]
    assert {"name": "grpc", "port": 3333, "targetPort": "grpc", "protocol": "TCP"} in ports
    ingress = one_of(objects, "NetworkPolicy", "schedulerd")["spec"]["ingress"]
    (rule,) = [one for one in ingress if one["ports"][0]["port"] == "grpc"]
    labels = one_of(admission(), "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert rule["from"][0]["podSelector"]["matchLabels"].items() <= labels.items()


def test_a_url_instead_of_the_service(tmp_path: Path) -> None:
    values = MATRIX["webhooks alone"]
    clients = {name: one["clientConfig"] for name, one in webhooks(admission(values)).items()}
    assert clients["pods.schedulerd.io"] == {"url": "https://webhooks.example:8443/mutate"}
    assert "webhooks.example" in settings(values, tmp_path).certificate_names
