"""`config/kubernetes/admission`: what the API server is told agrees with what the webhooks do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from schedulerd.kubernetes.admission.break_glass import GROUP, RESOURCE, VERB
from schedulerd.kubernetes.admission.process import CHECK_QUEUES, CHECK_USERS, MUTATE
from schedulerd.kubernetes.admission.rules.workloads import BUILT_IN, PODS
from schedulerd.kubernetes.admission.settings import AdmissionSettings
from tests.kubernetes.admission.reviews import CUSTOM

FOLDER = Path(__file__).parents[3] / "config" / "kubernetes" / "admission"
OWN = "schedulerd"
SETTINGS = AdmissionSettings()
VERSIONS = [f"1.{minor}" for minor in range(28, 38)]


def documents(name: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all((FOLDER / name).read_text()))


CONFIGURATIONS = documents("webhooks-before-1.30.yaml")
"""In which webhooks do what newer servers do by a policy too."""
WEBHOOKS = {webhook["name"]: webhook for one in CONFIGURATIONS for webhook in one["webhooks"]}


def asked(webhook: dict[str, Any], operation: str) -> set[tuple[str, str]]:
    """Groups and resources for which the webhook is called."""
    return {
        (group, resource)
        for rule in webhook["rules"]
        if operation in rule["operations"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("rbac.yaml", VERSIONS),
        ("deployment.yaml", VERSIONS),
        ("webhooks.yaml", VERSIONS[2:]),
        ("webhooks-before-1.30.yaml", VERSIONS),
    ],
)
def test_manifests_are_what_kubernetes_takes(name: str, versions: list[str]) -> None:
    import kubernetes_validate  # takes four seconds, which no other test need wait

    for version in versions:
        for document in documents(name):
            kubernetes_validate.validate(document, version, strict=True)


def test_the_mutating_webhook_is_asked_about_every_kind_that_there_are_rules_for() -> None:
    kinds = {(one.group, one.resource) for one in (*BUILT_IN, *CUSTOM)}
    assert asked(WEBHOOKS["pods.schedulerd.io"], "CREATE") == {PODS, *kinds}
    assert asked(WEBHOOKS["pods.schedulerd.io"], "UPDATE") == kinds


def test_the_users_webhook_is_asked_about_at_least_these() -> None:
    for operation in ("CREATE", "UPDATE"):
        found = asked(WEBHOOKS["users.schedulerd.io"], operation)
        for kind in (PODS, *((one.group, one.resource) for one in (*BUILT_IN, *CUSTOM))):
            assert kind in found or (kind[0], "*") in found


def test_paths_and_names_are_those_of_the_process() -> None:
    paths = {name: webhook["clientConfig"]["service"]["path"] for name, webhook in WEBHOOKS.items()}
    assert paths == {
        "pods.schedulerd.io": f"/{MUTATE}",
        "users.schedulerd.io": f"/{CHECK_USERS}",
        "queues.schedulerd.io": f"/{CHECK_QUEUES}",
    }
    for webhook in WEBHOOKS.values():
        service = webhook["clientConfig"]["service"]
        assert (service["name"], service["namespace"]) == (SETTINGS.service, OWN)
        assert "caBundle" not in webhook["clientConfig"]
        assert webhook["sideEffects"] == "None"
    names = [one["metadata"]["name"] for one in CONFIGURATIONS]
    assert names == [SETTINGS.mutating_configuration, SETTINGS.validating_configuration]


def test_failure_policies() -> None:
    """Webhooks that are away stop nothing, unless somebody sets Fail for forged users."""
    assert {name: webhook["failurePolicy"] for name, webhook in WEBHOOKS.items()} == {
        "pods.schedulerd.io": "Ignore",
        "users.schedulerd.io": "Ignore",
        "queues.schedulerd.io": "Ignore",
    }
    assert all(webhook["timeoutSeconds"] <= 10 for webhook in WEBHOOKS.values())


def test_the_right_to_break_the_glass() -> None:
    (role,) = (one for one in documents("rbac.yaml") if one["metadata"]["name"] == "schedulerd-break-glass")
    assert role["rules"] == [
        {"apiGroups": [GROUP], "resources": [RESOURCE], "resourceNames": [SETTINGS.queue_config_map], "verbs": [VERB]}
    ]
